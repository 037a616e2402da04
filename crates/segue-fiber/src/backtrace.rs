//! Where a fiber or a thread was: code addresses, stack by stack, and their names on demand.
//!
//! Used by both hosts, which make these, and by reports: of a deadlock, of a monitor of workers, of
//! a test.
//!
//! A backtrace is taken in a fraction of a microsecond a stack and is a few numbers. The expensive
//! part, reading the program's file to find functions and lines, is done in the print.

use crate::host;
use std::fmt;

/// Where a suspended coroutine rests, or a thread was: the addresses of its calls, stack by stack,
/// innermost first.
///
/// A backtrace has more than one stack where code on one coroutine's stack resumed another: a fiber
/// in the middle of a generator, say. A printed one names the program's functions, as far as there
/// are symbols (there are some, except in a stripped program); with the feature `lines` also files,
/// lines and inlined calls, as far as there is debug information. A print takes milliseconds, and
/// no lock but the output's.
///
/// Two backtraces are equal if all addresses are, and the names of the coroutines.
///
/// ```
/// use segue_fiber::{Coroutine, StackArena, StackConfig, StackPool, Step};
///
/// let mut pool = StackPool::new(StackArena::new(StackConfig::new())?);
/// let fiber = Coroutine::new(pool.take()?, (), |()| ());
/// // Nothing has run on this stack yet, and the trace says so.
/// assert_eq!(fiber.backtrace().addresses().count(), 0);
/// println!("{}", fiber.backtrace());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backtrace {
    stacks: Vec<StackTrace>,
    /// The remark beside the stacks: why there are none, or that there are more.
    note: Option<&'static str>,
}

/// The part of a [`Backtrace`] that is on one stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackTrace {
    owner: StackOwner,
    addresses: Vec<usize>,
    whole: bool,
}

/// The owner of a stack.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StackOwner {
    /// A coroutine's, with its [label](crate::Coroutine::set_label). A fiber has one.
    Coroutine {
        /// Its number.
        id: u64,
        /// Its name; empty without one.
        name: String,
    },
    /// A coroutine's that was given no label: the body of an effect handler or of a generator.
    Computation,
    /// The thread's own.
    Thread,
    /// Neither: that of a signal handler, or of a library that switches stacks too. Only the
    /// innermost address is known.
    Elsewhere,
}

impl Backtrace {
    #[cfg_attr(threads, allow(dead_code))] // There is only the empty one.
    pub(crate) fn new(stacks: Vec<StackTrace>, note: Option<&'static str>) -> Self {
        Self { stacks, note }
    }

    pub(crate) fn empty(why: &'static str) -> Self {
        Self { stacks: Vec::new(), note: Some(why) }
    }

    /// The stacks, innermost first.
    pub fn stacks(&self) -> &[StackTrace] {
        &self.stacks
    }

    /// All addresses of all stacks, innermost first. See [`StackTrace::addresses`].
    pub fn addresses(&self) -> impl Iterator<Item = usize> + '_ {
        self.stacks.iter().flat_map(|stack| stack.addresses.iter().copied())
    }

    /// The same without all but the innermost `stacks` stacks.
    #[must_use]
    pub fn innermost(mut self, stacks: usize) -> Self {
        self.stacks.truncate(stacks);
        self
    }

    /// The remark beside the stacks: why there are none, or that there are more of them.
    pub fn note(&self) -> Option<&str> {
        self.note
    }
}

impl StackTrace {
    #[cfg_attr(threads, allow(dead_code))] // As for `Backtrace::new`.
    pub(crate) fn new(owner: StackOwner, addresses: Vec<usize>, whole: bool) -> Self {
        Self { owner, addresses, whole }
    }

    /// The owner of the stack.
    pub fn owner(&self) -> &StackOwner {
        &self.owner
    }

    /// An address within each call that has not returned, innermost first: the address to look up,
    /// and not the one to which the call returns. The innermost may be the instruction that is
    /// next.
    pub fn addresses(&self) -> &[usize] {
        &self.addresses
    }

    /// Whether the trace goes down to the stack's first call. It does not if the stack was too deep
    /// for a copy, or goes through code without unwind tables.
    pub fn is_whole(&self) -> bool {
        self.whole
    }
}

impl fmt::Display for StackOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Coroutine { id, name } if name.is_empty() => write!(f, "fiber {id}"),
            Self::Coroutine { id, name } => write!(f, "fiber '{name}' ({id})"),
            Self::Computation => write!(f, "an effect handler's or a generator's body"),
            Self::Thread => f.write_str("the thread"),
            Self::Elsewhere => f.write_str("neither a fiber nor the thread"),
        }
    }
}

impl fmt::Display for Backtrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.stacks.is_empty() {
            host::write_stacks(f, &self.stacks)?;
        }
        match self.note {
            Some(note) => writeln!(f, "({note})"),
            None => Ok(()),
        }
    }
}
