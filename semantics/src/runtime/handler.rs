//! Handlers of programs as handlers of the runtime: which clauses there are, and what they do.
//!
//! Used by the interpreter, for each `match` that it evaluates.

use std::any::Any;
use std::cell::Cell;
use std::panic::resume_unwind;
use std::rc::Rc;

use segue_fiber::effect::{Handler, Next};

use super::{
    Answer, Closure, Context, Continuation, Env, Fault, Flying, Interpreter, Op, PLAIN, Style, Suspended, Value,
};
use crate::observe::Event;
use crate::syntax::{self, EffectCase, Expr, Lang, Name};

/// A `match` that is evaluated.
pub(super) struct Installed {
    pub(super) it: Rc<Interpreter>,
    handler: Rc<syntax::Handler>,
    env: Env,
    /// Whether an argument is waiting for what the handler gives.
    pub(super) waiting: Cell<bool>,
}

/// How the clause for an effect is made.
enum Clause {
    None,
    On,
    Tail,
    Answer,
}

/// A handler with the clauses that are wanted, of those kinds that the style has. Each combination
/// is a type, so all of them are written out, by this.
macro_rules! install {
    // All clauses are chosen. Built in a frame of its own, which there is only while this one runs.
    ($at:ident, $body:ident, $new:path, $style:ident [] $($clause:tt)*) => {
        apart(|| {
            let (ret, exn) = ($at.clone(), $at.clone());
            $new()
                $($clause)*
                .value(move |v| ret.returned(v))
                .panic(move |payload| exn.raised(payload))
                .handle($body)
        })
    };
    ($at:ident, $body:ident, $new:path, plain [$l:literal $($more:literal)*] $($clause:tt)*) => {
        match $at.clause($l) {
            Clause::On => install!($at, $body, $new, plain [$($more)*] $($clause)*
                .on({ let at = $at.clone(); move |op: Op<$l>, k| at.performed($l, op.0, k) })),
            _ => install!($at, $body, $new, plain [$($more)*] $($clause)*),
        }
    };
    ($at:ident, $body:ident, $new:path, tail [$l:literal $($more:literal)*] $($clause:tt)*) => {
        match $at.clause($l) {
            Clause::Tail => install!($at, $body, $new, tail [$($more)*] $($clause)*
                .on_tail({ let at = $at.clone(); move |op: Op<$l>, k| at.performed_tail($l, op.0, k) })),
            Clause::Answer => install!($at, $body, $new, tail [$($more)*] $($clause)*
                .answer({ let at = $at.clone(); move |op: Op<$l>| at.answered($l, op.0) })),
            _ => install!($at, $body, $new, tail [$($more)*] $($clause)*),
        }
    };
    ($at:ident, $body:ident, $new:path, scoped [$l:literal $($more:literal)*] $($clause:tt)*) => {
        match $at.clause($l) {
            Clause::On => install!($at, $body, $new, scoped [$($more)*] $($clause)*
                .on(|op: Op<$l>, k| $at.performed_scoped($l, op.0, k))),
            _ => install!($at, $body, $new, scoped [$($more)*] $($clause)*),
        }
    };
}

/// Calls `f` in a frame of its own.
#[inline(never)]
fn apart<R>(f: impl FnOnce() -> R) -> R {
    f()
}

impl Installed {
    pub fn new(it: &Rc<Interpreter>, handler: &Rc<syntax::Handler>, env: &Env, at: Context) -> Rc<Installed> {
        let waiting = Cell::new(at.waiting);
        Rc::new(Installed { it: it.clone(), handler: handler.clone(), env: env.clone(), waiting })
    }

    pub fn handle(self: Rc<Self>, e: &Rc<Expr>) -> Value {
        let at = self;
        let scoped =
            at.it.options.style == Style::Scoped && at.handler.effects.iter().all(|case| usage(case).is_some());
        if scoped {
            let body = || at.it.eval(e, &at.env, PLAIN);
            return install!(at, body, Handler::new, scoped [0 1 2 3]);
        }
        let body = {
            let (at, e) = (at.clone(), e.clone());
            move || at.it.eval(&e, &at.env, PLAIN)
        };
        match at.it.options.style {
            Style::Plain | Style::Scoped => install!(at, body, Handler::stored, plain [0 1 2 3]),
            Style::Tail => install!(at, body, Handler::stored, tail [0 1 2 3]),
        }
    }

    fn case(&self, l: usize) -> Option<&EffectCase> {
        self.handler.effect_case(self.it.labels.get(l)?)
    }

    fn clause(&self, l: usize) -> Clause {
        let skipped = self.it.options.fault == Some(Fault::SkipsHandlers) && !self.handler.exceptions.is_empty();
        match (self.case(l), self.it.options.style) {
            (None, _) => Clause::None,
            _ if skipped => Clause::None,
            (Some(_), Style::Plain | Style::Scoped) => Clause::On,
            (Some(case), Style::Tail) if only_answers(case, self.it.raises) => Clause::Answer,
            (Some(_), Style::Tail) => Clause::Tail,
        }
    }

