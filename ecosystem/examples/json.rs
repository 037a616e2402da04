//! JSON by serde_json: it parses while the text is still on its way, in many fibers of one worker.

use segue::net::UnixStream;
use serde::{Deserialize, Serialize};
use std::error::Error;
use std::io::Write;

/// What is sent.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
struct Order {
    number: usize,
    lines: Vec<(String, u32)>,
}

fn main() -> Result<(), Box<dyn Error>> {
    segue::runtime().workers(1).run(|| {
        segue::try_scope(|s| {
            let mut fibers = vec![];
            let mut senders = vec![];
            for number in 0..100 {
                let (sender, receiver) = UnixStream::pair()?;
                // Suspends the fiber whenever the text is not there yet.
                fibers.push(s.spawn(move || serde_json::from_reader::<_, Order>(receiver)));
                let order = Order { number, lines: vec![("tea".into(), 3), ("cups \"blue\"".into(), 12)] };
                senders.push((sender, serde_json::to_vec(&order)?, order));
            }
            // A few bytes for each in turn.
            let longest = senders.iter().map(|(_, text, _)| text.len()).max().unwrap_or(0);
            for at in (0..longest).step_by(5) {
                for (sender, text, _) in &mut senders {
                    sender.write_all(&text[at.min(text.len())..(at + 5).min(text.len())])?;
                }
                segue::yield_now()?;
            }
            for (fiber, (sender, _, order)) in fibers.into_iter().zip(senders) {
                drop(sender); // The end of the text.
                assert_eq!(fiber.join()??, order);
            }
            println!("100 orders were read while they came");
            Ok::<_, Box<dyn Error + Send + Sync>>(())
        })?;
        Ok(())
    })?
}
