//! The programs: the expressions and handlers of the paper's core language.
//!
//! Used by everything here: the machine reduces them, the interpreter on the runtime performs and
//! handles them, the generator makes them, the shrinker makes them smaller.
//!
//! ```text
//! e ::= n | x | e e | \o x. e | \c x. e | e (+) e | raise l e | perform l e | match e with h
//! h ::= { return x -> e }  +  { exception l x -> e } ...  +  { effect l x k -> e } ...
//! ```
//!
//! `\o` is a function of the language that has effects and handlers (OCaml in the paper, Rust
//! here), `\c` one of the language that has not (C). `continue` and `discontinue` are no
//! expressions of their own: a continuation is applied to a function and a value, and the function
//! is called with the value where the effect was performed ([`resume_with`]).
//!
//! Text form, for people: `Display` prints a program with few parentheses. Programs are built by
//! the functions below.

use std::collections::BTreeSet;
use std::fmt;
use std::rc::Rc;

/// A variable.
pub type Name = &'static str;

/// What an effect or an exception is called.
pub type Label = &'static str;

/// The exception raised where an effect was performed that nobody handles.
pub const UNHANDLED: Label = "Unhandled";

/// The exception raised by whoever resumes a continuation for the second time, where continuations
/// are one-shot.
pub const ALREADY_RESUMED: Label = "Already_resumed";

/// Which of the two languages a function is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lang {
    /// The one with effects and handlers: OCaml in the paper, Rust here.
    O,
    /// The foreign one. It computes, calls, and raises; it can neither perform nor handle.
    C,
}

/// Arithmetic. Numbers wrap around.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// `+`
    Add,
    /// `-`
    Sub,
    /// `*`
    Mul,
    /// `/`, towards zero
    Div,
}

impl Op {
    /// `[[ a (+) b ]]`. The paper says nothing of a division by zero, so it has no result, and the
    /// machine is stuck.
    #[must_use]
    pub fn apply(self, a: i64, b: i64) -> Option<i64> {
        match self {
            Op::Add => Some(a.wrapping_add(b)),
            Op::Sub => Some(a.wrapping_sub(b)),
            Op::Mul => Some(a.wrapping_mul(b)),
            Op::Div => (b != 0).then(|| a.wrapping_div(b)),
        }
    }
}

/// An expression.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Expr {
    /// `n`
    Int(i64),
    /// `x`
    Var(Name),
    /// `\o x. e` or `\c x. e`
    Lam(Lang, Name, Rc<Expr>),
    /// `e1 e2`
    App(Rc<Expr>, Rc<Expr>),
    /// `e1 (+) e2`
    Arith(Op, Rc<Expr>, Rc<Expr>),
    /// `raise l e`
    Raise(Label, Rc<Expr>),
    /// `perform l e`
    Perform(Label, Rc<Expr>),
    /// `match e with h`
    Match(Rc<Expr>, Rc<Handler>),
}

/// What a `match` does with the outcome of its body: one return case, and cases for exceptions and
/// effects. Of two cases with the same label the first counts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Handler {
    /// `return x -> e`
    pub ret: (Name, Rc<Expr>),
    /// `exception l x -> e`
    pub exceptions: Vec<ExceptionCase>,
    /// `effect l x k -> e`
    pub effects: Vec<EffectCase>,
}

/// `exception l x -> e`
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ExceptionCase {
    /// The exception.
    pub label: Label,
    /// What it carries.
    pub param: Name,
    /// What is done then.
    pub body: Rc<Expr>,
}

/// `effect l x k -> e`
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EffectCase {
    /// The effect.
    pub label: Label,
    /// What it carries.
    pub param: Name,
    /// The continuation: everything from the `perform` to this handler, the handler included (it is
    /// deep).
    pub k: Name,
    /// What is done then.
    pub body: Rc<Expr>,
}

impl Handler {
    /// `{ return x -> x }`
    #[must_use]
    pub fn identity() -> Handler {
        Handler { ret: ("x", var("x")), exceptions: Vec::new(), effects: Vec::new() }
    }

    /// `{ return param -> body }`
    #[must_use]
    pub fn returns(param: Name, body: Rc<Expr>) -> Handler {
        Handler { ret: (param, body), exceptions: Vec::new(), effects: Vec::new() }
    }

