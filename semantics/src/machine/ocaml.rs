//! The reductions of the language with effects: what can happen while the stack is made of fibers.
//!
//! Used by `StepO`, that is by [`step`](super::step). Each takes a term, its environment, the
//! fibers, and the C stack under them,
//!
//! ```text
//! (t, env, k, g)  -o->  configuration
//! ```
//!
//! and answers nothing where it does not apply. The topmost fiber runs. The last one of a stack was
//! made by `Callback` and has no cases, so an effect or exception that gets there has found no
//! handler on this stack.

use std::rc::Rc;

use super::config::language;
use super::config::{CStack, Captured, Closure, Config, Cont, Env, Fiber, Frame, Frames, OStack, Stack, Term, Value};
use super::{Next, Rule, admin};
use crate::list::List;
use crate::observe::Event;
use crate::syntax::{Expr, Label, Lang, UNHANDLED, int, raise};

pub(super) type ORule = fn(&Term, &Env, &Cont, &Rc<CStack>) -> Option<Next>;

/// All of the paper's, but for `AdminO`.
pub(super) const RULES: [(Rule, ORule); 12] = [
    (Rule::CallO, call_o),
    (Rule::ExtCall, ext_call),
    (Rule::RetToC, ret_to_c),
    (Rule::RetFib, ret_fib),
    (Rule::Handle, handle),
    (Rule::ExnHn, exn_hn),
    (Rule::ExnFwdC, exn_fwd_c),
    (Rule::ExnFwdFib, exn_fwd_fib),
    (Rule::EffHn, eff_hn),
    (Rule::EffFwd, eff_fwd),
    (Rule::EffUnHn, eff_un_hn),
    (Rule::Resume, resume),
];

/// `[k, g]o` as a stack.
pub(super) fn over(k: Cont, g: &Rc<CStack>) -> Stack {
    Stack::O(OStack::Over(k, g.clone()))
}

/// What an applicable call has: the argument, the function, the other frames of its fiber, that
/// fiber, the rest.
pub(super) type Call<'a> = (&'a Value, &'a Closure, &'a Frames, &'a Fiber, &'a Cont);

/// `(v, _, (<(| \x. e, env |)>f :: fs, hc) <| k, _)`
pub(super) fn call<'a>(t: &'a Term, k: &'a Cont) -> Option<Call<'a>> {
    let v = t.value()?;
    let (fiber, k) = k.split()?;
    let (Frame::Fun(Value::Clos(f)), fs) = fiber.frames.split()? else { return None };
    Some((v, f, fs, fiber, k))
}

/// The body of a called function, on this stack.
pub(super) fn enter(f: &Closure, v: &Value, stack: Stack) -> Next {
    Config { term: (&f.body).into(), env: f.env.with((f.param, v.clone())), stack }.into()
}

/// **AdminO.** An administrative reduction on the frames of the topmost fiber.
///
/// ```text
/// (t, env, (fs, hc) <| k, g)  -o->  || t', env', [(fs', hc) <| k, g]o ||        if (t, env, fs) ~> (t', env', fs')
/// ```
pub(super) fn admin_o(t: &Term, env: &Env, k: &Cont, g: &Rc<CStack>) -> impl Iterator<Item = (Rule, Next)> {
    let (fiber, rest) = k.split().expect("a stack of fibers has at least that of its callback");
    admin::RULES.iter().filter_map(move |(rule, apply)| {
        let (term, env, fs) = apply(t, env, &fiber.frames)?;
        Some((*rule, Config { term, env, stack: over(rest.with(fiber.with_frames(fs)), g) }.into()))
    })
}

/// **CallO.** A call within the language, on the topmost fiber.
///
/// ```text
/// (v, _, (<(| \o x. e, env |)>f :: fs, hc) <| k, g)  -o->  || e, env[x -> v], [(fs, hc) <| k, g]o ||
/// ```
pub(super) fn call_o(t: &Term, _: &Env, k: &Cont, g: &Rc<CStack>) -> Option<Next> {
    let (v, f, fs, fiber, k) = call(t, k)?;
    let here = f.lang == Lang::O && language(fs) == Lang::O;
    here.then(|| enter(f, v, over(k.with(fiber.with_frames(fs.clone())), g)))
}

