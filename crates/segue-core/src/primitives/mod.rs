//! The ground of all other rooms, which knows no fibers: atomics (of std or of loom), the word
//! lock, a lock that outlives a fork, the intrusive list, a box with two owners, a list of words by
//! type, the switch between stacks, the function that trims a stack, the marks of a fiber, `Debug`
//! by a line, and the object of a wait.

pub(crate) mod at_end;
pub mod atomic;
pub mod doubt;
pub(crate) mod impl_debug;
pub(crate) mod list;
pub(crate) mod lock;
pub(crate) mod marks;
pub(crate) mod payload;
pub(crate) mod per_process;
pub(crate) mod prefetch;
pub(crate) mod record;
pub(crate) mod shared_pair;
pub(crate) mod shown;
pub(crate) mod stack;
pub mod switch;
pub(crate) mod waits_for;
