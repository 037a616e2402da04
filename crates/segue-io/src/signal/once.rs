//! A signal that is heard once, and has its default action again after that.
//!
//! Used by [`Signals::once`](super::signals::Signals::once), and so by Ctrl-C.
//!
//! # The idea
//!
//! A program that ends in an orderly way on Ctrl-C may hang on its way out, and the second Ctrl-C
//! is to end such a program. The registry of handlers keeps a handler for good: without an action
//! left the registry ignores the signal. So the default action is taken by an action of ours, the
//! *gate*, which is registered once for each signal, before the sources that hear. A signal goes
//! through the gate, in its handler:
//!
//! | | |
//! | --- | --- |
//! | somebody has the signal for good | passes |
//! | there are sources that have not heard one | passes, and all of these sources hear the signal |
//! | else | the default action is taken |
//!
//! Somebody has the signal for good if a [`Signals::new`](super::signals::Signals::new) was ever
//! made for it in this process, or if another action stood before the first gate: the signal was
//! ignored, or had a handler, which the registry goes on to call.
//!
//! # States of one that hears
//!
//! ```text
//!   (made) --counted--> OPEN --the handler: rings, and is counted no more--> HEARD
//!                       OPEN --drop: is counted no more--> gone
//! ```
//!
//! **The race to fear**: a signal that passes the gate, and that nobody hears: a Ctrl-C that does
//! nothing. So one is counted after its action is there, and is counted no more before that is
//! taken away: a signal in between has its default action, as a moment before or after. If the
//! handler and the drop meet, both take the source off the count, and the side that finds the
//! source heard puts one back: the count is below its right value for that moment, in which a
//! *second* signal finds nobody, rightly, as all have heard the first.
//!
//! The child of a fork has the gates, where nobody hears for the sources that the parent has
//! counted: there the default action is taken, until the child counts its own.
//!
//! The gate comes before the counted sources, since the registry calls actions in the order in
//! which they were registered. One that was registered before the gate is somebody's for good.
//!
//! # Orderings
//!
//! All are sequentially consistent; there is a signal once in a while.
#![allow(unsafe_code)] // A signal handler may do little.

use super::kind::Signal;
use crate::driver::bell::Bell;
use crate::system::fork::Birth;
use signal_hook_registry::SigId;
use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::{mem, ptr};

/// More than there are signals.
const NUMBERS: usize = 128;

/// The words that the gate of a signal reads.
struct Gate {
    /// How many have not heard one, in this process.
    open: AtomicIsize,
    home: AtomicU32,
    is_taken: AtomicBool,
}

static GATES: [Gate; NUMBERS] =
    [const { Gate { open: AtomicIsize::new(0), home: AtomicU32::new(0), is_taken: AtomicBool::new(false) } }; NUMBERS];

/// The signals that have a gate, by bits.
static WITH_GATE: Mutex<u128> = Mutex::new(0);

fn gate(signal: Signal) -> Option<&'static Gate> {
    GATES.get(usize::try_from(signal.as_raw()).ok()?)
}

/// Somebody hears each of these from now on.
pub(super) fn take_for_good(signal: Signal) {
    if let Some(gate) = gate(signal) {
        gate.is_taken.store(true, SeqCst);
    }
}

/// One that has not heard the signal, until that comes.
pub(super) struct Once {
    gate: &'static Gate,
    birth: Birth,
    is_heard: AtomicBool,
}

impl Once {
    /// A source with a signal that rings `bell` once, and its registration.
    pub(super) fn new(signal: Signal, bell: &Arc<Bell>) -> io::Result<(Arc<Self>, SigId)> {
        let no_signal = || io::Error::new(ErrorKind::InvalidInput, "there is no signal of this number");
        let gate = gate(signal).ok_or_else(no_signal)?;
        install_gate(signal, gate)?;
        let once = Arc::new(Self { gate, birth: Birth::now(), is_heard: AtomicBool::new(false) });
        let hears = Arc::clone(&once);
        // SAFETY: `is_first` changes two words, and does nothing else.
        let id = unsafe { super::handler::register_if(signal, bell, move || hears.is_first())? };
        gate.open.fetch_add(1, SeqCst);
        Ok((once, id))
    }

