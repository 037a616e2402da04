//! Receives from a broadcast until its end, for the tests of broadcasts.

use super::meet::block_on;
use segue::channel::broadcast::{Receiver, RecvError};

/// What came, and how many were missed.
pub fn drain(receiver: &mut Receiver<u64>, as_task: bool) -> (Vec<u64>, u64) {
    let (mut got, mut missed) = (Vec::new(), 0);
    loop {
        let received =
            if as_task { block_on(receiver.recv_source()).map_err(RecvError::from) } else { receiver.recv() };
        match received {
            Ok(message) => got.push(message),
            Err(RecvError::Lagged(n)) => missed += n,
            Err(RecvError::Closed) => return (got, missed),
            Err(RecvError::Cancelled(_)) => panic!("nobody cancels"),
        }
    }
}
