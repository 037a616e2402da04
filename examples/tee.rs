//! One stream to two: each value goes to both sides, first to the one that is ready first. So a
//! slow side holds up the other by one value, and not before that has got it. If one has gone, the
//! other still gets all.

use segue::channel::{self, Receiver, Sender};
use segue::testing::Explore;
use segue::{Cancelled, scope, select};

fn tee<T: Clone>(input: Receiver<T>, left: Sender<T>, right: Sender<T>) -> Result<(), Cancelled> {
    for value in input {
        let mut to_left = left.send_source(value.clone());
        let mut to_right = right.send_source(value);
        let gone = select! {
            sent = to_left.by_ref() => sent.is_err() & to_right.wait()?.is_err(),
            sent = to_right.by_ref() => sent.is_err() & to_left.wait()?.is_err(),
        }?;
        if gone {
            break;
        }
    }
    Ok(())
}

fn main() {
    let explored = Explore::random(200).check(|| {
        let (sender, input) = channel::bounded(1);
        let (left, all) = channel::rendezvous();
        let (right, some) = channel::bounded(2);
        scope(|s| {
            s.spawn(move || tee(input, left, right));
            s.spawn(move || (0..10).try_for_each(|n| sender.send(n)));
            let some = s.spawn(move || some.iter().take(3).collect::<Vec<_>>());
            assert!(all.into_iter().eq(0..10), "whatever the other one does");
            assert_eq!(some.join().unwrap(), [0, 1, 2]);
        });

        // When both have gone, the input is given up as well.
        let (sender, input) = channel::unbounded();
        (0..10).for_each(|n| sender.send(n).unwrap());
        let [(left, _), (right, _)] = [channel::bounded(1), channel::bounded(1)];
        tee(input, left, right).unwrap();
        assert!(sender.is_closed());
    });
    println!("one stream to two, under {} schedules", explored.schedules);
}
