//! Handlers that resume a computation more than once, by running it again.
//!
//! Used by applications for search with backtracking, and for probability.
//!
//! A continuation is a stack, and a stack can't be copied: it holds addresses of itself, and values
//! that are not `Clone`. The paper's appendix copies. Here the first resume of a perform resumes
//! it. For each further one the body, which has to be an `Fn`, is run again from its start and
//! given the answers that it was given before, up to this perform. A body that does the same
//! whenever it gets the same answers cannot tell the difference.
//!
//! **Cost.** The first resume of a perform is any handler's. Each further one of the n-th perform
//! is to run the body up to there, with n answers given, on a stack from the pool. A perform that
//! its clause does not resume unwinds the body. A program that aborts on panics can't unwind: there
//! the process ends at the first such perform, with a message.

use std::cell::{Cell, RefCell};
use std::fmt;

use crate::effect::{Effect, Handler, Next};

/// Runs `body` and handles `E` by `clause`, which may resume any number of times, or not at all.
///
/// `body` is pure: whenever it is run and told the same, it does the same up to its next perform.
/// Whatever else it does, effects for outer handlers included, it does again. A body that is
/// changed by being run is refused by the compiler, unless it hides that in a cell.
///
/// `value` is called with each value that the body comes to, and `clause` with each effect that has
/// no answer yet; both run under the outer handlers.
///
/// ```
/// use segue_fiber::effect::{Effect, perform};
/// use segue_fiber::multi;
///
/// /// One of several.
/// struct Choose(Vec<u32>);
/// impl Effect for Choose {
///     type Output = u32;
/// }
/// struct Fail;
/// impl Effect for Fail {
///     type Output = u32;
/// }
///
/// let triples = multi::handle(
///     || {
///         let a = perform(Choose((1..=13).collect()));
///         let b = perform(Choose((a..=13).collect()));
///         let c = perform(Choose((b..=13).collect()));
///         (a, b, c)
///     },
///     |(a, b, c)| if a * a + b * b == c * c { vec![(a, b, c)] } else { vec![] },
///     |Choose(among), k| among.into_iter().flat_map(|it| k.resume(it)).collect(),
/// );
/// assert_eq!(triples, [(3, 4, 5), (5, 12, 13), (6, 8, 10)]);
/// ```
///
/// ```compile_fail,E0525
/// # use segue_fiber::effect::{Effect, perform};
/// # struct Choose;
/// # impl Effect for Choose {
/// #     type Output = u32;
/// # }
/// let once = String::from("can't be moved out twice");
/// segue_fiber::multi::handle(
///     move || {
///         perform(Choose);
///         drop(once);
///     },
///     |()| 1,
///     |Choose, k| k.resume(0) + k.resume(1),
/// );
/// ```
///
/// # Panics
///
/// With what leaves the body, `value` or `clause`.
pub fn handle<E, T, R>(
    body: impl Fn() -> T,
    value: impl Fn(T) -> R,
    clause: impl Fn(E, &Resumption<'_, E::Output, R>) -> R,
) -> R
where
    E: Effect,
    E::Output: Clone,
{
    run(&body, &value, &clause, Vec::new())
}

/// Runs the body with these answers, and with those of the first resumes from then on.
fn run<E, T, R, C>(body: &impl Fn() -> T, value: &impl Fn(T) -> R, clause: &C, answers: Vec<E::Output>) -> R
where
    E: Effect,
    E::Output: Clone,
    C: Fn(E, &Resumption<'_, E::Output, R>) -> R,
{
    // What this run's body has been answered, or will be; and how often it has performed.
    let (path, performed) = (RefCell::new(answers), Cell::new(0));
    Handler::new()
        .on_tail(|effect: E, k| {
            let before = performed.replace(performed.get() + 1);
            let answer = path.borrow().get(before).cloned();
            if let Some(answer) = answer {
                return k.tail(answer);
            }
            let k = Cell::new(Some(k));
            let again = |answer: E::Output| {
                let mut answers = path.borrow()[..before].to_vec();
                answers.push(answer.clone());
                match k.take() {
                    Some(k) => {
                        path.replace(answers);
                        k.resume(answer)
                    }
                    None => run(body, value, clause, answers),
                }
            };
            Next::done(clause(effect, &Resumption(&again)))
        })
        .value(value)
        .handle(body)
}

/// What a computation does next, as often as one likes.
pub struct Resumption<'a, O, R>(&'a dyn Fn(O) -> R);

impl<O, R> Resumption<'_, O, R> {
    /// What the handler yields if the perform returns `answer`.
    ///
    /// # Panics
    ///
    /// With what leaves the body, the value's case or the clause.
    pub fn resume(&self, answer: O) -> R {
        (self.0)(answer)
    }
}

impl<O, R> fmt::Debug for Resumption<'_, O, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resumption").finish_non_exhaustive()
    }
}