/// **ExtCall.** A call of C: it runs on an empty C stack over the fibers.
///
/// ```text
/// (v, _, (<(| \c x. e, env |)>f :: fs, hc) <| k, g)  -o->  || e, env[x -> v], [[], [(fs, hc) <| k, g]o]c ||
/// ```
fn ext_call(t: &Term, _: &Env, k: &Cont, g: &Rc<CStack>) -> Option<Next> {
    let (v, f, fs, fiber, k) = call(t, k)?;
    let under = OStack::Over(k.with(fiber.with_frames(fs.clone())), g.clone());
    (f.lang == Lang::C).then(|| enter(f, v, Stack::C(Rc::new(CStack { frames: List::empty(), under }))))
}

/// **RetToC.** The fiber of a callback is done: its value goes to the C code that called back.
///
/// ```text
/// (v, _, [([], (h, {}))], g)  -o->  || v, env, g ||        if h = { return x -> x }
/// ```
pub(super) fn ret_to_c(t: &Term, env: &Env, k: &Cont, g: &Rc<CStack>) -> Option<Next> {
    let v = t.value()?;
    let (fiber, rest) = k.split()?;
    if !rest.is_empty() || !fiber.frames.is_empty() || !fiber.handler.returns_as_is() {
        return None;
    }
    Some(Config { term: Term::Value(v.clone()), env: env.clone(), stack: Stack::C(g.clone()) }.into())
}

/// **RetFib.** The body of a `match` is done: the fiber is gone, and the return case runs on the
/// one under it.
///
/// ```text
/// (v, _, ([], (h, env)) <| k, g)  -o->  || e, env[x -> v], [k, g]o ||        if { return x -> e } in h and k is not []
/// ```
pub(super) fn ret_fib(t: &Term, _: &Env, k: &Cont, g: &Rc<CStack>) -> Option<Next> {
    let v = t.value()?;
    let (fiber, rest) = k.split()?;
    if rest.is_empty() || !fiber.frames.is_empty() {
        return None;
    }
    let (x, e) = &fiber.handler.ret;
    let next = Config { term: e.into(), env: fiber.env.with((*x, v.clone())), stack: over(rest.clone(), g) };
    let event = (!fiber.handler.returns_as_is()).then(|| Event::Return(v.shown()));
    Some(Next { event, ..next.into() })
}

/// **Handle.** `match` runs its body on a new fiber, whose handler is that of the `match`.
///
/// ```text
/// (match e with h, env, k, g)  -o->  || e, env, [([], (h, env)) <| k, g]o ||
/// ```
pub(super) fn handle(t: &Term, env: &Env, k: &Cont, g: &Rc<CStack>) -> Option<Next> {
    let Expr::Match(e, h) = t.expr()? else { return None };
    if language(&k.split()?.0.frames) != Lang::O {
        return None;
    }
    let fiber = Fiber { frames: List::empty(), handler: h.clone(), env: env.clone() };
    Some(Config { term: e.into(), env: env.clone(), stack: over(k.with(fiber), g) }.into())
}

/// What a raised exception has: what it carries, its label, the fiber in which it is on its way,
/// the rest.
fn raised<'a>(t: &'a Term, k: &'a Cont) -> Option<(&'a Value, Label, &'a Fiber, &'a Cont)> {
    let v = t.value()?;
    let (fiber, k) = k.split()?;
    let (Frame::Fun(Value::Exn(label)), _) = fiber.frames.split()? else { return None };
    Some((v, label, fiber, k))
}

