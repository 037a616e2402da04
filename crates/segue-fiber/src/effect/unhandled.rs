//! What a perform without a handler panics with.
//!
//! Used by `perform`.

use std::any::type_name;
use std::fmt;
use std::panic::{Location, catch_unwind, resume_unwind};

use super::Effect;
use crate::chain::Places;

/// The payload of the panic of a [`perform`](super::perform) for which there is no handler.
///
/// Its message names the effect's type, where it was performed, and what is handled there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unhandled {
    effect: &'static str,
    location: &'static Location<'static>,
    /// The effects of each handler in place, innermost first.
    handlers: Vec<Vec<&'static str>>,
    panicking: bool,
}

impl Unhandled {
    /// Panics, with the message for the panic's hook.
    #[cold]
    pub(super) fn raise<E: Effect>(location: &'static Location<'static>) -> ! {
        let unhandled = Unhandled {
            effect: type_name::<E>(),
            location,
            handlers: Places::here().map(Iterator::collect).collect(),
            panicking: std::thread::panicking(),
        };
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
        let Unhandled { effect, location, handlers, panicking } = self;
        write!(f, "the effect {effect} was performed at {location} and has no handler ")?;
        if *panicking {
            f.write_str("that answers at once, which is the only kind that can be used while the thread panics ")?;
        }
        if handlers.is_empty() {
            return f.write_str("(there are no handlers in place): run it inside of Handler::handle");
        }
        f.write_str("(in place are, innermost first")?;
        for names in handlers {
            write!(f, " [{}]", names.join(", "))?;
        }
        f.write_str("): add a clause for it to one of them")
    }
}

impl std::error::Error for Unhandled {}
