//! What can be observed of a program: how it ended, what happened on the way, and what it left
//! behind.
//!
//! Used by the machine and by the interpreter on the runtime, whose observations have to be the
//! same.
//!
//! # Continuations that nobody resumes
//!
//! This is the one place where machine and runtime do different things on purpose. On the paper's
//! machine a continuation that nobody holds any more is gone, and with it the rest of that
//! computation: it never ends. In Rust that would be a stack that is never unwound, so dropping a
//! continuation discontinues it: its stack unwinds and drops what lies there.
//!
//! Programs cannot see that, as they have no destructors, and no `exception` case matches what the
//! runtime unwinds with. So outcome and trace have to be *equal*, and not equal up to something.
//! What can be compared beyond that is how many there were: [`Observed::abandoned`] counts, on the
//! machine, continuations that were captured less those that were resumed; and on the runtime, the
//! performs that came back by such an unwinding. The runtime counts after the program has ended and
//! let go of its values, so that a stack which was forgotten instead of unwound is a difference.

use std::fmt;

use crate::syntax::Label;

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// With a value.
    Value(Shown),
    /// With an exception that nobody caught; [`UNHANDLED`](crate::syntax::UNHANDLED) among them.
    Exception(Label, Shown),
    /// No rule applies: a number was called, a variable is free, a division was by zero, C
    /// performed or handled.
    Stuck,
    /// It went on for longer than it was given.
    OutOfFuel,
}

/// As much of a value as is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shown {
    /// The number itself.
    Int(i64),
    /// Some function.
    Function,
    /// Some continuation.
    Continuation,
}

/// Something that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// An `effect` case was entered: this label was performed with this value.
    Effect(Label, Shown),
    /// This was performed, and nobody handles it.
    Unhandled(Label, Shown),
    /// An `exception` case was entered.
    Exception(Label, Shown),
    /// A `return` case was entered, other than one that gives back what it gets.
    Return(Shown),
    /// A continuation was resumed: a function will be called there with this.
    Resume(Shown),
    /// A continuation was resumed again, and that was refused.
    Refused,
}

/// All of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    /// How the program ended.
    pub outcome: Outcome,
    /// What happened, in order.
    pub trace: Vec<Event>,
    /// How many continuations were captured and never resumed.
    pub abandoned: usize,
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Shown::Int(n) => write!(f, "{n}"),
            Shown::Function => f.write_str("<function>"),
            Shown::Continuation => f.write_str("<continuation>"),
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Value(v) => write!(f, "value {v}"),
            Outcome::Exception(label, v) => write!(f, "exception {label} {v}"),
            Outcome::Stuck => f.write_str("stuck"),
            Outcome::OutOfFuel => f.write_str("out of fuel"),
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Effect(label, v) => write!(f, "effect {label} {v}"),
            Event::Unhandled(label, v) => write!(f, "unhandled {label} {v}"),
            Event::Exception(label, v) => write!(f, "exception {label} {v}"),
            Event::Return(v) => write!(f, "return {v}"),
            Event::Resume(v) => write!(f, "resume {v}"),
            Event::Refused => f.write_str("refused"),
        }
    }
}

impl fmt::Display for Observed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {} abandoned; [", self.outcome, self.abandoned)?;
        for (i, event) in self.trace.iter().enumerate() {
            write!(f, "{}{event}", if i == 0 { "" } else { ", " })?;
        }
        f.write_str("]")
    }
}
