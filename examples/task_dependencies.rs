//! A runner of tasks that wait for their dependencies, with transactions: a task begins when all
//! that it needs is done and one of two machines is free, both in one step; a task that fails takes
//! those along that need it.
//!
//! Each task is a fiber, and its wait is a `retry`: there is no queue of ready tasks, no count of
//! open dependencies, and no code that wakes anybody.

use segue::stm::{Stop, TMap, TVar, Tx, atomically};
use segue::testing::Sim;
use segue::{now, scope, sleep};
use std::time::Duration;

/// A task: its name, the names of those that it needs, how long it takes.
type Task = (&'static str, &'static [&'static str], u64);

const TASKS: [Task; 7] = [
    ("link", &["compile a", "compile b", "fetch library"], 10),
    ("compile a", &["generate"], 40),
    ("compile b", &["generate"], 30),
    ("test", &["link"], 20),
    ("generate", &[], 10),
    ("fetch library", &[], 25),
    ("publish", &["test", "sign"], 10),
];

/// The tasks that are over, and whether they have succeeded; and the machines that are free.
struct Board {
    over: TMap<&'static str, bool>,
    machines: TVar<u32>,
}

impl Board {
    /// Waits for all that a task needs, and takes a machine; `false` if one of these has failed.
    fn begin(&self, tx: &Tx<'_>, needs: &[&'static str]) -> Result<bool, Stop> {
        let mut all_over = true;
        for name in needs {
            match self.over.get(tx, name)? {
                Some(false) => return Ok(false),
                succeeded => all_over &= succeeded.is_some(),
            }
        }
        let free = *tx.read(&self.machines)?;
        tx.check(all_over && free > 0)?;
        tx.write(&self.machines, free - 1)?;
        Ok(true)
    }

    fn run(&self, (name, needs, takes): Task) {
        let begins = atomically(|tx| self.begin(tx, needs)).expect("nobody cancels");
        let begun = now();
        if begins {
            sleep(Duration::from_millis(takes)).expect("nobody cancels");
        }
        atomically(|tx| {
            tx.modify(&self.machines, |free| free + u32::from(begins))?;
            self.over.insert(tx, name, begins).map(drop)
        })
        .expect("nobody cancels");
        println!("{name}: {}", if begins { format!("{:?}", now() - begun) } else { "not run".to_owned() });
    }
}

fn main() {
    let run = Sim::new(7).run(|| {
        let board = Board { over: TMap::new(), machines: TVar::new(2) };
        atomically(|tx| board.over.insert(tx, "sign", false).map(drop)).expect("nobody cancels");
        let start = now();
        scope(|s| TASKS.iter().for_each(|task| drop(s.spawn(|| board.run(*task)))));
        let succeeded = |name| atomically(|tx| Ok(board.over.get(tx, name)? == Some(&true))).expect("nobody cancels");
        assert!(TASKS.iter().all(|(name, ..)| succeeded(name) == (*name != "publish")));
        // Two machines: generate and fetch, from 10 ms on one compilation, from 25 ms on the other
        // one, until 55; then the linker, and the test.
        assert!((85..=95).contains(&(now() - start).as_millis()), "{:?}", now() - start);
        assert_eq!(board.machines.get(), 2);
    });
    run.unwrap_or_else(|deadlock| panic!("{deadlock}"));
}
