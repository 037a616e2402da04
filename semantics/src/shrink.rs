//! Makes a program smaller while it keeps a property.
//!
//! Used by the check, on programs for which the runtime disagrees with the machine.
//!
//! A step replaces one expression by a part of it, by 0, or by a simpler one of its kind, or takes
//! a case out of a handler. A step that leaves a variable free is not taken. What is left at the
//! end can't be made smaller by one step. This is written here and not taken from a crate: what is
//! shrunk is a tree with binders and not a series of choices, and two functions do it.

use std::rc::Rc;

use crate::syntax::{Expr, Handler, Lang, int, lam};

/// The smallest program that is found from this one for which `fails` still says yes.
///
/// ```
/// use semantics::shrink::shrink;
/// use semantics::syntax::*;
///
/// let e = let_in("x", int(7), arith(Op::Add, raise("E", var("x")), int(3)));
/// let raises = |e: &std::rc::Rc<Expr>| e.to_string().contains("raise");
/// assert_eq!(shrink(e, raises), raise("E", int(0)));
/// ```
pub fn shrink(program: Rc<Expr>, mut fails: impl FnMut(&Rc<Expr>) -> bool) -> Rc<Expr> {
    let mut smallest = program;
    loop {
        let mut next = smaller(&smallest);
        next.sort_by_cached_key(measure);
        let limit = measure(&smallest);
        let found = next.into_iter().find(|e| measure(e) < limit && e.free().is_empty() && fails(e));
        match found {
            Some(e) => smallest = e,
            None => return smallest,
        }
    }
}

/// What gets smaller with each step: the size, then how much there is of variables, of C and of
/// numbers.
fn measure(e: &Rc<Expr>) -> (usize, u64) {
    fn weight(e: &Expr) -> u64 {
        match e {
            Expr::Int(n) => n.unsigned_abs().min(1 << 32) * 2 + u64::from(*n < 0),
            Expr::Var(_) => 1 << 40,
            Expr::Lam(lang, _, e) => u64::from(*lang == Lang::C) + weight(e),
            Expr::Raise(_, e) | Expr::Perform(_, e) => weight(e),
            Expr::App(a, b) | Expr::Arith(_, a, b) => weight(a) + weight(b),
            Expr::Match(e, h) => {
                let exceptions: u64 = h.exceptions.iter().map(|case| weight(&case.body)).sum();
                let effects: u64 = h.effects.iter().map(|case| weight(&case.body)).sum();
                weight(e) + weight(&h.ret.1) + exceptions + effects
            }
        }
    }
    (e.size(), weight(e))
}

/// Everything that one step leads to.
fn smaller(e: &Rc<Expr>) -> Vec<Rc<Expr>> {
    let mut found = Vec::new();
    if **e != Expr::Int(0) {
        found.push(int(0));
    }
    // The parts of this expression, and this expression with one of its parts made smaller.
    let mut part = |part: &Rc<Expr>, rebuild: &dyn Fn(Rc<Expr>) -> Expr| {
        found.push(part.clone());
        found.extend(smaller(part).into_iter().map(|part| Rc::new(rebuild(part))));
    };
    match &**e {
        Expr::Int(n) => found.extend([int(n / 2), int(n.saturating_abs())]),
        Expr::Var(_) => {}
        Expr::Lam(lang, x, body) => {
            part(body, &|body| Expr::Lam(*lang, x, body));
            found.push(lam(x, body.clone()));
        }
        Expr::Raise(label, e) => part(e, &|e| Expr::Raise(label, e)),
        Expr::Perform(label, e) => part(e, &|e| Expr::Perform(label, e)),
        Expr::App(a, b) => {
            part(a, &|a| Expr::App(a, b.clone()));
            part(b, &|b| Expr::App(a.clone(), b));
            if let Expr::Lam(_, _, body) = &**a {
                found.push(body.clone());
            }
        }
        Expr::Arith(op, a, b) => {
            part(a, &|a| Expr::Arith(*op, a, b.clone()));
            part(b, &|b| Expr::Arith(*op, a.clone(), b));
        }
        Expr::Match(e, h) => {
            part(e, &|e| Expr::Match(e, h.clone()));
            let with = |change: &dyn Fn(&mut Handler)| {
                let mut h = (**h).clone();
                change(&mut h);
                Expr::Match(e.clone(), Rc::new(h))
            };
            part(&h.ret.1, &|ret| with(&|h| h.ret.1 = ret.clone()));
            for (i, case) in h.exceptions.iter().enumerate() {
                part(&case.body, &|body| with(&|h| h.exceptions[i].body = body.clone()));
            }
            for (i, case) in h.effects.iter().enumerate() {
                part(&case.body, &|body| with(&|h| h.effects[i].body = body.clone()));
            }
            for i in 0..h.exceptions.len() {
                found.push(Rc::new(with(&|h| drop(h.exceptions.remove(i)))));
            }
            for i in 0..h.effects.len() {
                found.push(Rc::new(with(&|h| drop(h.effects.remove(i)))));
            }
        }
    }
    found
}
