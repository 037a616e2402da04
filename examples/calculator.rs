//! A calculator that leaves it to its callers what a division by zero yields, and where input comes
//! from.
//!
//! A division by zero is an exception that can be restarted: the evaluator performs an effect, and
//! goes on with what a handler says.

use segue::effect::{Effect, Handler, perform};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    Number(i64),
    Infinity { negative: bool },
    Error,
}
use Value::{Error, Infinity, Number};

enum Expr {
    Literal(i64),
    Input,
    Add(Box<Expr>, Box<Expr>),
    Div(Box<Expr>, Box<Expr>),
}

/// This number is divided by zero. The answer is the quotient.
struct DivBy0(i64);
impl Effect for DivBy0 {
    type Output = Value;
}

/// The next number of the input.
struct Read;
impl Effect for Read {
    type Output = i64;
}

fn eval(expr: &Expr) -> Value {
    match expr {
        Expr::Literal(number) => Number(*number),
        Expr::Input => Number(perform(Read)),
        Expr::Add(a, b) => match (eval(a), eval(b)) {
            (Number(a), Number(b)) => Number(a + b),
            (Number(_), special) | (special, _) => special,
        },
        Expr::Div(a, b) => match (eval(a), eval(b)) {
            (Number(a), Number(0)) => perform(DivBy0(a)),
            (Number(a), Number(b)) => Number(a / b),
            (Number(_), Infinity { .. }) => Number(0),
            (Number(_), Error) => Error,
            (special, _) => special,
        },
    }
}

/// As on one telephone: whatever is divided by zero is an error.
fn strict(expr: &Expr) -> Value {
    Handler::new().answer(|DivBy0(_)| Error).handle(|| eval(expr))
}

/// As in one search engine: only zero divided by zero is an error.
fn lenient(expr: &Expr) -> Value {
    let quotient = |DivBy0(a)| if a == 0 { Error } else { Infinity { negative: a < 0 } };
    Handler::new().answer(quotient).handle(|| eval(expr))
}

fn main() {
    let div = |a, b| Expr::Div(Box::new(a), Box::new(b));
    let by_zero = |a| div(Expr::Literal(a), Expr::Literal(0));
    assert_eq!((strict(&by_zero(1)), strict(&by_zero(0))), (Error, Error));
    assert_eq!((lenient(&by_zero(-1)), lenient(&by_zero(0))), (Infinity { negative: true }, Error));
    // The evaluator went on with the answer: 6 / (1 / 0) is zero.
    assert_eq!(lenient(&div(Expr::Literal(6), by_zero(1))), Number(0));

    // A third caller wants to know where it went wrong, and does not go on: it drops the
    // continuation.
    let culprit = Handler::new().on(|DivBy0(a), _k| Err(a)).value(Ok).handle(|| eval(&by_zero(7)));
    assert_eq!(culprit, Err(7));
    // Input comes from a handler further out. Neither handler knows of the other.
    let mut input = [8, 0].into_iter();
    let expr = Expr::Add(Box::new(Expr::Literal(1)), Box::new(div(Expr::Input, Expr::Input)));
    let result = Handler::new().answer(|Read| input.next().expect("two numbers")).handle(|| lenient(&expr));
    assert_eq!(result, Infinity { negative: false });
}
