//! A structure of one's own: an exchange, at which a party of one side meets one of the other, and
//! the two swap what they have brought. It passes the conformance suite for sources, and a search
//! through schedules.
//!
//! Its operation brings a value, meets a partner, takes the value back if it was cancelled, and
//! says what becomes of the other one if its task is dropped.

use segue::core::{Guard, Operation, WaitQueue, Waiting, WaitsFor, preemption_point, wait};
use segue::testing::Explore;
use segue::{Rejected, Waitable, scope, timeout};
use segue_conformance::Sources;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;

/// Who meets whom. The number is that of the list that one waits in.
#[derive(Clone, Copy)]
pub enum Side {
    /// Meets sellers.
    Buyer = 0,
    /// Meets buyers.
    Seller = 1,
}

/// A place at which parties of two sides swap values, in pairs, first come, first served.
pub struct Exchange<T>(WaitQueue<(), T, 2>);

impl<T> Exchange<T> {
    /// Nobody is there.
    pub const fn empty() -> Self {
        Self(WaitQueue::new(()))
    }

    /// Gives `value` to a party of the other side, and answers what that one has brought; waits for
    /// one if there is none.
    ///
    /// # Cancellation
    /// *Loses its place in the queue*. The value is in the error.
    ///
    /// # Errors
    /// [`Rejected`] with the value if the caller was cancelled.
    #[track_caller]
    pub fn swap(&self, side: Side, value: T) -> Result<T, Rejected<T>> {
        let mut swap = self.swap_source(side, value).into_source();
        wait(&mut swap).map_err(|error| Rejected { value: swap.into_operation().value.expect("taken back"), error })
    }

    /// As [`swap`](Self::swap) if a partner waits. Never waits.
    ///
    /// # Errors
    /// Gives `value` back if nobody is there.
    #[track_caller]
    pub fn try_swap(&self, side: Side, value: T) -> Result<T, T> {
        preemption_point();
        let mut swap = self.swap_source(side, value);
        swap.attempt().ok_or_else(|| swap.into_source().into_operation().value.expect("never given"))
    }

    /// [`swap`](Self::swap) as a source: to be awaited, or chosen among others.
    ///
    /// # Cancellation
    /// *Loses its place in the queue*. A task that is dropped after it was served, and before its
    /// next poll, has swapped: what it got is dropped with it.
    #[track_caller]
    pub fn swap_source(&self, side: Side, value: T) -> Waitable<Waiting<'_, Swap<T>, (), T, 2>> {
        Waitable::new(self.0.operation(WaitsFor::new("an exchange"), Swap { side, value: Some(value) }))
    }
}

/// The one operation, with its value while that is not in a slot.
pub struct Swap<T> {
    side: Side,
    value: Option<T>,
}

impl<T> Operation<(), T, 2> for Swap<T> {
    type Output = T;

    fn attempt(&mut self, queue: &mut Guard<'_, (), T, 2>) -> Option<T> {
        if queue.exchange(1 - self.side as usize, &mut self.value) { self.value.take() } else { None }
    }

    fn is_ready(&mut self, queue: &mut Guard<'_, (), T, 2>) -> bool {
        queue.partners(1 - self.side as usize).next().is_some()
    }

    fn place(&self) -> (usize, bool) {
        (self.side as usize, false)
    }

    fn offer(&mut self) -> Option<T> {
        self.value.take()
    }

    fn retract(&mut self, offered: Option<T>, _queue: &mut Guard<'_, (), T, 2>) {
        self.value = offered;
    }

    fn commit(&mut self, slot: Option<T>) -> Option<T> {
        slot
    }

    fn give_back(&mut self, slot: Option<T>, _queue: &mut Guard<'_, (), T, 2>) -> Option<T> {
        // The partner has gone with the other value, so this can't be undone.
        slot
    }
}

/// An exchange, and the sellers that have come to it, as futures that were polled once.
struct Market {
    exchange: Arc<Exchange<()>>,
    sellers: Mutex<Vec<Pin<Box<dyn Future<Output = ()> + Send>>>>,
}

impl Market {
    fn new() -> Self {
        Self { exchange: Arc::new(Exchange::empty()), sellers: Mutex::default() }
    }

    fn a_seller_comes(&self) {
        let exchange = Arc::clone(&self.exchange);
        let mut seller = Box::pin(async move { exchange.swap_source(Side::Seller, ()).await });
        if seller.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            self.sellers.lock().expect("no panic").push(seller);
        }
    }
}

fn main() {
    Sources::new(
        "an exchange",
        Market::new,
        |market: &Market| market.exchange.swap_source(Side::Buyer, ()).boxed(),
        Market::a_seller_comes,
    )
    .stays_done()
    .check();
    println!("an exchange: passed every storm of the suite for sources");

    let explored = Explore::exhaustive(10_000).check(|| {
        let exchange = Exchange::empty();
        scope(|s| {
            let seller = s.spawn(|| exchange.swap(Side::Seller, "bread"));
            assert_eq!(exchange.swap(Side::Buyer, "a coin"), Ok("bread"));
            assert_eq!(seller.join().expect("it ends well"), Ok("a coin"));
        });
        assert_eq!(exchange.try_swap(Side::Buyer, "a coin"), Err("a coin"), "nobody is left");
        let nobody = timeout(Duration::from_secs(1), || exchange.swap(Side::Buyer, "a coin"));
        assert!(nobody.is_err_and(|kept| kept.value == "a coin" && kept.error.timed_out()));
    });
    println!("an exchange: passed all of {} schedules", explored.schedules);
}
