//! Signals, as something to wait for.
//!
//! Used by programs that are to end in an orderly way, or to read their configuration again.
//!
//! # The idea
//!
//! A [`Signals`] has a bell of its own (`driver/bell.rs`), and the handler of its signal rings that
//! bell: one write of eight bytes, in the middle of any thread that the kernel has chosen. To
//! receive is to hear the bell, an op like a read.
//!
//! | | |
//! | --- | --- |
//! | commit point | the read that sets the bell back |
//! | before the wait | a signal since the making of the [`Signals`] is kept: the bell is readable |
//! | several at once | one: rings that nobody has heard are one, as the kernel's pending signals are |
//! | several sources | each has a bell, and each sees the signal |
//! | other handlers | stay: the registry of `signal-hook`, which tokio and others have too, calls all |
//! | the default action | off for good; or back after the first, `once.rs` |
//!
//! **The race to fear**: a handler that rings a bell which is being dropped. The registry waits for
//! the handlers that run before an action is dropped with its share of the bell. And a child
//! of a fork has its parent's bells: so a handler asks first for its process (`system/fork.rs`).
//!
//! A handler runs on the stack of the code that is interrupted; with the kernel's frame that is
//! some KiB of a fiber's.

use super::handler::{bell_for, register};
use super::kind::Signal;
use super::once::{self, Once};
use crate::driver::bell::Bell;
use crate::driver::op::Op;
use crate::driver::readiness::Half;
use crate::driver::ready::now_or_never;
use crate::driver::run::{run, source};
use crate::driver::socket::Socket;
use segue_core::{Source, Waitable, WaitsFor};
use signal_hook_registry::SigId;
use std::io::{self, ErrorKind};
use std::sync::Arc;

/// The deliveries of one signal to this process, from the making of this on.
///
/// From then on the signal's default action, which ends most processes, is off, and stays off when
/// this is dropped; [`once`](Self::once) gives the action back. Each `Signals` sees each signal;
/// signals that come before one is received count as one. Programs that are executed start without
/// handlers.
///
/// # Cancellation
///
/// A receive of a cancelled caller fails: *no effect*. The signal is there for the next one.
///
/// # Examples
///
/// ```
/// use segue_core::{Either, after};
/// use segue_io::signal::{Signal, Signals};
/// use std::time::Duration;
///
/// let hangups = Signals::new(Signal::HUP)?;
/// let first = hangups.recv_source().or(after(Duration::from_millis(1))).wait().unwrap();
/// assert!(matches!(first, Either::Right(())), "nobody has sent one");
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Signals {
    bell: Arc<Bell>,
    signal: Signal,
    id: SigId,
    /// Of a source that hears the signal once.
    once: Option<Arc<Once>>,
}

impl Signals {
    /// Begins to count a signal. Never waits.
    ///
    /// # Errors
    /// `InvalidInput` for one that nobody can catch (`KILL`, `STOP`), for one that says that the
    /// thread itself can't go on (`SEGV`, `ILL`, `FPE`), and for a number that is no signal. The
    /// kernel's error if there is no descriptor left.
    pub fn new(signal: Signal) -> io::Result<Self> {
        let bell = bell_for(signal)?;
        let id = register(signal, &bell)?;
        once::take_for_good(signal);
        Ok(Self { bell, signal, id, once: None })
    }

    /// Waits for one signal. When that has come, or this is dropped, the signal has its default
    /// action again: so the first Ctrl-C asks the program to end, and the second one ends it,
    /// in the middle of anything. Never waits.
    ///
    /// A second receive does not end, but by a cancellation. The default action does not come back
    /// where somebody has the signal for good: by [`new`](Self::new), or since the signal was
    /// ignored or had a handler when the first of these was made. That handler goes on to see each
    /// signal. (One that is installed later, by another library of async I/O for instance, does not
    /// keep the default action off.)
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_core::{Either, after};
    /// use segue_io::signal::{Signal, Signals};
    /// use std::time::Duration;
    ///
    /// let end = Signals::once(Signal::TERM)?;
    /// let first = end.recv_source().or(after(Duration::from_millis(1))).wait().unwrap();
    /// assert!(matches!(first, Either::Right(())), "nobody has sent one");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn once(signal: Signal) -> io::Result<Self> {
        let bell = bell_for(signal)?;
        let (once, id) = Once::new(signal, &bell)?;
        Ok(Self { bell, signal, id, once: Some(once) })
    }

    /// The signal.
    pub fn signal(&self) -> Signal {
        self.signal
    }

    /// Waits for the signal; if one came since the last receive, or since the making, there is
    /// no wait.
    ///
    /// # Cancellation
    /// *No effect*.
    ///
    /// # Errors
    /// That of a cancelled caller.
    #[track_caller]
    pub fn recv(&self) -> io::Result<()> {
        run(self.bell.socket(), Hear(&self.bell), None)
    }

    /// Whether the signal came since the last receive. Never waits.
    pub fn try_recv(&self) -> bool {
        now_or_never(self.bell.socket(), Hear(&self.bell)).is_ok()
    }

    /// [`recv`](Self::recv) for tasks and choices.
    ///
    /// # Cancellation
    /// *No effect*: if another arm is chosen the signal is there for the next receive.
    #[track_caller]
    pub fn recv_source(&self) -> Waitable<impl Source<Output = io::Result<()>>> {
        source(self.bell.socket(), Hear(&self.bell), WaitsFor::new(Hear::WAITS_FOR))
    }

    pub(crate) fn bell(&self) -> &Bell {
        &self.bell
    }
}

/// Ctrl-C, [once](Signals::once): the first asks the program to end, and the next one ends that.
/// Never waits.
///
/// Make the source before the work begins, and keep the source until the work has ended: a Ctrl-C
/// before and after has its default action. For each Ctrl-C of several, as in an editor, there is
/// `Signals::new(Signal::INT)`.
///
/// # Errors
/// As for [`Signals::new`].
///
/// # Examples
///
/// ```
/// use segue_core::{Either, spawn};
///
/// let stop = segue_io::signal::ctrl_c()?;
/// let work = spawn(|| 6 * 7);
/// match work.join_source().or(stop.recv_source()).wait().unwrap() {
///     Either::Left(result) => assert_eq!(result.unwrap(), 42),
///     Either::Right(_) => println!("somebody has had enough"),
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn ctrl_c() -> io::Result<Signals> {
    Signals::once(Signal::INT)
}

impl Drop for Signals {
    fn drop(&mut self) {
        if let Some(once) = &self.once {
            once.give_up();
        }
        signal_hook_registry::unregister(self.id);
    }
}

impl std::fmt::Debug for Signals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Signals").field(&self.signal).finish()
    }
}

#[derive(Clone, Copy)]
struct Hear<'a>(&'a Bell);

impl Op for Hear<'_> {
    type Output = ();
    const HALF: Half = Half::Read;
    const WAITS_FOR: &'static str = "a signal";

    fn attempt(&mut self, _socket: &Socket) -> io::Result<()> {
        if self.0.hear() { Ok(()) } else { Err(ErrorKind::WouldBlock.into()) }
    }
}