    /// This and `exception label param -> body`
    #[must_use]
    pub fn exception(mut self, label: Label, param: Name, body: Rc<Expr>) -> Handler {
        self.exceptions.push(ExceptionCase { label, param, body });
        self
    }

    /// This and `effect label param k -> body`
    #[must_use]
    pub fn effect(mut self, label: Label, param: Name, k: Name, body: Rc<Expr>) -> Handler {
        self.effects.push(EffectCase { label, param, k, body });
        self
    }

    /// Whether the return case gives back what it gets, which nobody can observe.
    #[must_use]
    pub fn returns_as_is(&self) -> bool {
        *self.ret.1 == Expr::Var(self.ret.0)
    }

    /// The case for this exception.
    #[must_use]
    pub fn exception_case(&self, label: Label) -> Option<&ExceptionCase> {
        self.exceptions.iter().find(|case| case.label == label)
    }

    /// The case for this effect.
    #[must_use]
    pub fn effect_case(&self, label: Label) -> Option<&EffectCase> {
        self.effects.iter().find(|case| case.label == label)
    }
}

/// `n`
#[must_use]
pub fn int(n: i64) -> Rc<Expr> {
    Rc::new(Expr::Int(n))
}

/// `x`
#[must_use]
pub fn var(x: Name) -> Rc<Expr> {
    Rc::new(Expr::Var(x))
}

/// `\o x. body`
#[must_use]
pub fn lam(x: Name, body: Rc<Expr>) -> Rc<Expr> {
    Rc::new(Expr::Lam(Lang::O, x, body))
}

/// `\c x. body`
#[must_use]
pub fn c_lam(x: Name, body: Rc<Expr>) -> Rc<Expr> {
    Rc::new(Expr::Lam(Lang::C, x, body))
}

/// `f e`
#[must_use]
pub fn app(f: Rc<Expr>, e: Rc<Expr>) -> Rc<Expr> {
    Rc::new(Expr::App(f, e))
}

/// `a (+) b`
#[must_use]
pub fn arith(op: Op, a: Rc<Expr>, b: Rc<Expr>) -> Rc<Expr> {
    Rc::new(Expr::Arith(op, a, b))
}

/// `raise l e`
#[must_use]
pub fn raise(label: Label, e: Rc<Expr>) -> Rc<Expr> {
    Rc::new(Expr::Raise(label, e))
}

/// `perform l e`
#[must_use]
pub fn perform(label: Label, e: Rc<Expr>) -> Rc<Expr> {
    Rc::new(Expr::Perform(label, e))
}

/// `match e with h`
#[must_use]
pub fn handle(e: Rc<Expr>, h: Handler) -> Rc<Expr> {
    Rc::new(Expr::Match(e, Rc::new(h)))
}

/// `let x = e in body`, that is `(\o x. body) e`
#[must_use]
pub fn let_in(x: Name, e: Rc<Expr>, body: Rc<Expr>) -> Rc<Expr> {
    app(lam(x, body), e)
}

/// `first; then`, that is `let _ = first in then`
#[must_use]
pub fn seq(first: Rc<Expr>, then: Rc<Expr>) -> Rc<Expr> {
    let_in("_", first, then)
}

/// `(k f) e`: calls `f` with the value of `e` where the effect was performed whose continuation `k`
/// is.
#[must_use]
pub fn resume_with(k: Rc<Expr>, f: Rc<Expr>, e: Rc<Expr>) -> Rc<Expr> {
    app(app(k, f), e)
}

/// `continue k e`, that is `(k (\o x. x)) e`
#[must_use]
pub fn resume(k: Rc<Expr>, e: Rc<Expr>) -> Rc<Expr> {
    resume_with(k, lam("x", var("x")), e)
}

/// `discontinue k l e`, that is `(k (\o x. raise l x)) e`
#[must_use]
pub fn discontinue(k: Rc<Expr>, label: Label, e: Rc<Expr>) -> Rc<Expr> {
    resume_with(k, lam("x", raise(label, var("x"))), e)
}

/// A whole program: `e` as the main function of the language with effects, `(\o _. e) 0`. Programs
/// start in C.
#[must_use]
pub fn program(e: Rc<Expr>) -> Rc<Expr> {
    app(lam("_", e), int(0))
}

