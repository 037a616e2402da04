//! A channel in which what is urgent goes first: two channels, and a biased choice between them.

use segue::channel::{self, Receiver, Sender};
use segue::testing::Explore;
use segue::{WaitError, scope, select};

/// The places of the two kinds.
const URGENT: usize = 0;
const NORMAL: usize = 1;

fn priority_channel<T>(capacity: usize) -> ([Sender<T>; 2], [Receiver<T>; 2]) {
    let ((urgent, urgent_inbox), (normal, inbox)) = (channel::bounded(capacity), channel::bounded(capacity));
    ([urgent, normal], [urgent_inbox, inbox])
}

/// The next value, an urgent one if one is there. If one channel is at its end, that of the other.
fn recv<T>([urgent, normal]: &[Receiver<T>; 2]) -> Result<T, WaitError> {
    select! {
        biased;
        value = urgent.recv_source() => value.or_else(|_closed| normal.recv()),
        value = normal.recv_source() => value.or_else(|_closed| urgent.recv()),
    }?
}

fn main() {
    let explored = Explore::random(200).check(|| {
        let (senders, receivers) = priority_channel(4);
        scope(|s| {
            for n in 0..4 {
                senders[NORMAL].send(n).unwrap();
            }
            senders[URGENT].send(100).unwrap();
            assert_eq!(recv(&receivers), Ok(100), "it overtakes four");

            let late = senders.clone();
            s.spawn(move || late[URGENT].send(101));
            drop(senders);
            let mut rest: Vec<_> = std::iter::from_fn(|| recv(&receivers).ok()).collect();
            assert_eq!(recv(&receivers), Err(WaitError::Closed));
            let place = rest.iter().position(|n| *n == 101).expect("nothing is lost");
            rest.remove(place);
            assert_eq!(rest, [0, 1, 2, 3], "each kind is in its order");
        });
    });
    println!("urgent values went first, under {} schedules", explored.schedules);
}
