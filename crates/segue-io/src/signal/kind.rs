//! The names of signals.
//!
//! Used by [`Signals`](super::Signals), and by what sends signals to children.

use rustix::process::Signal as Kernels;

/// A signal, by its number.
///
/// # Examples
///
/// ```
/// use segue_io::signal::Signal;
///
/// assert_eq!(Signal::from_raw(Signal::TERM.as_raw()), Signal::TERM);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Signal(i32);

macro_rules! names {
    ($($(#[$doc:meta])* $name:ident = $theirs:ident;)*) => {
        impl Signal {
            $($(#[$doc])* pub const $name: Self = Self(Kernels::$theirs.as_raw());)*
        }
    };
}

names! {
    /// A timer of the process's.
    ALRM = ALARM;
    /// A child has ended, or was stopped or continued.
    CHLD = CHILD;
    /// Goes on after it was stopped.
    CONT = CONT;
    /// The terminal was closed; to servers often: read your configuration again.
    HUP = HUP;
    /// Ctrl-C.
    INT = INT;
    /// Ends a process, which is not asked. Nothing can wait for it.
    KILL = KILL;
    /// A write to a pipe that nobody reads.
    PIPE = PIPE;
    /// Ctrl-\.
    QUIT = QUIT;
    /// Stops a process, which is not asked. Nothing can wait for it.
    STOP = STOP;
    /// A request to end.
    TERM = TERM;
    /// Ctrl-Z.
    TSTP = TSTP;
    /// A read from the terminal, in the background.
    TTIN = TTIN;
    /// A write to the terminal, in the background.
    TTOU = TTOU;
    /// What the program says.
    USR1 = USR1;
    /// What the program says.
    USR2 = USR2;
    /// The terminal has another size.
    WINCH = WINCH;
}

impl Signal {
    /// The signal of this number, which need not exist.
    pub const fn from_raw(number: i32) -> Self {
        Self(number)
    }

    /// Its number.
    pub const fn as_raw(self) -> i32 {
        self.0
    }

    /// As the system calls take it; those for real time have no name there.
    pub(crate) fn named(self) -> std::io::Result<Kernels> {
        let unknown = || std::io::Error::new(std::io::ErrorKind::InvalidInput, "there is no signal of this number");
        Kernels::from_named_raw(self.0).ok_or_else(unknown)
    }
}