/// **ExnHn.** The handler of the topmost fiber has a case for the exception: the fiber is unwound,
/// and the case runs on the one under it.
///
/// ```text
/// (v, _, (<exn l>f :: _, (h, env)) <| k, g)  -o->  || e, env[x -> v], [k, g]o ||        if { exception l x -> e } in h
/// ```
pub(super) fn exn_hn(t: &Term, _: &Env, k: &Cont, g: &Rc<CStack>) -> Option<Next> {
    let (v, label, fiber, rest) = raised(t, k)?;
    let case = fiber.handler.exception_case(label)?;
    let env = fiber.env.with((case.param, v.clone()));
    let next = Config { term: (&case.body).into(), env, stack: over(rest.clone(), g) };
    Some(Next { event: Some(Event::Exception(label, v.shown())), ..next.into() })
}

/// **ExnFwdC.** No case, and no other fiber: the exception goes to the C code that called back.
///
/// ```text
/// (v, env, [(<exn l>f :: _, (h, _))], [fs, w]c)  -o->  || v, env, [<exn l>f :: fs, w]c ||        if { exception l .. } not in h
/// ```
pub(super) fn exn_fwd_c(t: &Term, env: &Env, k: &Cont, g: &Rc<CStack>) -> Option<Next> {
    let (v, label, fiber, rest) = raised(t, k)?;
    if !rest.is_empty() || fiber.handler.exception_case(label).is_some() {
        return None;
    }
    let stack = CStack { frames: g.frames.with(Frame::Fun(Value::Exn(label))), under: g.under.clone() };
    Some(Config { term: Term::Value(v.clone()), env: env.clone(), stack: Stack::C(Rc::new(stack)) }.into())
}

/// **ExnFwdFib.** No case: the fiber is unwound, and the exception is on its way in the one under
/// it.
///
/// ```text
/// (v, env, (<exn l>f :: _, (h, _)) <| (fs, hc) <| k, g)  -o->  || v, env, [(<exn l>f :: fs, hc) <| k, g]o ||
///                                                        if { exception l .. } not in h
/// ```
pub(super) fn exn_fwd_fib(t: &Term, env: &Env, k: &Cont, g: &Rc<CStack>) -> Option<Next> {
    let (v, label, fiber, rest) = raised(t, k)?;
    if fiber.handler.exception_case(label).is_some() {
        return None;
    }
    let (under, rest) = rest.split()?;
    let under = under.with_frames(under.frames.with(Frame::Fun(Value::Exn(label))));
    Some(Config { term: Term::Value(v.clone()), env: env.clone(), stack: over(rest.with(under), g) }.into())
}

/// A performed effect on its way, in the topmost fiber.
struct Performed<'a> {
    v: &'a Value,
    label: Label,
    fiber: &'a Fiber,
    /// `k @ [(fs, (h, env))]`: what was captured, with this fiber, whose frames are those under the
    /// effect's.
    captured: Cont,
    rest: &'a Cont,
}

/// `(v, _, (<eff l k>f :: fs, (h, env)) <| rest, _)`
fn performed<'a>(t: &'a Term, k: &'a Cont) -> Option<Performed<'a>> {
    let v = t.value()?;
    let (fiber, rest) = k.split()?;
    let (Frame::Fun(Value::Eff(label, captured)), fs) = fiber.frames.split()? else { return None };
    if captured.iter().nth(1).is_none() && language(fs) != Lang::O {
        return None; // C performed it.
    }
    let captured = captured.append(&List::empty().with(fiber.with_frames(fs.clone())));
    Some(Performed { v, label, fiber, captured, rest })
}

/// **EffHn.** The handler of the topmost fiber has a case for the effect. The case runs on the
/// fiber under it, and gets the continuation: what was captured and this fiber, its handler
/// included, which makes the handler deep.
///
/// ```text
/// (v, _, (<eff l k>f :: fs, (h, env)) <| k', g)  -o->  || e, env[r -> k''][x -> v], [k', g]o ||
///                                      if { effect l x r -> e } in h, and k'' = k @ [(fs, (h, env))]
/// ```
pub(super) fn eff_hn(t: &Term, _: &Env, k: &Cont, g: &Rc<CStack>) -> Option<Next> {
    let Performed { v, label, fiber, captured, rest } = performed(t, k)?;
    let case = fiber.handler.effect_case(label)?;
    let k = Value::Cont(Rc::new(Captured { fibers: captured, resumed: false.into() }));
    let env = fiber.env.with((case.k, k)).with((case.param, v.clone()));
    let next = Config { term: (&case.body).into(), env, stack: over(rest.clone(), g) };
    Some(Next { event: Some(Event::Effect(label, v.shown())), ..next.into() })
}

