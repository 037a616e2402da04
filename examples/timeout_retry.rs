//! Retry with a time limit and back-off. A time-out is a cancellation, and a cancelled send gives
//! its value back, so each letter arrives exactly once, however often it was tried. It runs in
//! simulated time: the times are exact.

use segue::channel::{self, Sender};
use segue::testing::Sim;
use segue::{Rejected, WaitError, now, scope, sleep, timeout};
use std::time::Duration;

const LIMIT: Duration = Duration::from_millis(10);
const ATTEMPTS: u32 = 5;

/// Sends, and tries again with pauses that grow. Whatever goes wrong, the value is in the error.
fn send_patiently<T>(to: &Sender<T>, mut value: T) -> Result<u32, Rejected<T, WaitError>> {
    for attempt in 1..ATTEMPTS {
        match timeout(LIMIT, || to.send(value)) {
            Ok(()) => return Ok(attempt),
            Err(late) if late.error.timed_out() => value = late.value,
            Err(closed) => return Err(closed),
        }
        // Cancelled from further out, it ends here, at the latest.
        if let Err(cancelled) = sleep(LIMIT * 2_u32.pow(attempt)) {
            return Err(Rejected { value, error: cancelled.into() });
        }
    }
    timeout(LIMIT, || to.send(value)).map(|()| ATTEMPTS)
}

fn main() {
    let simulated = Sim::new(1).run(|| {
        let (letters, inbox) = channel::rendezvous();
        let start = now();
        scope(|s| {
            let reader = s.spawn(|| {
                // It is out at first. What is sent meanwhile has to be tried again.
                sleep(Duration::from_millis(75))?;
                let first_two = [inbox.recv()?, inbox.recv()?];
                Ok::<_, WaitError>((first_two, (now() - start).as_millis()))
            });
            // Tried at 0, 30 and 80 ms, for 10 ms each time.
            assert_eq!(send_patiently(&letters, "Dear reader").unwrap(), 3);
            assert_eq!(send_patiently(&letters, "Yours").unwrap(), 1);
            assert_eq!(reader.join().unwrap().unwrap(), (["Dear reader", "Yours"], 80));
        });

        // Nobody reads any more: it gives up, or is made to, and the letter is not lost.
        let given_up = send_patiently(&letters, "P.S.").unwrap_err();
        assert!(given_up.value == "P.S." && given_up.error.timed_out());
        let cut_short = timeout(Duration::from_millis(15), || send_patiently(&letters, given_up.value)).unwrap_err();
        assert!(cut_short.value == "P.S." && cut_short.error.timed_out());
        drop(inbox);
        assert_eq!(send_patiently(&letters, cut_short.value).unwrap_err().error, WaitError::Closed);
    });
    simulated.expect("no deadlock");
    println!("two letters arrived, each once; the third came back");
}
