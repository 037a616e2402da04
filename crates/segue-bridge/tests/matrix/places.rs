//! Promises, MVars and variables of transactions: values that are waited for.

use crate::rig::{HOLDS, How, MIX, Structure, Until, WAITS, Way, by};
use segue::Waitable;
use segue::core::Source;
use segue::stm::{TVar, transaction};
use segue::sync::{MVar, Promise, Resolver, promise};
use std::sync::{Arc, Mutex};

/// The resolver, until it was used, and its promise.
type Round = (Mutex<Option<Resolver<usize>>>, Promise<usize>);

/// One for each round, which all share, and one for each step, which is taken.
pub struct APromise {
    rounds: Vec<Round>,
    #[allow(clippy::type_complexity, reason = "a pair of halves that are taken out")]
    steps: [Vec<Mutex<(Option<Resolver<usize>>, Option<Promise<usize>>)>>; 2],
}

impl Structure for APromise {
    const NAME: &'static str = "Promise";

    fn new() -> Self {
        let rounds = (0..HOLDS).map(|_| promise()).map(|(resolver, promise)| (Mutex::new(Some(resolver)), promise));
        let steps = |_| {
            let halves = (0..MIX).map(|_| promise()).map(|(resolver, promise)| (Some(resolver), Some(promise)));
            halves.map(Mutex::new).collect()
        };
        Self { rounds: rounds.collect(), steps: [0, 1].map(steps) }
    }

    async fn hold(self: Arc<Self>, way: Way, round: usize, until: Until) {
        let resolver = self.rounds[round].0.lock().unwrap().take().unwrap();
        until(way).await;
        resolver.fill(round).unwrap();
    }

    async fn wait(self: Arc<Self>, how: &How, round: usize) -> bool {
        let filled = how.wait(self.rounds[round].1.wait_source()).await;
        filled.inspect(|filled| assert_eq!(*filled, Ok(&round))).is_some()
    }

    /// A value goes there and comes back greater.
    async fn mix(self: Arc<Self>, way: Way, side: usize) {
        for step in 0..MIX {
            let fill = |value| self.steps[side][step].lock().unwrap().0.take().unwrap().fill(value).unwrap();
            let mut promise = self.steps[1 - side][step].lock().unwrap().1.take().unwrap();
            if side == 0 {
                fill(step);
            }
            let got = by!(way, promise.take().unwrap(), promise.take_source().await.unwrap());
            assert_eq!(got, step + 1 - side);
            if side == 1 {
                fill(got + 1);
            }
        }
    }

    fn check(&self) {
        assert!(self.rounds.iter().enumerate().all(|(round, (_, promise))| promise.try_get() == Some(Ok(&round))));
    }
}

/// A value that is taken and put back, and a path in either direction.
pub struct AnMVar {
    place: MVar<usize>,
    paths: [MVar<usize>; 2],
}

impl Structure for AnMVar {
    const NAME: &'static str = "MVar";

    fn new() -> Self {
        Self { place: MVar::new(0), paths: Default::default() }
    }

    async fn hold(self: Arc<Self>, way: Way, _round: usize, until: Until) {
        let value = by!(way, self.place.take().unwrap(), self.place.take_source().await);
        until(way).await;
        by!(way, self.place.put(value + 1).unwrap(), self.place.put_source(value + 1).await);
    }

    async fn wait(self: Arc<Self>, how: &How, _round: usize) -> bool {
        let Some(value) = how.wait(self.place.take_source()).await else { return false };
        by!(how.way, self.place.put(value + 1).unwrap(), self.place.put_source(value + 1).await);
        true
    }

    /// Whoever takes waits for values, and whoever puts waits for room.
    async fn mix(self: Arc<Self>, way: Way, side: usize) {
        for (direction, path) in self.paths.iter().enumerate() {
            for step in 0..MIX {
                if direction == side {
                    by!(way, path.put(step).unwrap(), path.put_source(step).await);
                } else {
                    assert_eq!(by!(way, path.take().unwrap(), path.take_source().await), step);
                }
            }
        }
    }

    fn check(&self) {
        assert_eq!(self.place.try_take(), Some(HOLDS + WAITS));
        assert!(self.paths.iter().all(MVar::is_empty));
    }
}

/// The same of variables: a value that is taken and put back, and a path in either direction.
pub struct ATransaction {
    place: TVar<Option<usize>>,
    paths: [TVar<Option<usize>>; 2],
}

fn take(place: &TVar<Option<usize>>) -> Waitable<impl Source<Output = usize> + use<>> {
    let place = place.clone();
    transaction(move |tx| tx.replace(&place, None)?.map_or_else(|| tx.retry(), Ok))
}

fn put(place: &TVar<Option<usize>>, value: usize) -> Waitable<impl Source<Output = ()> + use<>> {
    let place = place.clone();
    transaction(move |tx| {
        tx.check(tx.read(&place)?.is_none())?;
        tx.write(&place, Some(value))
    })
}

impl Structure for ATransaction {
    const NAME: &'static str = "transaction";

    fn new() -> Self {
        Self { place: TVar::new(Some(0)), paths: Default::default() }
    }

    async fn hold(self: Arc<Self>, way: Way, _round: usize, until: Until) {
        let value = way.wait(take(&self.place)).await;
        until(way).await;
        way.wait(put(&self.place, value + 1)).await;
    }

    async fn wait(self: Arc<Self>, how: &How, _round: usize) -> bool {
        let Some(value) = how.wait(take(&self.place)).await else { return false };
        how.way.wait(put(&self.place, value + 1)).await;
        true
    }

    /// A put waits for room, and a take for a value.
    async fn mix(self: Arc<Self>, way: Way, side: usize) {
        for (direction, path) in self.paths.iter().enumerate() {
            for step in 0..MIX {
                if direction == side {
                    way.wait(put(path, step)).await;
                } else {
                    assert_eq!(way.wait(take(path)).await, step);
                }
            }
        }
    }

    fn check(&self) {
        assert_eq!(self.place.get(), Some(HOLDS + WAITS));
        assert!(self.paths.iter().all(|path| path.get().is_none()));
    }
}
