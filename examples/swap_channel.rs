//! The swap channel of Concurrent ML: two partners meet and exchange what they have brought. None
//! of them is the sender: each offers to send and to receive at once, and the two choices commit
//! together, so nobody swaps with two others.

use segue::channel::{self, Receiver, Sender};
use segue::sync::{Resolver, promise};
use segue::testing::Explore;
use segue::{Cancelled, scope, select, shield};

/// What one partner brings, and where it expects what the other one has brought.
type Offer<T> = (T, Resolver<T>);

struct SwapChannel<T>(Sender<Offer<T>>, Receiver<Offer<T>>);

impl<T> SwapChannel<T> {
    fn new() -> Self {
        let (sender, receiver) = channel::rendezvous();
        Self(sender, receiver)
    }

    /// Gives `mine` to a partner, and answers what that one has brought; waits for one.
    fn swap(&self, mine: T) -> Result<T, Cancelled> {
        let (resolver, answer) = promise();
        let mut offer = self.0.send_source((mine, resolver));
        select! {
            sent = offer.by_ref() => {
                sent.expect("both ends are here");
                // The partner has it, and is about to answer.
                shield(|| answer.take()).expect("it answers")
            },
            received = self.1.recv_source() => {
                let (theirs, partner) = received.expect("both ends are here");
                let (mine, _) = offer.into_value().expect("it was not sent");
                partner.fill(mine).expect("it waits");
                theirs
            },
        }
    }
}

fn main() {
    const PARTNERS: usize = 6;
    let explored = Explore::random(200).check(|| {
        let place = &SwapChannel::new();
        let got: Vec<usize> = scope(|s| {
            let partners: Vec<_> = (0..PARTNERS).map(|me| s.spawn(move || place.swap(me))).collect();
            partners.into_iter().map(|partner| partner.join().unwrap().unwrap()).collect()
        });
        for (me, partner) in got.iter().enumerate() {
            assert_ne!(me, *partner, "nobody swaps alone");
            assert_eq!(got[*partner], me, "whoever I have got it from has got mine");
        }
    });
    println!("{PARTNERS} partners swapped in pairs, under {} schedules", explored.schedules);
}
