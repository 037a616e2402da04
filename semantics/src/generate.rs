//! Random programs: closed, of bounded size, and nearly all of them never stuck.
//!
//! Used by the check of the runtime against the machine. A program follows from its seed.
//!
//! # Types
//!
//! The language has none; the generator has, so that programs do something before they end. It
//! makes an expression *of* one of five types, in one of the two languages, with a number of nodes
//! to spend:
//!
//! | type | what can be done with it |
//! | --- | --- |
//! | `Int` | arithmetic |
//! | `Fun` | called with a number, gives a number; in either language, callable from both |
//! | `Cont` | resumed with a number, gives a number |
//! | `FunCont` | resumed with a function, gives a number |
//! | `Escaped` | resumed with a number, gives who knows what, so that is thrown away |
//!
//! Effects `A` and `B` carry a number and are answered with one, `Call` is answered with a
//! function, `Give` carries a continuation. Exceptions `E` and `F` carry a number and `Later` a
//! continuation, and `Unhandled` and `Already_resumed` are also caught. A continuation that is a
//! value like any other gets everywhere: it is given to an outer handler by `Give`, thrown over
//! others by `Later`, returned by a handler's case, and so resumed later, under other handlers, a
//! second time, or never.
//!
//! Nothing in these types makes programs end. In practice they do; the few that do not are left out
//! by the machine's fuel. Variables may shadow each other.
//!
//! # Shapes
//!
//! What random choice alone would seldom make is made on purpose, with the weights of `SHAPES`:
//! what a case does with its continuation.

use std::rc::Rc;

use fastrand::Rng;

use crate::syntax::{
    ALREADY_RESUMED, Expr, Handler, Label, Lang, Name, Op, UNHANDLED, app, arith, c_lam, discontinue, handle, int, lam,
    let_in, perform, program, raise, resume, resume_with, seq, var,
};

const NAMES: [Name; 16] = ["a", "b", "c", "d", "f", "g", "h", "i", "j", "m", "n", "p", "q", "s", "t", "u"];

/// The effects whose argument and answer are numbers.
const PLAIN: [Label; 2] = ["A", "B"];

/// The exceptions that carry a number.
const EXCEPTIONS: [Label; 2] = ["E", "F"];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Type {
    Int,
    Fun,
    Cont,
    FunCont,
    Escaped,
}

/// What an effect case does with its continuation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// `continue k e`
    Tail,
    /// `let y = continue k e in e'`
    NotTail,
    /// `e`, which may or may not know `k`
    Anything,
    /// `e`, which does not know `k`
    Drop,
    /// `discontinue k E e`
    Discontinue,
    /// `continue k e1 + continue k e2`
    Twice,
    /// `raise E e`
    Raise,
    /// `raise Later k`
    Throw,
    /// `perform Give k`
    Give,
    /// `match perform l x with return y -> continue k y | exception E y -> discontinue k E y`
    Reperform,
    /// `match continue k e with h`
    Rehandle,
    /// `(k (\o y. e)) e'`
    RunThere,
}

/// How often each of them.
const SHAPES: [(Shape, usize); 12] = [
    (Shape::Tail, 6),
    (Shape::NotTail, 4),
    (Shape::Anything, 3),
    (Shape::Drop, 1),
    (Shape::Discontinue, 2),
    (Shape::Twice, 1),
    (Shape::Raise, 1),
    (Shape::Throw, 2),
    (Shape::Give, 3),
    (Shape::Reperform, 2),
    (Shape::Rehandle, 2),
    (Shape::RunThere, 1),
];

/// The program of this seed. `size` says roughly how large it gets: it is what there is to spend,
/// and a handler has cases even when nothing is left. With 60 it is 90 nodes on average, and up to
/// some hundreds.
#[must_use]
pub fn generate(seed: u64, size: usize) -> Rc<Expr> {
    let mut generator = Generator { rng: Rng::with_seed(seed), scope: Vec::new(), around: Vec::new() };
    // Large and small ones: small ones fail in simple ways, large ones do more.
    let size = generator.rng.usize(size.min(5)..=size);
    if generator.chance(3) {
        // A main function in C.
        return app(c_lam("_", generator.int(Lang::C, size)), int(0));
    }
    program(if generator.chance(80) { generator.handling(size) } else { generator.int(Lang::O, size) })
}

struct Generator {
    rng: Rng,
    /// Innermost last.
    scope: Vec<(Name, Type)>,
    /// What the handlers around this place have cases for, effects and exceptions. A function may
    /// be called elsewhere, and a case runs elsewhere, so this says only what is likely to be
    /// handled.
    around: Vec<Label>,
}

