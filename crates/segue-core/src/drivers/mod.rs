//! What drivers of I/O need besides: limits for waits that come one after the other, looks at what
//! a busy worker has left alone, a price for operations that take long, a word to simulations,
//! which drive none, and the mark by which calls that block know whom to suspend.

pub(crate) mod from_kernel;
pub(crate) mod lazy_timer;
pub(crate) mod unblocked;

pub use crate::sim::external_work::{KernelWait, kernel_wait};
pub use crate::timers::{LATE, Look, look_at};
pub use crate::tree::context::can_be_cancelled;
pub use crate::wait::admission::charge;
pub use from_kernel::{FromKernel, KernelSlot, from_kernel};
pub use lazy_timer::{LazyTimer, Limit, TimeLimited};
pub use unblocked::{is_unblocked, not_unblocked, unblocked};
