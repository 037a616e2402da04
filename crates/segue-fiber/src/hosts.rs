//! Which host this build has.
//!
//! Used by programs that want to know or to say.

use std::fmt;

/// What keeps the frames of a coroutine that does not run. Told by [`host`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Host {
    /// A stack of its own, to which the thread switches.
    Stacks,
    /// A thread of its own, of which exactly one runs at a time for each worker: where there is no
    /// switch for the processor and the system, or by the feature `threads`. Correct, and some
    /// hundred times slower; and thread-local variables are each coroutine's own.
    Threads,
}

/// The host of this build, which `build.rs` of `segue-fiber` chooses.
///
/// # Examples
///
/// ```
/// use segue_fiber::{Host, PASSES_ON, host};
///
/// println!("each fiber is {}", host());
/// assert_eq!(host() == Host::Stacks, PASSES_ON);
/// ```
pub const fn host() -> Host {
    if cfg!(threads) { Host::Threads } else { Host::Stacks }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Host::Stacks => "a stack",
            Host::Threads => "a thread",
        })
    }
}