    /// The signal is there, in its handler. Answers whether this is the first.
    fn is_first(&self) -> bool {
        let is_first = !self.is_heard.swap(true, SeqCst);
        if is_first {
            self.gate.open.fetch_sub(1, SeqCst);
        }
        is_first
    }

    /// Nobody waits any more. Before the action is taken away.
    pub(super) fn give_up(&self) {
        if self.is_heard.load(SeqCst) || !self.birth.is_here() {
            return;
        }
        self.gate.open.fetch_sub(1, SeqCst);
        if self.is_heard.swap(true, SeqCst) {
            self.gate.open.fetch_add(1, SeqCst);
        }
    }
}

/// Registers the gate of a signal, if there is none, for the count of this process.
fn install_gate(signal: Signal, gate: &'static Gate) -> io::Result<()> {
    let mut with_gate = WITH_GATE.lock().unwrap_or_else(PoisonError::into_inner);
    let here = Birth::now().number();
    if gate.home.load(SeqCst) != here {
        gate.open.store(0, SeqCst);
        gate.home.store(here, SeqCst);
    }
    let bit = 1 << signal.as_raw();
    if *with_gate & bit != 0 {
        return Ok(());
    }
    if !has_default_action(signal)? {
        gate.is_taken.store(true, SeqCst);
    }
    let act = move || {
        let is_open = gate.open.load(SeqCst) > 0 && gate.home.load(SeqCst) == Birth::now().number();
        if !is_open && !gate.is_taken.load(SeqCst) {
            take_default_action(signal.as_raw());
        }
    };
    // SAFETY: the handler reads three words and one of a page that is mapped by now, which the
    // handler changes in the child of a fork, and makes system calls that a handler may make. The
    // handler takes no lock, neither allocates nor frees, does not panic, and owns nothing.
    unsafe { signal_hook_registry::register(signal.as_raw(), act) }?;
    *with_gate |= bit;
    Ok(())
}

fn has_default_action(signal: Signal) -> io::Result<bool> {
    Ok(action(signal)? == libc::SIG_DFL)
}

/// Whether the process ignores this signal: then a system call that raises the signal only fails.
pub(crate) fn is_ignored(signal: Signal) -> bool {
    action(signal).is_ok_and(|action| action == libc::SIG_IGN)
}

fn action(signal: Signal) -> io::Result<libc::sighandler_t> {
    // SAFETY: an action of zeros is valid, and the call overwrites this one.
    let mut now: libc::sigaction = unsafe { mem::zeroed() };
    // SAFETY: without a new action the call only writes the present one.
    if unsafe { libc::sigaction(signal.as_raw(), ptr::null(), &mut now) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(now.sa_sigaction)
}

/// Has the effect on this process of a signal that nobody handles. In a handler.
fn take_default_action(signal: i32) {
    match signal {
        libc::SIGCHLD | libc::SIGCONT | libc::SIGURG | libc::SIGWINCH => {}
        libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU => {
            // SAFETY: a handler may make this call.
            unsafe { libc::raise(libc::SIGSTOP) };
        }
        _ => {
            // SAFETY: a handler may make these calls, on values of its own frame. The signal is
            // blocked while its handler runs; so the signal is sent, and ends the process when let
            // through.
            unsafe {
                libc::signal(signal, libc::SIG_DFL);
                libc::raise(signal);
                let mut only: libc::sigset_t = mem::zeroed();
                libc::sigemptyset(&mut only);
                libc::sigaddset(&mut only, signal);
                libc::pthread_sigmask(libc::SIG_UNBLOCK, &only, ptr::null_mut());
            }
        }
    }
}
