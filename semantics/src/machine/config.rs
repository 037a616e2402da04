//! Configurations: what the machine has in its hands between two steps.
//!
//! Used by the rules, which take one configuration to the next.
//!
//! ```text
//! configuration  || t, env, s ||       a term, its environment, and the stack
//! stack          s ::= g | w           a C stack or a stack of the language with effects
//! C stack        g ::= [fs, w]c        frames, and what is under them
//! O stack        w ::= [k, g]o | o     a continuation, and the C stack under it; or nothing at all
//! continuation   k ::= [] | fiber <| k
//! fiber          (fs, (h, env))        frames, and the handler under them with its environment
//! frame          <e env>a | <v>f | <(+) e env>b1 | <(+) n>b2 | <C> | <O>
//! ```
//!
//! A stack is written from its top. The two frames at the end are [`Frame::Mark`], which only
//! Segue's mode has.

use std::cell::Cell;
use std::rc::Rc;

use crate::list::List;
use crate::observe::Shown;
use crate::syntax::{Expr, Handler, Label, Lang, Name, Op};

/// Variables and their values.
pub type Env = List<(Name, Value)>;

/// What is still to be done with the value of the term, innermost first.
pub type Frames = List<Frame>;

/// Fibers, innermost first.
pub type Cont = List<Fiber>;

/// `|| t, env, s ||`
#[derive(Clone, Debug)]
pub struct Config {
    /// What is evaluated.
    pub term: Term,
    /// Its variables.
    pub env: Env,
    /// What is under it.
    pub stack: Stack,
}

/// An expression that is still evaluated, or its value. A number is both to the paper, and always a
/// value here.
#[derive(Clone, Debug)]
pub enum Term {
    /// To be evaluated.
    Expr(Rc<Expr>),
    /// Evaluated.
    Value(Value),
}

/// A value. The last two are never the value of an expression; they stand in function frames, where
/// they say that an effect is on its way to its handler, or an exception to its case.
#[derive(Clone, Debug)]
pub enum Value {
    /// `n`
    Int(i64),
    /// `(| \x. e, env |)`
    Clos(Rc<Closure>),
    /// `k`
    Cont(Rc<Captured>),
    /// `eff l k`: performed, and captured as far as `k` goes.
    Eff(Label, Cont),
    /// `exn l`: raised.
    Exn(Label),
}

/// A function with the variables that it was made under.
#[derive(Debug)]
pub struct Closure {
    /// The language in which it is written.
    pub lang: Lang,
    /// Its parameter.
    pub param: Name,
    /// What it does.
    pub body: Rc<Expr>,
    /// Its other variables.
    pub env: Env,
}

/// A continuation as a value. Its fibers never change; whether it was resumed does, for the mode in
/// which that is possible once.
#[derive(Debug)]
pub struct Captured {
    /// From the `perform` to the handler.
    pub fibers: Cont,
    /// Set by the machine after the step that resumes it, so that the rules themselves change
    /// nothing.
    pub resumed: Cell<bool>,
}

/// One thing that is still to be done.
#[derive(Clone, Debug)]
pub enum Frame {
    /// `<e env>a`: evaluate this argument.
    Arg(Rc<Expr>, Env),
    /// `<v>f`: give the value to this.
    Fun(Value),
    /// `<(+) e env>b1`: evaluate the right operand.
    Right(Op, Rc<Expr>, Env),
    /// `<(+) n>b2`: compute.
    Compute(Op, i64),
    /// `<C>` or `<O>`: the frames above are of this language, and were called from the other.
    Mark(Lang),
}

/// A list of frames under which there is a handler.
#[derive(Clone, Debug)]
pub struct Fiber {
    /// Innermost first.
    pub frames: Frames,
    /// Whose handler it is.
    pub handler: Rc<Handler>,
    /// The handler's variables.
    pub env: Env,
}

/// What is under the term.
#[derive(Clone, Debug)]
pub enum Stack {
    /// C runs.
    C(Rc<CStack>),
    /// The language with effects runs.
    O(OStack),
}

/// `[fs, w]c`
#[derive(Debug)]
pub struct CStack {
    /// C's frames.
    pub frames: Frames,
    /// Who called C.
    pub under: OStack,
}

/// `[k, g]o`, or nothing.
#[derive(Clone, Debug)]
pub enum OStack {
    /// The bottom of everything.
    Empty,
    /// Fibers, and the C stack that called back.
    Over(Cont, Rc<CStack>),
}

impl Config {
    /// `|| e, {}, [[], o]c ||`: where a program starts, which is in C.
    #[must_use]
    pub fn initial(e: &Rc<Expr>) -> Config {
        let bottom = CStack { frames: List::empty(), under: OStack::Empty };
        Config { term: Term::from(e), env: List::empty(), stack: Stack::C(Rc::new(bottom)) }
    }
}

impl From<&Rc<Expr>> for Term {
    fn from(e: &Rc<Expr>) -> Term {
        match **e {
            Expr::Int(n) => Term::Value(Value::Int(n)),
            _ => Term::Expr(e.clone()),
        }
    }
}

impl Term {
    /// The value, if it is one.
    #[must_use]
    pub fn value(&self) -> Option<&Value> {
        match self {
            Term::Expr(_) => None,
            Term::Value(v) => Some(v),
        }
    }

    /// The expression, if it is still one.
    #[must_use]
    pub fn expr(&self) -> Option<&Expr> {
        match self {
            Term::Expr(e) => Some(e),
            Term::Value(_) => None,
        }
    }
}

impl Value {
    /// As much of it as can be observed.
    ///
    /// # Panics
    ///
    /// If it is no value of an expression.
    #[must_use]
    pub fn shown(&self) -> Shown {
        match self {
            Value::Int(n) => Shown::Int(*n),
            Value::Clos(_) => Shown::Function,
            Value::Cont(_) => Shown::Continuation,
            Value::Eff(..) | Value::Exn(_) => unreachable!("no rule makes a term of {self:?}"),
        }
    }
}

impl Fiber {
    /// `([], ({ return x -> x }, {}))`: the fiber of a `perform`, and of a callback.
    #[must_use]
    pub fn identity() -> Fiber {
        thread_local!(static IDENTITY: Rc<Handler> = Rc::new(Handler::identity()));
        Fiber { frames: List::empty(), handler: IDENTITY.with(Rc::clone), env: List::empty() }
    }

    /// This fiber with other frames.
    #[must_use]
    pub fn with_frames(&self, frames: Frames) -> Fiber {
        Fiber { frames, handler: self.handler.clone(), env: self.env.clone() }
    }
}

/// The language of the code on top of these frames of a fiber: that of the nearest mark. A fiber
/// begins in the language with effects, as only that has handlers.
#[must_use]
pub fn language(frames: &Frames) -> Lang {
    let mark = frames.iter().find_map(|frame| match frame {
        Frame::Mark(lang) => Some(*lang),
        _ => None,
    });
    mark.unwrap_or(Lang::O)
}
