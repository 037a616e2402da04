//! For drivers of I/O: limits for waits that come one after the other, looks at the duties that a
//! busy worker has left alone, a price for operations that take long, a word to simulations, which
//! drive none, and the mark by which calls that block know the fiber to suspend.

mod charge;
pub(crate) mod from_kernel;
pub(crate) mod kernel_wait;
pub(crate) mod lazy_timer;
pub(crate) mod unblocked;

pub use crate::timers::{LATE, Look, look_at};
pub use crate::tree::context::can_be_cancelled;
pub use charge::charge;
pub use from_kernel::{FromKernel, Holding, WhileRegistered, from_kernel, while_registered};
pub use kernel_wait::{KernelWait, kernel_wait};
pub use lazy_timer::{LazyTimer, Limit, TimeLimited};
pub use unblocked::{is_unblocked, not_unblocked, unblocked};
