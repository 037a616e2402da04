//! Many publishers and many subscribers, who come and go: a multiplexer, which hands each message
//! of any publisher to all subscribers. After Cross-Platform Gears.
//!
//! Its lists change while it runs, so it chooses among a list of sources that is made anew for each
//! choice. Where all publishers may share one sender, `segue::channel::broadcast` does the same.

use segue::channel::{self, Receiver, Sender};
use segue::testing::Explore;
use segue::{Cancelled, Closed, any_of, scope, select};

enum Joins<T> {
    Publisher(Receiver<T>),
    Subscriber(Sender<T>),
}

/// Runs until nobody can join any more, and all publishers have ended.
fn multiplex<T: Clone>(joining: &Receiver<Joins<T>>) -> Result<(), Cancelled> {
    let (mut publishers, mut subscribers, mut open) = (Vec::new(), Vec::new(), true);
    while open || !publishers.is_empty() {
        select! {
            joins = joining.recv_source(), if open => match joins {
                Ok(Joins::Publisher(publisher)) => publishers.push(publisher),
                Ok(Joins::Subscriber(subscriber)) => subscribers.push(subscriber),
                Err(Closed) => open = false,
            },
            (n, message) = any_of(publishers.iter().map(Receiver::recv_source).collect::<Vec<_>>()) => match message {
                // A subscriber that has gone is forgotten.
                Ok(message) => subscribers.retain(|subscriber| subscriber.send(message.clone()).is_ok()),
                Err(Closed) => drop(publishers.swap_remove(n)),
            },
        }?;
    }
    Ok(())
}

fn main() {
    let explored = Explore::random(200).check(|| {
        let (join, joining) = channel::unbounded();
        let (faithful, all) = channel::bounded(1);
        let (fickle, some) = channel::rendezvous();
        scope(|s| {
            s.spawn(move || multiplex(&joining));
            join.send(Joins::Subscriber(faithful)).unwrap();
            for who in ["Ada", "Bob", "Eve"] {
                let (publisher, messages) = channel::bounded(2);
                join.send(Joins::Publisher(messages)).unwrap();
                s.spawn(move || (0..5).try_for_each(|n| publisher.send((who, n))));
            }
            join.send(Joins::Subscriber(fickle)).unwrap();
            drop(join);
            // It hears two messages, if there are as many left when it comes, and goes.
            s.spawn(move || some.iter().take(2).count());
            let mut all: Vec<_> = all.into_iter().collect();
            all.sort_by_key(|(who, _)| *who);
            let each = |who| (0..5).map(move |n| (who, n));
            assert!(all.into_iter().eq(["Ada", "Bob", "Eve"].into_iter().flat_map(each)), "all, each in order");
        });
    });
    println!("three publishers, two subscribers, under {} schedules", explored.schedules);
}
