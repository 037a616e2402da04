//! Ctrl-C as one arm of a choice: the work that was done is kept, and the program ends in order. A
//! second Ctrl-C would end it at once, were it to hang on its way out. Here another program presses
//! the keys.

use segue::process::{self, Command};
use segue::{channel, select, signal};
use std::io;
use std::time::Duration;

fn main() -> io::Result<()> {
    segue::run(|| {
        let stop = signal::ctrl_c()?;
        let (results, inbox) = channel::bounded(4);
        let worker = segue::spawn(move || (0_u64..).try_for_each(|n| results.send(n * n)));

        let presses = segue::spawn(|| {
            segue::sleep(Duration::from_millis(10))?;
            process::status(Command::new("sh").args(["-c", "kill -INT $PPID"]))
        });

        let (mut count, mut sum) = (0_u64, 0_u64);
        loop {
            select! {
                square = inbox.recv_source() => {
                    count += 1;
                    sum = sum.wrapping_add(square.expect("the worker goes on for ever"));
                },
                interrupted = stop.recv_source() => break interrupted?,
            }?;
        }
        drop(inbox);
        assert!(worker.join().expect("it does not panic").is_err(), "its channel is closed");
        assert!(presses.join().expect("it does not panic")?.success());
        println!("interrupted after {count} squares; their sum, as far as it fits, is {sum}");
        Ok(())
    })
}
