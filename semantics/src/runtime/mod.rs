//! The same programs on the runtime: an interpreter whose performs and handlers are real ones.
//!
//! Used by the check. It is straightforward where the machine is explicit: a call is a call, an
//! exception is a panic, `match` is a [`Handler`](effect::Handler), `perform` is a perform, and a
//! continuation is a [`Continuation`](effect::Continuation). So stacks are switched, captured,
//! resumed and unwound by the runtime; this file only says which expression is which.
//!
//! | machine | here |
//! | --- | --- |
//! | `\c x. e` | called through a function of the C library, whose frame is on the stack ([`through_c`]) |
//! | `raise l e`, `exception l x -> e` | a panic without a message; the handler's case for panics, which passes on what it has no case for |
//! | `effect l x k -> e` | a clause with the continuation, for a type of effect that stands for the label (`Op`) |
//! | `(k f) v` | resumes with `f` and `v`; the performer calls `f`. With `f = \o x. raise l x` it discontinues |
//! | a continuation that was resumed | an empty `Option` |
//! | stuck, out of fuel | a panic that no case matches |
//!
//! # Styles
//!
//! A clause can be written in several ways, and to programs they are the same. [`Style::Plain`]
//! makes all clauses with `on`. [`Style::Tail`] makes them with `on_tail`, which resumes after the
//! clause is over where that is the last thing a case does; and with `answer`, a call, where a case
//! is `continue k e` and `e` does not know `k`. An exception of `e` would get to the performer
//! then, instead of to the handlers around, so `e` has to be one that only computes; unless it is
//! known of the program that it raises nothing. [`Style::Scoped`] takes a handler whose
//! continuations can't be kept, where all cases use theirs at once or not at all, and is as plain
//! otherwise.
//!
//! # Waiting arguments
//!
//! `(k f) v` is two applications, and `k f` alone means nothing: the machine looks whether a second
//! argument is waiting in the next frame. That can be seen through calls and handlers, as in `((\o
//! x. k f) 0) v`. So `eval` is told whether one is waiting (`Context`), and then may answer
//! `Value::Partial`. For a handler's cases that is up to whoever resumed last.

mod handler;

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::{fmt, mem};

use handler::Installed;
use segue_fiber::effect::{self, Effect, Next, try_perform};

use crate::foreign::through_c;
use crate::list::List;
use crate::observe::{Event, Observed, Outcome, Shown};
use crate::syntax::{ALREADY_RESUMED, Expr, Label, Lang, Name, UNHANDLED};

/// How many effects a program can have: for each there is a type.
pub const EFFECTS: usize = 4;

/// How clauses are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// With `on`.
    Plain,
    /// With `on_tail` and `answer`.
    Tail,
    /// With `on`, and with handlers that borrow where that is possible.
    Scoped,
}

impl Style {
    /// All of them.
    pub const ALL: [Style; 3] = [Style::Plain, Style::Tail, Style::Scoped];
}

impl fmt::Display for Style {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Style::Plain => "clauses with `on`",
            Style::Tail => "clauses with `on_tail` and `answer`",
            Style::Scoped => "handlers that borrow",
        })
    }
}

/// Something done wrong, which the check has to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Effects skip handlers that also have cases for exceptions.
    SkipsHandlers,
    /// A continuation that nobody holds is forgotten instead of dropped.
    ForgetsContinuations,
}

/// How a program is interpreted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// How clauses are made.
    pub style: Style,
    /// What is done wrong, on purpose.
    pub fault: Option<Fault>,
}

/// Runs a program for at most `fuel` evaluations. `raises` is false if it is known that no
/// exception is raised in it.
///
/// # Panics
///
/// If the program has more than [`EFFECTS`] effects. With whatever else than the program's own
/// exceptions leaves it, which would be an error of the runtime.
#[must_use]
pub fn run(program: &Rc<Expr>, fuel: u32, raises: bool, options: Options) -> Observed {
    let labels: Vec<Label> = program.effects().into_iter().collect();
    assert!(labels.len() <= EFFECTS, "a program can have at most {EFFECTS} effects, and this has {labels:?}");
    let it = Rc::new(Interpreter {
        labels,
        options,
        raises,
        fuel: fuel.into(),
        trace: RefCell::default(),
        flying: RefCell::default(),
        discontinuing: Cell::new(false),
        abandoned: Cell::new(0),
    });
    let main = Context { lang: Lang::C, waiting: false };
    let outcome = match catch_unwind(AssertUnwindSafe(|| it.eval(program, &List::empty(), main).shown())) {
        Ok(shown) => Outcome::Value(shown),
        Err(payload) if payload.is::<Flying>() => {
            let (label, v) = it.land();
            Outcome::Exception(label, v.shown())
        }
        Err(payload) => match payload.downcast::<Halt>() {
            Ok(halt) => halt.0,
            Err(payload) => resume_unwind(payload),
        },
    };
    Observed { outcome, trace: it.trace.take(), abandoned: it.abandoned.get() }
}

type Env = List<(Name, Value)>;

