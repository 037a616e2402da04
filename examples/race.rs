//! The first of several answers: mirrors that are asked at the same time, and hedged requests. The
//! losers are cancelled and waited for, and what they obtained all the same is there to be given
//! back. It runs in simulated time: the times are exact.

use segue::concurrent::{first_ok, race};
use segue::sync::Mutex;
use segue::testing::Sim;
use segue::{Cancelled, now, sleep};
use std::time::Duration;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A mirror: it answers after a while, or is down.
fn ask(mirror: &str, pause: Duration) -> Result<String, String> {
    sleep(pause).map_err(|cancelled| format!("{mirror}: {cancelled}"))?;
    if mirror == "down" { Err(format!("{mirror}: no answer")) } else { Ok(format!("page of {mirror}")) }
}

/// Asks a second time if the first answer is late: so one slow server does not hold up everybody.
fn hedged(slow: Duration) -> Result<(usize, Duration), Cancelled> {
    let start = now();
    let wait = |number: u64, pause| {
        sleep(ms(20) * number as u32)?;
        sleep(pause).map(|()| number)
    };
    let first = race([(0, slow), (1, ms(5))].map(|(number, pause)| move || wait(number, pause)))?;
    first.value.map(|_| (first.index, now() - start))
}

fn main() {
    let run = Sim::new(1).run(|| {
        let start = now();
        let mirrors = [("far", ms(80)), ("down", ms(1)), ("near", ms(12))];
        let first = first_ok(mirrors.map(|(mirror, pause)| move || ask(mirror, pause))).unwrap();
        assert_eq!((first.value.as_str(), now() - start), ("page of near", ms(12)));
        // Why the others have no page: one was cancelled, one was down.
        assert_eq!(first.others[0], (0, Err("far: cancelled".to_owned())));
        assert_eq!(first.others[1], (1, Err("down: no answer".to_owned())));

        // A quick answer is alone; a slow one is overtaken by the second try, at 20 + 5 ms.
        assert_eq!(hedged(ms(10)).unwrap(), (0, ms(10)));
        assert_eq!(hedged(ms(500)).unwrap(), (1, ms(25)));

        // Two draw tickets. The loser has one, too, and nobody has lost it.
        let tickets = Mutex::new(vec!["red", "blue"]);
        let draw = || tickets.lock().map(|mut tickets| tickets.pop().unwrap());
        let first = race([&draw, &draw]).unwrap();
        let drawn = 1 + first.others.iter().filter(|(_, ticket)| ticket.is_ok()).count();
        assert_eq!(drawn + tickets.lock().unwrap().len(), 2);
    });
    run.expect("no deadlock");
    println!("the nearest mirror has answered, and nothing was lost");
}