impl Expr {
    /// How many expressions and cases this is made of.
    #[must_use]
    pub fn size(&self) -> usize {
        1 + match self {
            Expr::Int(_) | Expr::Var(_) => 0,
            Expr::Lam(_, _, e) | Expr::Raise(_, e) | Expr::Perform(_, e) => e.size(),
            Expr::App(a, b) | Expr::Arith(_, a, b) => a.size() + b.size(),
            Expr::Match(e, h) => {
                let cases = h.exceptions.iter().map(|case| 1 + case.body.size()).sum::<usize>()
                    + h.effects.iter().map(|case| 1 + case.body.size()).sum::<usize>();
                e.size() + h.ret.1.size() + cases
            }
        }
    }

    /// The variables that nothing here binds.
    #[must_use]
    pub fn free(&self) -> BTreeSet<Name> {
        fn without(mut free: BTreeSet<Name>, names: &[Name]) -> BTreeSet<Name> {
            free.retain(|x| !names.contains(x));
            free
        }
        match self {
            Expr::Int(_) => BTreeSet::new(),
            Expr::Var(x) => BTreeSet::from([*x]),
            Expr::Lam(_, x, e) => without(e.free(), &[x]),
            Expr::Raise(_, e) | Expr::Perform(_, e) => e.free(),
            Expr::App(a, b) | Expr::Arith(_, a, b) => &a.free() | &b.free(),
            Expr::Match(e, h) => {
                let ret = without(h.ret.1.free(), &[h.ret.0]);
                let exceptions = h.exceptions.iter().map(|case| without(case.body.free(), &[case.param]));
                let effects = h.effects.iter().map(|case| without(case.body.free(), &[case.param, case.k]));
                exceptions.chain(effects).fold(&e.free() | &ret, |all, free| &all | &free)
            }
        }
    }

    /// The labels of effects that are performed or handled here.
    #[must_use]
    pub fn effects(&self) -> BTreeSet<Label> {
        fn visit(e: &Expr, labels: &mut BTreeSet<Label>) {
            match e {
                Expr::Int(_) | Expr::Var(_) => {}
                Expr::Lam(_, _, e) | Expr::Raise(_, e) => visit(e, labels),
                Expr::Perform(label, e) => {
                    labels.insert(label);
                    visit(e, labels);
                }
                Expr::App(a, b) | Expr::Arith(_, a, b) => {
                    visit(a, labels);
                    visit(b, labels);
                }
                Expr::Match(e, h) => {
                    visit(e, labels);
                    visit(&h.ret.1, labels);
                    h.exceptions.iter().for_each(|case| visit(&case.body, labels));
                    for case in &h.effects {
                        labels.insert(case.label);
                        visit(&case.body, labels);
                    }
                }
            }
        }
        let mut labels = BTreeSet::new();
        visit(self, &mut labels);
        labels
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Op::Add => "+",
            Op::Sub => "-",
            Op::Mul => "*",
            Op::Div => "/",
        })
    }
}

impl fmt::Display for Expr {
    /// An operand is put into parentheses unless it is a number or a variable.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        struct Operand<'a>(&'a Expr);
        impl fmt::Display for Operand<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self.0 {
                    Expr::Int(0..) | Expr::Var(_) => self.0.fmt(f),
                    e => write!(f, "({e})"),
                }
            }
        }
        match self {
            Expr::Int(n) => write!(f, "{n}"),
            Expr::Var(x) => f.write_str(x),
            Expr::Lam(Lang::O, x, e) => write!(f, "\\o {x}. {e}"),
            Expr::Lam(Lang::C, x, e) => write!(f, "\\c {x}. {e}"),
            Expr::App(a, b) => write!(f, "{} {}", Operand(a), Operand(b)),
            Expr::Arith(op, a, b) => write!(f, "{} {op} {}", Operand(a), Operand(b)),
            Expr::Raise(label, e) => write!(f, "raise {label} {}", Operand(e)),
            Expr::Perform(label, e) => write!(f, "perform {label} {}", Operand(e)),
            Expr::Match(e, h) => {
                write!(f, "match {e} with {{ return {} -> {}", h.ret.0, h.ret.1)?;
                for case in &h.exceptions {
                    write!(f, " | exception {} {} -> {}", case.label, case.param, case.body)?;
                }
                for case in &h.effects {
                    write!(f, " | effect {} {} {} -> {}", case.label, case.param, case.k, case.body)?;
                }
                f.write_str(" }")
            }
        }
    }
}