#[derive(Clone)]
enum Value {
    Int(i64),
    Clos(Rc<Closure>),
    Cont(Rc<Suspended>),
    /// `k f`, which is no value of a program: only where another argument is waiting.
    Partial(Rc<Suspended>, Rc<Closure>),
}

struct Closure {
    lang: Lang,
    param: Name,
    body: Rc<Expr>,
    env: Env,
}

type Continuation<'k> = effect::Continuation<'k, Answer, Value>;

/// A continuation as a value.
struct Suspended {
    continuation: RefCell<Option<Continuation<'static>>>,
    /// The handler that captured it.
    handler: Rc<Installed>,
}

/// The effect of the `L`th label.
struct Op<const L: usize>(Value);

/// What a performer gets: it calls the function with the value.
struct Answer(Rc<Closure>, Value);

impl<const L: usize> Effect for Op<L> {
    type Output = Answer;
}

/// The payload of an exception on its way. What it carries is with the interpreter, since payloads
/// have to be `Send`. There is never more than one: while it is on its way no program runs.
struct Flying;

/// The payload that ends the program.
struct Halt(Outcome);

/// Where an expression stands.
#[derive(Clone, Copy)]
struct Context {
    lang: Lang,
    /// Whether its value will be applied to an argument.
    waiting: bool,
}

/// `match` in the language with effects, and arguments and operands: nothing waits.
const PLAIN: Context = Context { lang: Lang::O, waiting: false };

/// What an application comes to.
enum Applied {
    Call(Rc<Closure>, Value),
    Resume(Rc<Suspended>, Rc<Closure>, Value),
    Partial(Value),
}

struct Interpreter {
    /// The program's effects, of which each is the `Op` of its place.
    labels: Vec<Label>,
    options: Options,
    /// Whether exceptions are to be expected.
    raises: bool,
    fuel: Cell<u32>,
    trace: RefCell<Vec<Event>>,
    /// The exception on its way.
    flying: RefCell<Option<(Label, Value)>>,
    /// Set before a perform is made to panic by the program; the next one that panics otherwise was
    /// abandoned.
    discontinuing: Cell<bool>,
    abandoned: Cell<usize>,
}

impl Interpreter {
    fn happened(&self, event: Event) {
        self.trace.borrow_mut().push(event);
    }

    fn halt(&self, outcome: Outcome) -> ! {
        resume_unwind(Box::new(Halt(outcome)))
    }

    fn stuck(&self) -> ! {
        self.halt(Outcome::Stuck)
    }

    fn burn(&self) {
        match self.fuel.get().checked_sub(1) {
            Some(left) => self.fuel.set(left),
            None => self.halt(Outcome::OutOfFuel),
        }
    }

    /// Puts an exception on its way, whose payload is to be thrown.
    fn launch(&self, label: Label, v: Value) -> Flying {
        let before = self.flying.replace(Some((label, v)));
        assert!(before.is_none(), "two exceptions are on their way");
        Flying
    }

    fn land(&self) -> (Label, Value) {
        self.flying.take().expect("an exception that is on its way carries something")
    }

    fn throw(&self, label: Label, v: Value) -> ! {
        resume_unwind(Box::new(self.launch(label, v)))
    }

    fn eval(self: &Rc<Self>, e: &Rc<Expr>, env: &Env, at: Context) -> Value {
        self.burn();
        let operand = Context { waiting: false, ..at };
        match &**e {
            Expr::Int(n) => Value::Int(*n),
            Expr::Var(x) => match env.iter().find(|(name, _)| name == x) {
                Some((_, v)) => v.clone(),
                None => self.stuck(),
            },
            Expr::Lam(lang, param, body) => Value::Clos(Closure::new(*lang, param, body, env)),
            Expr::Arith(op, a, b) => {
                let Value::Int(a) = self.eval(a, env, operand) else { self.stuck() };
                let Value::Int(b) = self.eval(b, env, operand) else { self.stuck() };
                op.apply(a, b).map_or_else(|| self.stuck(), Value::Int)
            }
            Expr::App(a, b) => match self.apply(a, b, env, at) {
                Applied::Call(f, v) => self.call(&f, v, at),
                Applied::Resume(k, f, v) => self.give(self.take(&k, &v, at), f, v),
                Applied::Partial(partial) => partial,
            },
            Expr::Raise(label, e) => {
                let v = self.eval(e, env, operand);
                self.throw(label, v)
            }
            Expr::Perform(label, e) => {
                let v = self.eval(e, env, operand);
                if at.lang == Lang::C { self.stuck() } else { self.perform(label, v) }
            }
            Expr::Match(e, h) => {
                if at.lang == Lang::C {
                    self.stuck()
                }
                Installed::new(self, h, env, at).handle(e)
            }
        }
    }

