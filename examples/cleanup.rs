//! Cleanup that waits, in its time: a server that is asked to finish, with a daemon, and hooks that
//! have a budget.
//!
//! In a simulation, so that it takes no time.

use segue::cancel::{Overran, finishing_source};
use segue::testing::Sim;
use segue::{Builder, Either, after, now, scope, shield, sleep};
use std::sync::Mutex;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn main() {
    let (mut log, took) = Sim::new(3).run(serve).unwrap();
    // Both are cancelled when the grace is over.
    log[1..3].sort();
    log.iter().for_each(|line| println!("{line}"));
    assert_eq!(log[0], "the server has answered 10 requests, and accepts no more");
    assert_eq!(log[1], "the download: cancelled: asked to finish, and not over after 5s: `download`");
    assert_eq!(log[2], "the meter has stopped");
    assert!(log[3].starts_with("the goodbye: the cleanup at ") && log[3].contains("examples/cleanup.rs:"));
    assert!(log[3].ends_with("has used up its budget of 2s"));
    assert_eq!(log[4], "the file is closed");
    // Ten requests, the grace of the download, the budget of the goodbye.
    assert_eq!(took, 17 * SECOND);
}

fn serve() -> (Vec<String>, Duration) {
    let (log, before) = (Mutex::new(Vec::new()), now());
    let say = |line: String| log.lock().unwrap().push(line);
    scope(|s| {
        s.on_exit(Duration::from_secs(10), || say("the file is closed".to_owned()));
        s.on_exit(2 * SECOND, || {
            // A shield of its own does not help it.
            let ended = shield(|| sleep(Duration::MAX)).unwrap_err();
            let overran: &Overran = ended.reason().unwrap().downcast_ref().unwrap();
            say(format!("the goodbye: {overran}"));
        });
        s.spawn_daemon(|| {
            while after(SECOND).wait().is_ok() {}
            say("the meter has stopped".to_owned());
        });
        s.spawn(|| {
            let mut answered = 0;
            while let Ok(Either::Left(())) = after(SECOND).or(finishing_source()).wait() {
                answered += 1;
            }
            say(format!("the server has answered {answered} requests, and accepts no more"));
        });
        Builder::new().name("download").within(s).spawn(|| {
            let ended = sleep(Duration::MAX).unwrap_err();
            say(format!("the download: {ended}"));
        });
        sleep(10 * SECOND + SECOND / 2).unwrap();
        // The server ends by itself, and the download when its grace is over.
        s.cancel_soft(5 * SECOND);
    });
    let took = now() - before - SECOND / 2;
    (log.into_inner().unwrap(), took)
}
