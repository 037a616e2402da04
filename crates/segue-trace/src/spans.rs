//! [`Spans`]: a subscriber that leaves its spans with the fiber that has entered them.
//!
//! Used by programs that have a subscriber of the crate `tracing`.
//!
//! # The idea
//!
//! A subscriber keeps the entered spans of each thread. A fiber that waits inside of a span leaves
//! its thread to others, and would leave them the span. So the wrapper notes the spans that each
//! fiber has entered, in a fiber-local value; and as long as there are some, the fiber *carries*
//! something (`segue_core::scheduling::carry`): before the fiber is suspended its spans are exited,
//! the newest first, and when the fiber goes on they are entered again, in their order. A fiber in
//! no span pays for a look at a mark in its header.
//!
//! A plain thread, which nobody shares, enters and exits as without the wrapper. At the end of a
//! fiber the spans that it has left entered are exited: by the drop of the fiber-local value.
#![allow(unsafe_code)] // The trait's way to find a subscriber inside of another one.

use segue_core::fiber_local;
use segue_core::scheduling::{Crossing, carry, set_carrier};
use std::any::TypeId;
use std::cell::RefCell;
use std::fmt;
use std::sync::{Arc, Once};
use tracing_core::span::{Attributes, Current, Id, Record};
use tracing_core::subscriber::{Interest, Subscriber};
use tracing_core::{Dispatch, Event, LevelFilter, Metadata};

type Shared = Arc<dyn Subscriber + Send + Sync>;

/// The spans that a fiber has entered and not exited, each with its subscriber.
#[derive(Default)]
struct Entered(RefCell<Vec<(Shared, Id)>>);

fiber_local! {
    static ENTERED: Entered = Entered::default();
}

impl Entered {
    /// All of them, so that no borrow is held while a subscriber is called.
    fn all(&self) -> Vec<(Shared, Id)> {
        self.0.borrow().clone()
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        for (subscriber, id) in self.0.take().iter().rev() {
            subscriber.exit(id);
        }
    }
}

/// Takes the spans of the calling fiber off its thread, or puts them there.
fn cross(crossing: Crossing) {
    // Without the value the fiber ends, and the spans were exited.
    let Ok(entered) = ENTERED.try_with(Entered::all) else { return };
    match crossing {
        Crossing::Leaves => entered.iter().rev().for_each(|(subscriber, id)| subscriber.exit(id)),
        Crossing::Returns => entered.iter().for_each(|(subscriber, id)| subscriber.enter(id)),
    }
}

/// A subscriber that leaves its spans with the fiber that has entered them.
///
/// A wrapper around any other. While a fiber waits or lets others run, the spans that the fiber has
/// entered are exited, and when the fiber goes on they are entered again: so the current span of a
/// fiber is its own, whatever runs on its thread meanwhile, and a subscriber that measures the time
/// in a span measures that of the fiber's turns. Fibers that have entered no span pay a few
/// instructions for each suspension; threads pay nothing.
///
/// A span does not go over to the fibers that are spawned inside: `let span = Span::current();
/// spawn(move || span.in_scope(..))` takes it there. The other half of a `join`, which another
/// worker may take, is such a fiber. A span that is entered in a generator or under an effect
/// handler stays entered while the computation is captured: exit it before.
///
/// Async tasks have their spans by `Instrument` of `tracing`, which enters and exits at each poll,
/// and with this also where a fiber waits inside of a poll.
///
/// The inner subscriber is called in the middle of a wait. It must not wait, and if it panics
/// there, the process ends.
///
/// # Examples
///
/// ```
/// use segue_core::{scope, yield_now};
/// use segue_trace::Spans;
/// use tracing::{Span, info_span};
///
/// let subscriber = Spans::new(tracing_subscriber::registry());
/// tracing::subscriber::set_global_default(subscriber).unwrap();
/// segue_sched::Runtime::new().workers(1).run(|| {
///     scope(|s| {
///         for request in 0..2 {
///             s.spawn(move || {
///                 let span = info_span!("request", request).entered();
///                 yield_now().unwrap();
///                 assert_eq!(Span::current(), *span);
///             });
///         }
///     });
/// })?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Spans<S> {
    inner: Arc<S>,
}

impl<S: Subscriber + Send + Sync> Spans<S> {
    /// A subscriber that hands everything on to `inner`.
    ///
    /// # Panics
    /// If other code than this crate's has set the process'
    /// [carrier](segue_core::scheduling::set_carrier).
    #[must_use]
    pub fn new(inner: S) -> Self {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| assert!(set_carrier(cross), "something else carries over what fibers have"));
        Self { inner: Arc::new(inner) }
    }
}

impl<S> fmt::Debug for Spans<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spans").finish_non_exhaustive()
    }
}

impl<S: Subscriber + Send + Sync> Subscriber for Spans<S> {
    fn enter(&self, id: &Id) {
        self.inner.enter(id);
        if segue_core::in_fiber() {
            let shared = Arc::clone(&self.inner) as Shared;
            let noted = ENTERED.try_with(|entered| entered.0.borrow_mut().push((shared, id.clone())));
            if noted.is_ok() {
                carry(true);
            }
        }
    }

    fn exit(&self, id: &Id) {
        self.inner.exit(id);
        if segue_core::in_fiber() {
            let is_empty = ENTERED.try_with(|entered| {
                let mut entered = entered.0.borrow_mut();
                if let Some(at) = entered.iter().rposition(|(_, entered)| entered == id) {
                    entered.remove(at);
                }
                entered.is_empty()
            });
            if is_empty == Ok(true) {
                carry(false);
            }
        }
    }

    fn on_register_dispatch(&self, subscriber: &Dispatch) {
        self.inner.on_register_dispatch(subscriber);
    }

    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        self.inner.register_callsite(metadata)
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        self.inner.enabled(metadata)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        self.inner.max_level_hint()
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        self.inner.new_span(span)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        self.inner.record(span, values);
    }

    fn record_follows_from(&self, span: &Id, follows: &Id) {
        self.inner.record_follows_from(span, follows);
    }

    fn event_enabled(&self, event: &Event<'_>) -> bool {
        self.inner.event_enabled(event)
    }

    fn event(&self, event: &Event<'_>) {
        self.inner.event(event);
    }

    fn clone_span(&self, id: &Id) -> Id {
        self.inner.clone_span(id)
    }

    fn try_close(&self, id: Id) -> bool {
        self.inner.try_close(id)
    }

    fn current_span(&self) -> Current {
        self.inner.current_span()
    }

    unsafe fn downcast_raw(&self, id: TypeId) -> Option<*const ()> {
        if id == TypeId::of::<Self>() {
            return Some(std::ptr::from_ref(self).cast());
        }
        // SAFETY: the inner subscriber answers for a type with a pointer to one, by the contract of
        // this function, and lives as long as this one, which has a share of it.
        unsafe { self.inner.downcast_raw(id) }
    }
}