    /// Evaluates what is applied, and its argument.
    fn apply(self: &Rc<Self>, a: &Rc<Expr>, b: &Rc<Expr>, env: &Env, at: Context) -> Applied {
        let operand = Context { waiting: false, ..at };
        match self.eval(a, env, Context { waiting: true, ..at }) {
            Value::Clos(f) => Applied::Call(f, self.eval(b, env, operand)),
            Value::Partial(k, f) => {
                let v = self.eval(b, env, operand);
                if f.lang == Lang::O && at.lang == Lang::O { Applied::Resume(k, f, v) } else { self.stuck() }
            }
            Value::Cont(k) if at.waiting => match self.eval(b, env, operand) {
                Value::Clos(f) => Applied::Partial(Value::Partial(k, f)),
                _ => self.stuck(),
            },
            Value::Cont(_) | Value::Int(_) => self.stuck(),
        }
    }

    fn call(self: &Rc<Self>, f: &Closure, v: Value, at: Context) -> Value {
        let env = f.env.with((f.param, v));
        let crossing = Context { lang: f.lang, waiting: false };
        match (at.lang, f.lang) {
            (Lang::O, Lang::C) => through_c(|| self.eval(&f.body, &env, crossing)),
            (Lang::C, Lang::O) => self.eval(&f.body, &env, crossing),
            _ => self.eval(&f.body, &env, at),
        }
    }

    fn perform(self: &Rc<Self>, label: Label, v: Value) -> Value {
        /// Whether the perform has come back by itself.
        struct Pending<'a>(&'a Interpreter);
        impl Drop for Pending<'_> {
            fn drop(&mut self) {
                if !self.0.discontinuing.take() {
                    self.0.abandoned.set(self.0.abandoned.get() + 1);
                }
            }
        }

        let shown = v.shown();
        let pending = Pending(self);
        let answer = match self.labels.iter().position(|known| *known == label) {
            Some(0) => try_perform(Op::<0>(v)).ok(),
            Some(1) => try_perform(Op::<1>(v)).ok(),
            Some(2) => try_perform(Op::<2>(v)).ok(),
            Some(3) => try_perform(Op::<3>(v)).ok(),
            _ => unreachable!("all of the program's effects are known"),
        };
        mem::forget(pending);
        match answer {
            Some(Answer(f, v)) => self.eval(&f.body, &f.env.with((f.param, v)), PLAIN),
            None => {
                self.happened(Event::Unhandled(label, shown));
                self.throw(UNHANDLED, Value::Int(0))
            }
        }
    }

    /// The continuation, for whoever resumes it with `v`.
    fn take(&self, k: &Suspended, v: &Value, at: Context) -> Continuation<'static> {
        let Some(continuation) = k.continuation.take() else {
            self.happened(Event::Refused);
            self.throw(ALREADY_RESUMED, Value::Int(0))
        };
        self.happened(Event::Resume(v.shown()));
        k.handler.waiting.set(at.waiting);
        continuation
    }

    /// Resumes, or discontinues if that is what the function says.
    fn give(&self, continuation: Continuation<'_>, f: Rc<Closure>, v: Value) -> Value {
        match f.raises() {
            None => continuation.resume(Answer(f, v)),
            Some(label) => {
                self.discontinuing.set(true);
                continuation.discontinue(self.launch(label, v))
            }
        }
    }

    /// A case of a handler, which ends in a resumption if that is the last thing it does.
    fn tail(self: &Rc<Self>, e: &Rc<Expr>, env: &Env, at: Context) -> Next<'static, Value> {
        let Expr::App(a, b) = &**e else { return Next::done(self.eval(e, env, at)) };
        self.burn();
        match self.apply(a, b, env, at) {
            Applied::Call(f, v) if f.lang == at.lang => self.tail(&f.body, &f.env.with((f.param, v)), at),
            Applied::Call(f, v) => Next::done(self.call(&f, v, at)),
            Applied::Partial(partial) => Next::done(partial),
            Applied::Resume(k, f, v) => {
                let continuation = self.take(&k, &v, at);
                match f.raises() {
                    None => continuation.tail(Answer(f, v)),
                    Some(label) => {
                        self.discontinuing.set(true);
                        continuation.tail_discontinue(self.launch(label, v))
                    }
                }
            }
        }
    }
}

impl Value {
    fn shown(&self) -> Shown {
        match self {
            Value::Int(n) => Shown::Int(*n),
            Value::Clos(_) => Shown::Function,
            Value::Cont(_) => Shown::Continuation,
            Value::Partial(..) => unreachable!("another argument is waiting for it"),
        }
    }
}

impl Closure {
    fn new(lang: Lang, param: Name, body: &Rc<Expr>, env: &Env) -> Rc<Closure> {
        Rc::new(Closure { lang, param, body: body.clone(), env: env.clone() })
    }

    /// The exception, if this is `\o x. raise l x`: resuming with it is to discontinue.
    fn raises(&self) -> Option<Label> {
        match &*self.body {
            Expr::Raise(label, e) if **e == Expr::Var(self.param) => Some(label),
            _ => None,
        }
    }
}

impl Drop for Suspended {
    fn drop(&mut self) {
        if self.handler.it.options.fault == Some(Fault::ForgetsContinuations) {
            mem::forget(self.continuation.take());
        }
    }
}
