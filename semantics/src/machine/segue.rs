//! Segue's rules, where they differ from the paper's: calls into C and back, and the second
//! resumption.
//!
//! Used by [`step`](super::step) in [`Mode::Segue`](super::Mode::Segue), in place of `ExtCall` and
//! `Resume`, and beside the paper's other rules.
//!
//! # C frames stay on the fiber
//!
//! The paper's C code runs on a stack of its own, between two stacks of fibers, and a continuation
//! is made of fibers only: it can't reach across C. A Rust fiber's stack is a C stack. What a
//! foreign function does when it is called lies there too, and what it calls back as well. So here
//! a call of C leaves the stack as it is and puts a mark on the frames of the topmost fiber, and so
//! does a callback:
//!
//! ```text
//! match                                     paper                          here
//!   (\c x.                                  [([], id), ...]o               [(<O> :: ..C's.. :: <C> :: fs, hc) <| k, g]o
//!      (\o y. perform A y) x) 1             [..C's frames..]c
//! with effect A x k -> ...                  [(fs, hc) <| k, g]o
//! ```
//!
//! Nothing else has to change. `EffHn` and `EffFwd` capture the frames of a fiber whatever they
//! are, so an effect gets to handlers beyond C and takes C's frames with it; `Resume` brings them
//! back; `ExnHn` and `ExnFwdFib` discard them, marks and all. `EffUnHn` applies where no handler is
//! left on any fiber at all. C itself can still neither perform, nor handle, nor resume: for that,
//! the nearest mark must be `<O>`, or there must be none.
//!
//! # One shot
//!
//! A stack can't be copied, so a continuation is resumed at most once, as in the paper's
//! implementation and unlike its machine. Whoever tries again gets an exception. In Rust this isn't
//! typable, as resuming takes the continuation by value; the interpreter keeps it in an `Option`,
//! which is then empty.

use std::rc::Rc;

use super::config::{CStack, Config, Cont, Env, Frame, Term, language};
use super::ocaml::{self, ORule, call, enter, over, resumption};
use super::{Next, Rule};
use crate::list::List;
use crate::observe::Event;
use crate::syntax::{ALREADY_RESUMED, Lang, int, raise};

/// All of Segue's for fibers, but for `AdminO`. Rules without a module are this file's.
pub(super) const RULES: [(Rule, ORule); 16] = [
    (Rule::CallO, ocaml::call_o),
    (Rule::CallCHere, call_c_here),
    (Rule::ExtCallHere, ext_call_here),
    (Rule::CallbackHere, callback_here),
    (Rule::RetHere, ret_here),
    (Rule::RetToC, ocaml::ret_to_c),
    (Rule::RetFib, ocaml::ret_fib),
    (Rule::Handle, ocaml::handle),
    (Rule::ExnHn, ocaml::exn_hn),
    (Rule::ExnFwdC, ocaml::exn_fwd_c),
    (Rule::ExnFwdFib, ocaml::exn_fwd_fib),
    (Rule::EffHn, ocaml::eff_hn),
    (Rule::EffFwd, ocaml::eff_fwd),
    (Rule::EffUnHn, ocaml::eff_un_hn),
    (Rule::Resume, resume_once),
    (Rule::ResumeAgain, resume_again),
];

/// A call from one of the languages to the other, which leaves a mark, or to itself, which does
/// not.
fn call_here(t: &Term, k: &Cont, g: &Rc<CStack>, from: Lang, to: Lang) -> Option<Next> {
    let (v, f, fs, fiber, k) = call(t, k)?;
    if f.lang != to || language(fs) != from {
        return None;
    }
    let fs = if from == to { fs.clone() } else { fs.with(Frame::Mark(to)) };
    Some(enter(f, v, over(k.with(fiber.with_frames(fs)), g)))
}

/// **CallC, here.** C calls C, on the fiber.
///
/// ```text
/// (v, _, (<(| \c x. e, env |)>f :: fs, hc) <| k, g)  -o->  || e, env[x -> v], [(fs, hc) <| k, g]o ||        if fs is C's
/// ```
fn call_c_here(t: &Term, _: &Env, k: &Cont, g: &Rc<CStack>) -> Option<Next> {
    call_here(t, k, g, Lang::C, Lang::C)
}

/// **ExtCall, here.** A call of C, on the fiber.
///
/// ```text
/// (v, _, (<(| \c x. e, env |)>f :: fs, hc) <| k, g)  -o->  || e, env[x -> v], [(<C> :: fs, hc) <| k, g]o ||   if fs is not C's
/// ```
fn ext_call_here(t: &Term, _: &Env, k: &Cont, g: &Rc<CStack>) -> Option<Next> {
    call_here(t, k, g, Lang::O, Lang::C)
}

/// **Callback, here.** C calls back, on the fiber.
///
/// ```text
/// (v, _, (<(| \o x. e, env |)>f :: fs, hc) <| k, g)  -o->  || e, env[x -> v], [(<O> :: fs, hc) <| k, g]o ||        if fs is C's
/// ```
fn callback_here(t: &Term, _: &Env, k: &Cont, g: &Rc<CStack>) -> Option<Next> {
    call_here(t, k, g, Lang::C, Lang::O)
}

/// **RetToO and RetToC, here.** A call from one language to the other is done.
///
/// ```text
/// (v, env, (<C> :: fs, hc) <| k, g)  -o->  || v, env, [(fs, hc) <| k, g]o ||        and the same for <O>
/// ```
fn ret_here(t: &Term, env: &Env, k: &Cont, g: &Rc<CStack>) -> Option<Next> {
    let v = t.value()?;
    let (fiber, k) = k.split()?;
    let (Frame::Mark(_), fs) = fiber.frames.split()? else { return None };
    let stack = over(k.with(fiber.with_frames(fs.clone())), g);
    Some(Config { term: Term::Value(v.clone()), env: env.clone(), stack }.into())
}

/// **Resume, once.** The paper's rule, for a continuation that was not resumed before.
///
/// ```text
/// (v, _, (<k>f :: <(| \o x. e, env |)>f :: fs, hc) <| k', g)  -o->  || e, env[x -> v], [k @ ((fs, hc) <| k'), g]o ||
///                                                             if k is fresh; it no longer is
/// ```
fn resume_once(t: &Term, env: &Env, k: &Cont, g: &Rc<CStack>) -> Option<Next> {
    let (_, captured, ..) = resumption(t, k)?;
    if captured.resumed.get() { None } else { ocaml::resume(t, env, k, g) }
}

/// **Resume, again.** Refused with an exception, for whoever tries.
///
/// ```text
/// (v, _, (<k>f :: <(| \o x. e, env |)>f :: fs, hc) <| k', g)  -o->  || raise Already_resumed 0, {}, [(fs, hc) <| k', g]o ||
///                                                             if k is not fresh
/// ```
fn resume_again(t: &Term, _: &Env, k: &Cont, g: &Rc<CStack>) -> Option<Next> {
    let (_, captured, _, fiber, rest) = resumption(t, k)?;
    if !captured.resumed.get() {
        return None;
    }
    let term = Term::Expr(raise(ALREADY_RESUMED, int(0)));
    let next = Config { term, env: List::empty(), stack: over(rest.with(fiber), g) };
    Some(Next { event: Some(Event::Refused), ..next.into() })
}
