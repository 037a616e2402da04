//! The administrative reductions, which both languages share.
//!
//! Used by `AdminC` on the frames of a C stack and by `AdminO` on those of the topmost fiber. Each
//! takes a term, its environment and the frames,
//!
//! ```text
//! (t, env, fs)  ~>  (t', env', fs')
//! ```
//!
//! and answers nothing where it does not apply.

use std::rc::Rc;

use super::Rule;
use super::config::{Closure, Env, Fiber, Frame, Frames, Term, Value};
use crate::list::List;
use crate::syntax::Expr;

type Admin = Option<(Term, Env, Frames)>;
type AdminRule = fn(&Term, &Env, &Frames) -> Admin;

/// All of them.
pub(super) const RULES: [(Rule, AdminRule); 11] = [
    (Rule::Var, var),
    (Rule::Arith1, arith1),
    (Rule::Arith2, arith2),
    (Rule::Arith3, arith3),
    (Rule::App1, app1),
    (Rule::App2, app2),
    (Rule::App3, app3),
    (Rule::Resume1, resume1),
    (Rule::Resume2, resume2),
    (Rule::Perform, perform),
    (Rule::Raise, raise),
];

/// **Var.** A variable is what the environment says.
///
/// ```text
/// (x, env, fs)  ~>  (env(x), env, fs)
/// ```
fn var(t: &Term, env: &Env, fs: &Frames) -> Admin {
    let Expr::Var(x) = t.expr()? else { return None };
    let (_, v) = env.iter().find(|(name, _)| name == x)?;
    Some((Term::Value(v.clone()), env.clone(), fs.clone()))
}

/// **Arith1.** The left operand first; the right one waits with its environment.
///
/// ```text
/// (e1 (+) e2, env, fs)  ~>  (e1, env, <(+) e2 env>b1 :: fs)
/// ```
fn arith1(t: &Term, env: &Env, fs: &Frames) -> Admin {
    let Expr::Arith(op, e1, e2) = t.expr()? else { return None };
    Some((e1.into(), env.clone(), fs.with(Frame::Right(*op, e2.clone(), env.clone()))))
}

/// **Arith2.** Then the right one; the left one's number waits.
///
/// ```text
/// (n1, _, <(+) e2 env>b1 :: fs)  ~>  (e2, env, <(+) n1>b2 :: fs)
/// ```
fn arith2(t: &Term, _: &Env, fs: &Frames) -> Admin {
    let Value::Int(n1) = t.value()? else { return None };
    let (Frame::Right(op, e2, env), fs) = fs.split()? else { return None };
    Some((e2.into(), env.clone(), fs.with(Frame::Compute(*op, *n1))))
}

/// **Arith3.** Both are there. Does not apply where the result is not defined: `1 / 0` is stuck.
///
/// ```text
/// (n2, env, <(+) n1>b2 :: fs)  ~>  ([[n1 (+) n2]], env, fs)
/// ```
fn arith3(t: &Term, env: &Env, fs: &Frames) -> Admin {
    let Value::Int(n2) = t.value()? else { return None };
    let (Frame::Compute(op, n1), fs) = fs.split()? else { return None };
    Some((Term::Value(Value::Int(op.apply(*n1, *n2)?)), env.clone(), fs.clone()))
}

/// **App1.** What is applied comes first; its argument waits.
///
/// ```text
/// (e1 e2, env, fs)  ~>  (e1, env, <e2 env>a :: fs)
/// ```
fn app1(t: &Term, env: &Env, fs: &Frames) -> Admin {
    let Expr::App(e1, e2) = t.expr()? else { return None };
    Some((e1.into(), env.clone(), fs.with(Frame::Arg(e2.clone(), env.clone()))))
}

/// **App2.** A function closes over its environment, whichever language it is written in.
///
/// ```text
/// (\x. e, env, fs)  ~>  ((| \x. e, env |), env, fs)
/// ```
fn app2(t: &Term, env: &Env, fs: &Frames) -> Admin {
    let Expr::Lam(lang, param, body) = t.expr()? else { return None };
    let closure = Closure { lang: *lang, param, body: body.clone(), env: env.clone() };
    Some((Term::Value(Value::Clos(Rc::new(closure))), env.clone(), fs.clone()))
}

/// **App3.** Then the argument, under its own environment; the function waits.
///
/// ```text
/// ((| \x. e1, env1 |), _, <e2 env2>a :: fs)  ~>  (e2, env2, <(| \x. e1, env1 |)>f :: fs)
/// ```
fn app3(t: &Term, _: &Env, fs: &Frames) -> Admin {
    let function @ Value::Clos(_) = t.value()? else { return None };
    let (Frame::Arg(e2, env2), fs) = fs.split()? else { return None };
    Some((e2.into(), env2.clone(), fs.with(Frame::Fun(function.clone()))))
}

/// **Resume1.** A continuation is applied to two arguments. This evaluates the first, which has to
/// be a function; the second still waits under it. A continuation that is given one argument only
/// is stuck.
///
/// ```text
/// (k, _, <e1 env1>a :: <e2 env2>a :: fs)  ~>  (e1, env1, <k>f :: <e2 env2>a :: fs)
/// ```
fn resume1(t: &Term, _: &Env, fs: &Frames) -> Admin {
    let k @ Value::Cont(_) = t.value()? else { return None };
    let (Frame::Arg(e1, env1), fs) = fs.split()? else { return None };
    let (Frame::Arg(..), _) = fs.split()? else { return None };
    Some((e1.into(), env1.clone(), fs.with(Frame::Fun(k.clone()))))
}

/// **Resume2.** Then the second. When it is there, `Resume` applies.
///
/// ```text
/// ((| \x. e1, env1 |), _, <k>f :: <e2 env2>a :: fs)  ~>  (e2, env2, <k>f :: <(| \x. e1, env1 |)>f :: fs)
/// ```
fn resume2(t: &Term, _: &Env, fs: &Frames) -> Admin {
    let function @ Value::Clos(_) = t.value()? else { return None };
    let (k @ Frame::Fun(Value::Cont(_)), fs) = fs.split()? else { return None };
    let (Frame::Arg(e2, env2), fs) = fs.split()? else { return None };
    Some((e2.into(), env2.clone(), fs.with(Frame::Fun(function.clone())).with(k.clone())))
}

/// **Perform.** Evaluates what the effect carries. The frame under it says that an effect is then
/// on its way; captured so far is one fiber without frames, whose handler gives back what it gets.
///
/// ```text
/// (perform l e, env, fs)  ~>  (e, env, <eff l [([], ({ return x -> x }, {}))]>f :: fs)
/// ```
fn perform(t: &Term, env: &Env, fs: &Frames) -> Admin {
    let Expr::Perform(label, e) = t.expr()? else { return None };
    let effect = Value::Eff(label, List::empty().with(Fiber::identity()));
    Some((e.into(), env.clone(), fs.with(Frame::Fun(effect))))
}

/// **Raise.** Evaluates what the exception carries. The frame under it says that an exception is
/// then on its way.
///
/// ```text
/// (raise l e, env, fs)  ~>  (e, env, <exn l>f :: fs)
/// ```
fn raise(t: &Term, env: &Env, fs: &Frames) -> Admin {
    let Expr::Raise(label, e) = t.expr()? else { return None };
    Some((e.into(), env.clone(), fs.with(Frame::Fun(Value::Exn(label)))))
}
