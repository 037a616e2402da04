//! A bank with a planted race, which the simulator finds, names, and replays from its name; and the
//! same bank without it, which passes every schedule.
//!
//! The same as a test, in one line more: `crates/segue/tests/bank.rs`.

use segue::sched::{Explore, Schedule};
use segue::sync::Mutex;
use segue::{Cancelled, scope};

/// How a transfer looks at the balance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Care {
    /// It looks, lets go of the account, and takes the money afterwards. Others may have taken it
    /// by then.
    Careless,
    /// It looks and takes under one lock.
    Careful,
}

/// Accounts, each behind a lock of its own.
pub struct Bank {
    accounts: Vec<Mutex<i64>>,
    care: Care,
}

impl Bank {
    /// A bank with these balances.
    pub fn new(balances: &[i64], care: Care) -> Self {
        Self { accounts: balances.iter().copied().map(Mutex::new).collect(), care }
    }

    /// Moves money, if there is enough of it. Answers whether there was.
    pub fn transfer(&self, from: usize, to: usize, amount: i64) -> Result<bool, Cancelled> {
        let mut balance = self.accounts[from].lock()?;
        if *balance < amount {
            return Ok(false);
        }
        if self.care == Care::Careless {
            drop(balance);
            balance = self.accounts[from].lock()?;
        }
        *balance -= amount;
        drop(balance);
        *self.accounts[to].lock()? += amount;
        Ok(true)
    }

    /// Closes the bank, and says what is in the accounts.
    pub fn close(self) -> Vec<i64> {
        self.accounts.into_iter().map(Mutex::into_inner).collect()
    }
}

/// Two tellers serve the same customer at once, who has 100 and wants to spend 80 twice.
pub fn a_busy_day(care: Care) -> Result<(), String> {
    let bank = Bank::new(&[100, 0, 0], care);
    scope(|s| {
        s.spawn(|| bank.transfer(0, 1, 80));
        s.spawn(|| bank.transfer(0, 2, 80));
    });
    let balances = bank.close();
    if balances.iter().sum::<i64>() != 100 {
        return Err(format!("money was made or lost: {balances:?}"));
    }
    if balances.iter().any(|balance| *balance < 0) {
        return Err(format!("an account is overdrawn: {balances:?}"));
    }
    Ok(())
}

fn main() {
    let careless = || a_busy_day(Care::Careless);
    let found = Explore::random(1_000).run(careless).expect_err("the race is found");
    println!("found:    {found}");

    // What was printed is all that it takes.
    let printed = found.plainest().to_string();
    let schedule: Schedule = printed.parse().expect("a report names a schedule");
    let replayed =
        Explore::random(1).replay(&schedule, careless).expect_err("the same schedule leads to the same failure");
    println!("replayed: {replayed}");
    assert_eq!(replayed.cause, found.cause);

    let careful = Explore::exhaustive(100_000).run(|| a_busy_day(Care::Careful)).expect("one lock is enough");
    assert!(careful.complete);
    println!("without the race all {} schedules pass", careful.schedules);
}