impl Generator {
    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.rng.usize(..of.len())]
    }

    fn chance(&mut self, percent: u32) -> bool {
        self.rng.u32(..100) < percent
    }

    /// A part of the nodes, and what is left.
    fn split(&mut self, size: usize) -> (usize, usize) {
        let part = self.rng.usize(..=size);
        (part, size - part)
    }

    /// A visible variable of this type.
    fn variable(&mut self, of: Type) -> Option<Rc<Expr>> {
        let visible = |(i, &(name, ty)): (usize, &(Name, Type))| {
            let shadowed = self.scope[i + 1..].iter().any(|(other, _)| *other == name);
            (ty == of && !shadowed).then_some(name)
        };
        let names: Vec<Name> = self.scope.iter().enumerate().filter_map(visible).collect();
        (!names.is_empty()).then(|| var(self.pick(&names)))
    }

    /// What `make` makes where there is a new variable of this type, and that variable.
    fn binding<T>(&mut self, ty: Type, make: impl FnOnce(&mut Generator) -> T) -> (Name, T) {
        let name = self.pick(&NAMES);
        self.scope.push((name, ty));
        let made = make(self);
        self.scope.pop();
        (name, made)
    }

    /// One of these labels, and rather one that is likely to be handled. If none is: mostly
    /// nothing.
    fn label(&mut self, of: &[Label]) -> Option<Label> {
        let handled: Vec<Label> = self.around.iter().copied().filter(|label| of.contains(label)).collect();
        if self.chance(8) || (handled.is_empty() && self.chance(10)) {
            return Some(self.pick(of));
        }
        (!handled.is_empty()).then(|| self.pick(&handled))
    }

    fn number(&mut self) -> Rc<Expr> {
        int(self.rng.i64(-2..10))
    }

    fn of_type(&mut self, ty: Type, lang: Lang, size: usize) -> Rc<Expr> {
        match ty {
            Type::Int => self.int(lang, size),
            Type::Fun => self.fun(lang, size),
            Type::Cont => self.cont(size),
            Type::FunCont => self.fun_cont(size),
            Type::Escaped => self.escaped(lang, size),
        }
    }

    fn int(&mut self, lang: Lang, size: usize) -> Rc<Expr> {
        if size < 2 {
            let known = if self.chance(70) { self.variable(Type::Int) } else { None };
            return known.unwrap_or_else(|| self.number());
        }
        let size = size - 1;
        // C has none of what follows the first four.
        match self.rng.usize(..if lang == Lang::O { 26 } else { 7 }) {
            0 | 1 => self.arithmetic(lang, size),
            2 | 3 => self.binding_int(lang, size),
            4 | 5 => {
                let (a, b) = self.split(size);
                app(self.fun(lang, a), self.int(lang, b))
            }
            6 => match self.label(&EXCEPTIONS) {
                Some(label) => raise(label, self.int(lang, size)),
                None => self.arithmetic(lang, size),
            },
            7..=12 => self.performing(size),
            13..=15 => self.resuming(size),
            16 | 17 => self.crossing(size),
            _ => self.handling(size),
        }
    }

    fn arithmetic(&mut self, lang: Lang, size: usize) -> Rc<Expr> {
        let (a, b) = self.split(size);
        let left = self.int(lang, a);
        if self.chance(10) {
            // Seldom by zero, which is stuck.
            let divisor = if self.chance(3) { 0 } else { self.rng.i64(1..5) };
            return arith(Op::Div, left, int(divisor));
        }
        arith(self.pick(&[Op::Add, Op::Sub, Op::Mul]), left, self.int(lang, b))
    }

    /// `let x = e in e'`, in C with a function of C.
    fn binding_int(&mut self, lang: Lang, size: usize) -> Rc<Expr> {
        let (a, b) = self.split(size);
        let ty = match lang {
            Lang::O => self.pick(&[Type::Int, Type::Fun, Type::Fun, Type::Escaped]),
            Lang::C => self.pick(&[Type::Int, Type::Fun]),
        };
        let bound = self.of_type(ty, lang, a);
        let (name, body) = self.binding(ty, |g| g.int(lang, b));
        match lang {
            Lang::O => let_in(name, bound, body),
            Lang::C => app(c_lam(name, body), bound),
        }
    }

    fn performing(&mut self, size: usize) -> Rc<Expr> {
        match self.label(&["A", "B", "Call", "Give"]) {
            Some("Call") => {
                let (a, b) = self.split(size);
                app(perform("Call", self.int(Lang::O, a)), self.int(Lang::O, b))
            }
            Some("Give") => perform("Give", self.cont(size)),
            Some(label) => perform(label, self.int(Lang::O, size)),
            None => self.handling(size),
        }
    }

    /// A call of C that calls back: `(\c x. (\o y. e) x) e'`, and something around the callback.
    fn crossing(&mut self, size: usize) -> Rc<Expr> {
        let (a, b) = self.split(size);
        let (x, body) = self.binding(Type::Int, |g| {
            let x = g.scope.last().expect("it was just bound").0;
            let (y, back) = g.binding(Type::Int, |g| g.int(Lang::O, a));
            let called = app(lam(y, back), var(x));
            if g.chance(50) { called } else { arith(Op::Add, called, g.number()) }
        });
        app(c_lam(x, body), self.int(Lang::O, b))
    }

    /// Does something with a continuation that is in scope, if there is one.
    fn resuming(&mut self, size: usize) -> Rc<Expr> {
        let (a, b) = self.split(size);
        if self.chance(30)
            && let Some(k) = self.variable(Type::Escaped)
        {
            return seq(self.resume(k, a), self.int(Lang::O, b));
        }
        if self.chance(50)
            && let Some(k) = self.variable(Type::FunCont)
        {
            return resume(k, self.fun(Lang::O, size));
        }
        match self.variable(Type::Cont) {
            Some(k) => self.resume(k, size),
            None => self.performing(size),
        }
    }

    /// Resumes what takes a number.
    fn resume(&mut self, k: Rc<Expr>, size: usize) -> Rc<Expr> {
        match self.rng.usize(..6) {
            0 => discontinue(k, self.pick(&EXCEPTIONS), self.int(Lang::O, size)),
            1 => {
                let (a, b) = self.split(size);
                let (x, there) = self.binding(Type::Int, |g| g.int(Lang::O, a));
                resume_with(k, lam(x, there), self.int(Lang::O, b))
            }
            _ => resume(k, self.int(Lang::O, size)),
        }
    }

    /// `match e with h`, a number.
    fn handling(&mut self, size: usize) -> Rc<Expr> {
        let (a, b) = self.split(size);
        let handler = self.handler(Type::Int, b);
        self.handled(handler, |g| g.int(Lang::O, a))
    }

    /// `match e with h`, for what `body` makes there.
    fn handled(&mut self, h: Handler, body: impl FnOnce(&mut Generator) -> Rc<Expr>) -> Rc<Expr> {
        let outside = self.around.len();
        self.around.extend(h.exceptions.iter().map(|case| case.label));
        self.around.extend(h.effects.iter().map(|case| case.label));
        let body = body(self);
        self.around.truncate(outside);
        handle(body, h)
    }

    /// A handler for a body that gives a number, whose cases give this type.
    fn handler(&mut self, ty: Type, size: usize) -> Handler {
        let (a, mut size) = self.split(size / 2);
        let mut handler = if ty == Type::Int && self.chance(50) {
            Handler::identity()
        } else {
            let (x, ret) = self.binding(Type::Int, |g| g.of_type(ty, Lang::O, a));
            Handler::returns(x, ret)
        };
        for label in [EXCEPTIONS[0], EXCEPTIONS[1], UNHANDLED, ALREADY_RESUMED] {
            if self.chance(20) {
                let (a, rest) = self.split(size);
                size = rest;
                let (x, body) = self.binding(Type::Int, |g| g.of_type(ty, Lang::O, a));
                handler = handler.exception(label, x, body);
            }
        }
        if self.chance(30) {
            let (a, rest) = self.split(size);
            size = rest;
            let (k, body) = self.binding(Type::Cont, |g| match ty {
                Type::Int if g.chance(80) => {
                    let k = g.variable(Type::Cont).expect("it was just bound");
                    g.resume(k, a)
                }
                _ => g.of_type(ty, Lang::O, a),
            });
            handler = handler.exception("Later", k, body);
        }
        for (label, percent, param, k) in [
            (PLAIN[0], 60, Type::Int, Type::Cont),
            (PLAIN[1], 45, Type::Int, Type::Cont),
            ("Call", 20, Type::Int, Type::FunCont),
            ("Give", 25, Type::Cont, Type::Cont),
        ] {
            if self.chance(percent) {
                let (a, rest) = self.split(size);
                size = rest;
                handler = self.effect_case(handler, label, param, k, ty, a);
            }
        }
        handler
    }

    fn effect_case(&mut self, h: Handler, label: Label, param: Type, k: Type, ty: Type, size: usize) -> Handler {
        // A continuation gives what its handler gives.
        let k_type = if ty == Type::Int { k } else { Type::Escaped };
        let shape = self.shape();
        // Two names that differ, in this order: what hides the other is the parameter.
        let (x, k_name) = loop {
            let names = (self.pick(&NAMES), self.pick(&NAMES));
            if names.0 != names.1 {
                break names;
            }
        };
        if shape != Shape::Drop {
            self.scope.push((k_name, k_type));
        }
        self.scope.push((x, param));
        let body = if shape == Shape::Drop || (ty != Type::Int && self.chance(30)) {
            self.of_type(ty, Lang::O, size)
        } else if ty != Type::Int {
            var(k_name)
        } else if k == Type::FunCont {
            resume(var(k_name), self.fun(Lang::O, size))
        } else {
            self.case(shape, label, x, k_name, size)
        };
        self.scope.truncate(self.scope.len() - if shape == Shape::Drop { 1 } else { 2 });
        h.effect(label, x, k_name, body)
    }

    fn shape(&mut self) -> Shape {
        let mut at = self.rng.usize(..SHAPES.iter().map(|(_, weight)| weight).sum::<usize>());
        for (shape, weight) in SHAPES {
            if at < weight {
                return shape;
            }
            at -= weight;
        }
        unreachable!("the weights were summed")
    }

    /// The body of an effect case that gives a number, with a continuation that takes one.
    fn case(&mut self, shape: Shape, label: Label, x: Name, k: Name, size: usize) -> Rc<Expr> {
        let (a, b) = self.split(size);
        match shape {
            Shape::Tail => resume(var(k), self.int(Lang::O, size)),
            Shape::NotTail => {
                let resumed = resume(var(k), self.int(Lang::O, a));
                let (y, body) = self.binding(Type::Int, |g| g.int(Lang::O, b));
                let_in(y, resumed, body)
            }
            Shape::Anything | Shape::Drop => self.int(Lang::O, size),
            Shape::Discontinue => discontinue(var(k), self.pick(&EXCEPTIONS), self.int(Lang::O, size)),
            Shape::Twice => {
                let first = resume(var(k), self.int(Lang::O, a));
                arith(Op::Add, first, resume(var(k), self.int(Lang::O, b)))
            }
            Shape::Raise => raise(self.pick(&EXCEPTIONS), self.int(Lang::O, size)),
            Shape::Throw if self.label(&["Later"]).is_some() => raise("Later", var(k)),
            Shape::Give if self.label(&["Give"]).is_some() => perform("Give", var(k)),
            // Nobody outside wants it.
            Shape::Throw | Shape::Give => self.int(Lang::O, size),
            Shape::Reperform => {
                let mut again = Handler::returns("y", resume(var(k), var("y")));
                for label in EXCEPTIONS {
                    again = again.exception(label, "y", discontinue(var(k), label, var("y")));
                }
                handle(perform(label, var(x)), again)
            }
            Shape::Rehandle => {
                let handler = self.handler(Type::Int, b);
                self.handled(handler, |g| resume(var(k), g.int(Lang::O, a)))
            }
            Shape::RunThere => {
                let (y, there) = self.binding(Type::Int, |g| g.int(Lang::O, a));
                resume_with(var(k), lam(y, there), self.int(Lang::O, b))
            }
        }
    }

    fn fun(&mut self, lang: Lang, size: usize) -> Rc<Expr> {
        if self.chance(40)
            && let Some(f) = self.variable(Type::Fun)
        {
            return f;
        }
        if self.chance(10) && size > 4 {
            // \x. f (f x)
            let f = self.fun(lang, size - 4);
            let (x, y) = ("v", "w");
            let twice = app(var(y), app(var(y), var(x)));
            return match lang {
                Lang::O => let_in(y, f, lam(x, twice)),
                Lang::C => app(c_lam(y, c_lam(x, twice)), f),
            };
        }
        let of = if self.chance(65) { Lang::O } else { Lang::C };
        let (x, body) = self.binding(Type::Int, |g| g.int(of, size.saturating_sub(1)));
        match of {
            Lang::O => lam(x, body),
            Lang::C => c_lam(x, body),
        }
    }

    /// A continuation, or a function that can be used as one.
    fn cont(&mut self, size: usize) -> Rc<Expr> {
        self.variable(Type::Cont).unwrap_or_else(|| {
            let (x, body) = self.binding(Type::Int, |g| g.int(Lang::O, size));
            lam("_", lam(x, body))
        })
    }

    fn fun_cont(&mut self, size: usize) -> Rc<Expr> {
        self.variable(Type::FunCont).unwrap_or_else(|| {
            let (f, body) = self.binding(Type::Fun, |g| g.int(Lang::O, size));
            lam("_", lam(f, body))
        })
    }

    /// A continuation that a handler's case returned; or a function, if nothing was performed.
    fn escaped(&mut self, lang: Lang, size: usize) -> Rc<Expr> {
        if lang == Lang::C || size < 3 || self.chance(10) {
            return self.variable(Type::Escaped).unwrap_or_else(|| self.cont(size));
        }
        let (a, b) = self.split(size);
        let handler = self.handler(Type::Escaped, b);
        self.handled(handler, |g| g.int(Lang::O, a))
    }
}