    /// Where a case runs: on the fiber under the handler.
    fn under(&self) -> Context {
        Context { waiting: self.waiting.get(), ..PLAIN }
    }

    fn returned(&self, v: Value) -> Value {
        if !self.handler.returns_as_is() {
            self.it.happened(Event::Return(v.shown()));
        }
        let (x, e) = &self.handler.ret;
        self.it.eval(e, &self.env.with((*x, v)), self.under())
    }

    fn raised(&self, payload: Box<dyn Any + Send>) -> Value {
        let is_ours = |label| self.handler.exception_case(label);
        let case = if payload.is::<Flying>() {
            let flying = self.it.flying.borrow();
            flying.as_ref().and_then(|(label, _)| is_ours(label))
        } else {
            None
        };
        let Some(case) = case else { resume_unwind(payload) };
        let (label, v) = self.it.land();
        self.it.happened(Event::Exception(label, v.shown()));
        self.it.eval(&case.body, &self.env.with((case.param, v)), self.under())
    }

    /// The case, and its variables, with the continuation if it gets that.
    fn enter(self: &Rc<Self>, l: usize, v: Value, k: Option<Continuation<'static>>) -> (&EffectCase, Env) {
        let case = self.case(l).expect("there is a clause only where there is a case");
        self.it.happened(Event::Effect(case.label, v.shown()));
        let mut env = self.env.clone();
        if let Some(k) = k {
            let k = Suspended { continuation: Some(k).into(), handler: self.clone() };
            env = env.with((case.k, Value::Cont(Rc::new(k))));
        }
        (case, env.with((case.param, v)))
    }

    fn performed(self: &Rc<Self>, l: usize, v: Value, k: Continuation<'static>) -> Value {
        let (case, env) = self.enter(l, v, Some(k));
        self.it.eval(&case.body, &env, self.under())
    }

    fn performed_tail(self: &Rc<Self>, l: usize, v: Value, k: Continuation<'static>) -> Next<'static, Value> {
        let (case, env) = self.enter(l, v, Some(k));
        self.it.tail(&case.body, &env, self.under())
    }

    fn performed_scoped(self: &Rc<Self>, l: usize, v: Value, k: Continuation<'_>) -> Value {
        let (case, env) = self.enter(l, v, None);
        match usage(case).expect("the handler was chosen for this") {
            Usage::Never => self.it.eval(&case.body, &env, self.under()),
            Usage::Resume { x, body, e } => {
                let v = self.it.eval(e, &env, PLAIN);
                self.it.happened(Event::Resume(v.shown()));
                self.it.give(k, Closure::new(Lang::O, x, body, &env), v)
            }
        }
    }

    fn answered(self: &Rc<Self>, l: usize, v: Value) -> Answer {
        let (case, env) = self.enter(l, v, None);
        let Some(Usage::Resume { x, body, e }) = usage(case) else { unreachable!("the clause was chosen for this") };
        let v = self.it.eval(e, &env, PLAIN);
        self.it.happened(Event::Resume(v.shown()));
        Answer(Closure::new(Lang::O, x, body, &env), v)
    }
}

/// What a case does with its continuation, if that is nothing more than this.
enum Usage<'a> {
    /// Nothing.
    Never,
    /// `(k (\o x. body)) e`, and neither `body` nor `e` knows `k`.
    Resume { x: Name, body: &'a Rc<Expr>, e: &'a Rc<Expr> },
}

fn usage(case: &EffectCase) -> Option<Usage<'_>> {
    let knows_k = |e: &Expr| case.k != case.param && e.free().contains(case.k);
    if !knows_k(&case.body) {
        return Some(Usage::Never);
    }
    let Expr::App(kf, e) = &*case.body else { return None };
    let Expr::App(k, f) = &**kf else { return None };
    let Expr::Lam(Lang::O, param, body) = &**f else { return None };
    (**k == Expr::Var(case.k) && !knows_k(f) && !knows_k(e)).then_some(Usage::Resume { x: param, body, e })
}

/// Whether the case is `continue k e`, and `e` raises nothing, so that it may be evaluated by the
/// performer.
fn only_answers(case: &EffectCase, raises: bool) -> bool {
    fn computes(e: &Expr) -> bool {
        match e {
            Expr::Int(_) | Expr::Var(_) => true,
            Expr::Arith(_, a, b) => computes(a) && computes(b),
            _ => false,
        }
    }
    matches!(usage(case), Some(Usage::Resume { x, body, e }) if **body == Expr::Var(x) && (!raises || computes(e)))
}
