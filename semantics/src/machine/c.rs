//! The reductions of C: what can happen while the stack is a C stack.
//!
//! Used by `StepC`, that is by [`step`](super::step). Each takes a term, its environment, C's
//! frames and the stack under them,
//!
//! ```text
//! (t, env, fs, w)  -c->  configuration
//! ```
//!
//! and answers nothing where it does not apply. There is no rule for an effect on its way and none
//! for `match`: C can neither perform nor handle. In Segue's mode this is the program's main
//! function only; what is called from there on runs on fibers.

use std::rc::Rc;

use super::config::{CStack, Config, Env, Fiber, Frame, Frames, OStack, Stack, Term, Value};
use super::{Next, Rule, admin};
use crate::list::List;
use crate::syntax::Lang;

pub(super) type CRule = fn(&Term, &Env, &Frames, &OStack) -> Option<Next>;

/// All of them, but for `AdminC`.
pub(super) const RULES: [(Rule, CRule); 4] =
    [(Rule::CallC, call_c), (Rule::Callback, callback), (Rule::RetToO, ret_to_o), (Rule::ExnFwdO, exn_fwd_o)];

/// `[fs, w]c` as a stack.
fn over(fs: &Frames, w: &OStack) -> Stack {
    Stack::C(Rc::new(CStack { frames: fs.clone(), under: w.clone() }))
}

/// **AdminC.** An administrative reduction on C's frames.
///
/// ```text
/// (t, env, fs, w)  -c->  || t', env', [fs', w]c ||        if (t, env, fs) ~> (t', env', fs')
/// ```
pub(super) fn admin_c(t: &Term, env: &Env, fs: &Frames, w: &OStack) -> impl Iterator<Item = (Rule, Next)> {
    admin::RULES.iter().filter_map(move |(rule, apply)| {
        let (term, env, fs) = apply(t, env, fs)?;
        Some((*rule, Config { term, env, stack: over(&fs, w) }.into()))
    })
}

/// **CallC.** C calls C, on the stack that is there.
///
/// ```text
/// (v, _, <(| \c x. e, env |)>f :: fs, w)  -c->  || e, env[x -> v], [fs, w]c ||
/// ```
fn call_c(t: &Term, _: &Env, fs: &Frames, w: &OStack) -> Option<Next> {
    let v = t.value()?;
    let (Frame::Fun(Value::Clos(f)), fs) = fs.split()? else { return None };
    if f.lang != Lang::C {
        return None;
    }
    Some(Config { term: (&f.body).into(), env: f.env.with((f.param, v.clone())), stack: over(fs, w) }.into())
}

/// **Callback.** C calls back: a new stack with one fiber, whose handler gives back what it gets,
/// over C's.
///
/// ```text
/// (v, _, <(| \o x. e, env |)>f :: fs, w)  -c->  || e, env[x -> v], [k, [fs, w]c]o ||
///                                               where k = [([], ({ return x -> x }, {}))]
/// ```
fn callback(t: &Term, _: &Env, fs: &Frames, w: &OStack) -> Option<Next> {
    let v = t.value()?;
    let (Frame::Fun(Value::Clos(f)), fs) = fs.split()? else { return None };
    if f.lang != Lang::O {
        return None;
    }
    let below = Rc::new(CStack { frames: fs.clone(), under: w.clone() });
    let stack = Stack::O(OStack::Over(List::empty().with(Fiber::identity()), below));
    Some(Config { term: (&f.body).into(), env: f.env.with((f.param, v.clone())), stack }.into())
}

/// **RetToO.** C is done: its value goes to the fibers that called it.
///
/// ```text
/// (v, env, [], [k, g]o)  -c->  || v, env, [k, g]o ||
/// ```
fn ret_to_o(t: &Term, env: &Env, fs: &Frames, w: &OStack) -> Option<Next> {
    let v = t.value()?;
    if !fs.is_empty() {
        return None;
    }
    let OStack::Over(..) = w else { return None };
    Some(Config { term: Term::Value(v.clone()), env: env.clone(), stack: Stack::O(w.clone()) }.into())
}

/// **ExnFwdO.** An exception leaves C, whose other frames are unwound, and is on its way in the
/// fiber that called it.
///
/// ```text
/// (v, env, <exn l>f :: _, [(fs, hc) <| k, g]o)  -c->  || v, env, [(<exn l>f :: fs, hc) <| k, g]o ||
/// ```
fn exn_fwd_o(t: &Term, env: &Env, fs: &Frames, w: &OStack) -> Option<Next> {
    let v = t.value()?;
    let (exception @ Frame::Fun(Value::Exn(_)), _) = fs.split()? else { return None };
    let OStack::Over(k, g) = w else { return None };
    let (fiber, k) = k.split()?;
    let fiber = fiber.with_frames(fiber.frames.with(exception.clone()));
    let stack = Stack::O(OStack::Over(k.with(fiber), g.clone()));
    Some(Config { term: Term::Value(v.clone()), env: env.clone(), stack }.into())
}
