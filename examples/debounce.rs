//! Debounce: acts on a value once it has stopped changing for a while. A watched value says that it
//! has changed, and a choice with a time-out says that it has not. It runs in simulated time.

use segue::channel::watch;
use segue::testing::Sim;
use segue::{WaitError, after, now, scope, select, sleep};
use std::sync::Arc;
use std::time::Duration;

const QUIET: Duration = Duration::from_millis(100);

/// The next value that has stayed for [`QUIET`], or is the last one.
fn settled<T>(watched: &mut watch::Receiver<T>) -> Result<Arc<T>, WaitError> {
    watched.changed()?;
    loop {
        let more = select! {
            changed = watched.changed_source() => changed.is_ok(),
            () = after(QUIET) => false,
        }?;
        if !more {
            return Ok(watched.get());
        }
    }
}

fn main() {
    let searched = Sim::new(1)
        .run(|| {
            let (typed, mut watched) = watch::channel(String::new());
            let start = now();
            scope(|s| {
                s.spawn(move || {
                    // The pauses of somebody who types.
                    for (pause, letter) in [(0, 's'), (50, 'e'), (50, 'g'), (500, 'u'), (99, 'e'), (99, '!')] {
                        sleep(Duration::from_millis(pause)).expect("nobody cancels");
                        typed.update(|text| format!("{text}{letter}"));
                    }
                });
                let mut searched = Vec::new();
                while let Ok(text) = settled(&mut watched) {
                    searched.push(((now() - start).as_millis(), text.to_string()));
                }
                searched
            })
        })
        .expect("no deadlock");
    println!("searched for {searched:?}");
    // After the last letter the sender has gone: there is nothing to wait for.
    assert_eq!(searched, [(200, "seg".to_string()), (798, "segue!".to_string())]);
}
