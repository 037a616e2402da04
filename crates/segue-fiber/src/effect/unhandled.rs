//! The panic of a perform without a handler.
//!
//! Used by `perform`.

use std::any::type_name;
use std::fmt;
use std::panic::{Location, catch_unwind, resume_unwind};
use std::sync::Once;

use super::Effect;
use super::find::surroundings;
use segue_core::WaitsFor;

/// The payload of the panic of a [`perform`](super::perform) for which there is no handler.
///
/// Its message names the effect's type, the place of the perform, and the effects that are handled
/// there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unhandled {
    effect: &'static str,
    location: &'static Location<'static>,
    /// The effects of each handler in place, innermost first.
    handlers: Vec<Vec<&'static str>>,
    /// The obstacle that hides the handlers further out.
    barrier: Option<WaitsFor>,
    panicking: bool,
}

impl Unhandled {
    /// Panics, with the message for the panic's hook.
    #[cold]
    pub(super) fn raise<E: Effect>(location: &'static Location<'static>) -> ! {
        let (handlers, barrier) = surroundings();
        let unhandled =
            Unhandled { effect: type_name::<E>(), location, handlers, barrier, panicking: std::thread::panicking() };
        // The joiner of the fiber gets the message as well.
        static DESCRIBED: Once = Once::new();
        DESCRIBED.call_once(|| {
            segue_core::describe_panics(|payload| payload.downcast_ref::<Unhandled>().map(ToString::to_string));
        });
        // The hook prints messages, not payloads of other types.
        let _ = catch_unwind(|| panic!("{unhandled}"));
        resume_unwind(Box::new(unhandled));
    }

    /// The name of the effect's type.
    pub fn effect(&self) -> &'static str {
        self.effect
    }
}

impl fmt::Display for Unhandled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Unhandled { effect, location, handlers, barrier, panicking } = self;
        write!(f, "the effect {effect} was performed at {location} and has no handler ")?;
        if *panicking {
            f.write_str("that answers at once, which is the only kind that can be used while the thread panics ")?;
        }
        let between = if barrier.is_some() { " in front of that" } else { "" };
        if !handlers.is_empty() {
            let list: String = handlers.iter().map(|names| format!(" [{}]", names.join(", "))).collect();
            write!(f, "(in place{between} are, innermost first{list})")?;
        } else if barrier.is_none() {
            f.write_str("(there are no handlers in place)")?;
        }
        match barrier {
            Some(what) => write!(
                f,
                ": it was performed in the middle of an operation, {what}, and handlers around that are not seen from inside; perform before \
                 or after it, or handle the effect inside"
            ),
            None if handlers.is_empty() => f.write_str(
                ": run it inside of Handler::handle, in the same fiber, since a fiber starts without the handlers of its spawner, and so do the \
                 halves of a join and a blocking call",
            ),
            None => f.write_str(": add a clause for it to one of them"),
        }
    }
}

impl std::error::Error for Unhandled {}