/// **EffFwd.** No case: the effect is on its way in the fiber under it, and this one has been
/// captured. This is what reperforms an effect.
///
/// ```text
/// (v, env', (<eff l k>f :: fs, (h, env)) <| (fs', hc') <| k', g)  -o->  || v, env', [(<eff l k''>f :: fs', hc') <| k', g]o ||
///                                      if { effect l .. } not in h, and k'' = k @ [(fs, (h, env))]
/// ```
pub(super) fn eff_fwd(t: &Term, env: &Env, k: &Cont, g: &Rc<CStack>) -> Option<Next> {
    let Performed { v, label, fiber, captured, rest } = performed(t, k)?;
    if fiber.handler.effect_case(label).is_some() {
        return None;
    }
    let (under, rest) = rest.split()?;
    let under = under.with_frames(under.frames.with(Frame::Fun(Value::Eff(label, captured))));
    Some(Config { term: Term::Value(v.clone()), env: env.clone(), stack: over(rest.with(under), g) }.into())
}

/// **EffUnHn.** No case, and no other fiber: nobody handles the effect. Everything captured is put
/// back, and `Unhandled` is raised where the effect was performed. In the paper's mode a handler
/// beyond C frames does not count; in Segue's there is one stack of fibers.
///
/// ```text
/// (v, _, [(<eff l k>f :: fs, (h, env))], g)  -o->  || raise Unhandled 0, {}, [k @ [(fs, (h, env))], g]o ||
///                                      if { effect l .. } not in h
/// ```
pub(super) fn eff_un_hn(t: &Term, _: &Env, k: &Cont, g: &Rc<CStack>) -> Option<Next> {
    let Performed { v, label, fiber, captured, rest } = performed(t, k)?;
    if !rest.is_empty() || fiber.handler.effect_case(label).is_some() {
        return None;
    }
    let next = Config { term: Term::Expr(raise(UNHANDLED, int(0))), env: List::empty(), stack: over(captured, g) };
    Some(Next { event: Some(Event::Unhandled(label, v.shown())), ..next.into() })
}

/// What a resumption has: the argument, the continuation, the function, the topmost fiber without
/// both, the rest.
pub(super) type Resumption<'a> = (&'a Value, &'a Rc<Captured>, &'a Closure, Fiber, &'a Cont);

/// `(v, _, (<k>f :: <(| \o x. e, env |)>f :: fs, hc) <| k', _)`
pub(super) fn resumption<'a>(t: &'a Term, k: &'a Cont) -> Option<Resumption<'a>> {
    let v = t.value()?;
    let (fiber, rest) = k.split()?;
    let (Frame::Fun(Value::Cont(captured)), fs) = fiber.frames.split()? else { return None };
    let (Frame::Fun(Value::Clos(f)), fs) = fs.split()? else { return None };
    if f.lang != Lang::O || language(fs) != Lang::O {
        return None;
    }
    Some((v, captured, f, fiber.with_frames(fs.clone()), rest))
}

/// **Resume.** The continuation's fibers come on top of the current ones, and the function is
/// called there, that is where the effect was performed. The paper's continuations can be resumed
/// any number of times.
///
/// ```text
/// (v, _, (<k>f :: <(| \o x. e, env |)>f :: fs, hc) <| k', g)  -o->  || e, env[x -> v], [k @ ((fs, hc) <| k'), g]o ||
/// ```
pub(super) fn resume(t: &Term, _: &Env, k: &Cont, g: &Rc<CStack>) -> Option<Next> {
    let (v, captured, f, fiber, rest) = resumption(t, k)?;
    let next = enter(f, v, over(captured.fibers.append(&rest.with(fiber)), g));
    Some(Next { event: Some(Event::Resume(v.shown())), resumed: Some(captured.clone()), ..next })
}
