//! Handlers that resume a computation more than once, by further runs.
//!
//! Used by applications for search with backtracking, and for probability.
//!
//! A continuation is a stack, and a stack can't be copied: a stack holds addresses of itself, and
//! values that are not `Clone`. The paper's appendix copies. Here the first resume of a perform
//! resumes the computation. For each further one the body, which has to be an `Fn`, is run again
//! from its start and given the earlier answers, up to this perform. A body that acts the same on
//! the same answers cannot tell the difference.
//!
//! **Cost.** The first resume of a perform is any handler's, and an answer that is kept. The body
//! waits meanwhile: its borrows and locks stay, and the frames between body and resumer take stack
//! for each perform of a path. Each further resume of the n-th perform is to run the body up to
//! there, with n answers given, on a stack from the pool.
//!
//! A perform that its clause does not resume gives the body up, which is unwound. The acts of that
//! body are nobody's then: its further performs end as that one did, and its value is dropped. A
//! program that aborts on panics can't unwind: there the process ends at the first such perform,
//! with a message.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::effect::{Continuation, Dropped, Effect, Handler, Next};

/// Runs `body` and handles `E` by `clause`, which may resume any number of times, or not at all.
///
/// `body` is pure: each run with the same answers acts the same up to its next perform. All other
/// acts, effects for outer handlers included, are done again. The compiler refuses a body that is
/// changed by a run, unless a cell hides that.
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
/// With the panic that leaves the body, `value` or `clause`.
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
fn run<E, T, R, C>(body: &impl Fn() -> T, value: &impl Fn(T) -> R, clause: &C, answers: Vec<Rc<E::Output>>) -> R
where
    E: Effect,
    E::Output: Clone,
    C: Fn(E, &Resumption<'_, E::Output, R>) -> R,
{
    // The answers to this run's body, past and future; the number of its performs; and whether the
    // body was given up, so that its further acts are for nobody.
    let (path, performed, over) = (RefCell::new(answers), Cell::new(0), Cell::new(false));
    let result = Handler::new()
        .on_tail(|effect: E, k: Continuation<'_, E::Output, Option<R>>| {
            if over.get() {
                return k.tail_discontinue(Dropped);
            }
            let before = performed.replace(performed.get() + 1);
            // Cloned when the path is not borrowed: to clone is foreign code.
            let answer = path.borrow().get(before).cloned();
            if let Some(answer) = answer {
                return k.tail(E::Output::clone(&answer));
            }
            let first = Waiting { k: Cell::new(Some(k)), over: &over };
            let again = |answer: E::Output| {
                let kept = Rc::new(answer.clone());
                match first.k.take() {
                    Some(k) => {
                        path.borrow_mut().push(kept);
                        k.resume(answer).expect("nobody has given the body up")
                    }
                    None => {
                        let mut answers = path.borrow()[..before].to_vec();
                        answers.push(kept);
                        run(body, value, clause, answers)
                    }
                }
            };
            Next::done(Some(clause(effect, &Resumption(&again))))
        })
        .value(|it| (!over.get()).then(|| value(it)))
        .handle(body);
    result.expect("it comes from a clause, or from a body that was not given up")
}

/// A perform that may not have been resumed yet. A drop before a resume gives the body up.
struct Waiting<'a, K> {
    k: Cell<Option<K>>,
    over: &'a Cell<bool>,
}

impl<K> Drop for Waiting<'_, K> {
    fn drop(&mut self) {
        if self.k.get_mut().is_some() {
            self.over.set(true);
        }
    }
}

/// The next step of a computation, as often as one likes.
pub struct Resumption<'a, O, R>(&'a dyn Fn(O) -> R);

impl<O, R> Resumption<'_, O, R> {
    /// The handler's result if the perform returns `answer`.
    ///
    /// # Panics
    ///
    /// With the panic that leaves the body, the value's case or the clause. While the thread panics
    /// no perform finds the handler, so that a body that is run again then ends the process, as a
    /// second panic does.
    pub fn resume(&self, answer: O) -> R {
        (self.0)(answer)
    }
}

segue_core::impl_debug!([O, R] Resumption<'_, O, R>);
