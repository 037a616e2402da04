//! Parsers in callback style, for programs in which no parser may wait: each step is told where to
//! go on, and a step that runs out of input gives a callback to its caller. After Angstrom's
//! combinators, which are the "callbacks" of the paper.

use std::rc::Rc;

/// The input so far, and the place in there.
pub struct State {
    buffer: Vec<u8>,
    at: usize,
}

/// The outcome of a step.
pub enum Step<R> {
    /// The value of the whole parser, and the number of bytes that it has taken.
    Done(R, usize),
    /// The input is none.
    Failed,
    /// To be called when there is more.
    More(State, Callback<R>),
}

type Callback<R> = Box<dyn FnOnce(State) -> Step<R>>;
type Then<T, R> = Box<dyn FnOnce(State, T) -> Step<R>>;

type Run<T, R> = dyn Fn(State, Then<T, R>) -> Step<R>;

/// A parser of a `T` within one of an `R`.
pub struct Parser<T, R>(Rc<Run<T, R>>);

impl<T, R> Clone for Parser<T, R> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<T: 'static, R: 'static> Parser<T, R> {
    fn new(run: impl Fn(State, Then<T, R>) -> Step<R> + 'static) -> Self {
        Self(Rc::new(run))
    }

    /// Takes nothing.
    pub fn of(value: T) -> Self
    where
        T: Clone,
    {
        Self::new(move |state, then| then(state, value.clone()))
    }

    /// This parser, and then the one that `next` makes of the value.
    pub fn and_then<U: 'static>(self, next: impl Fn(T) -> Parser<U, R> + 'static) -> Parser<U, R> {
        let next = Rc::new(next);
        Parser::new(move |state, then| {
            let next = Rc::clone(&next);
            (self.0)(state, Box::new(move |state, value| (next(value).0)(state, then)))
        })
    }

    /// This parser, and then another one, whose value counts: Angstrom's `*>`.
    pub fn before<U: 'static>(self, other: Parser<U, R>) -> Parser<U, R> {
        Parser::new(move |state, then| {
            let other = other.clone();
            (self.0)(state, Box::new(move |state, _| (other.0)(state, then)))
        })
    }

    /// This parser, and then another one, whose value does not count: Angstrom's `<*`.
    pub fn followed_by<U: 'static>(self, other: Parser<U, R>) -> Parser<T, R> {
        Parser::new(move |state, then| {
            let other = other.clone();
            (self.0)(state, Box::new(move |state, value| (other.0)(state, Box::new(|state, _| then(state, value)))))
        })
    }

    /// As many of these as there are before this byte.
    pub fn until(self, end: u8) -> Parser<Vec<T>, R> {
        fn step<T: 'static, R: 'static>(
            each: Parser<T, R>,
            end: u8,
            mut all: Vec<T>,
            state: State,
            then: Then<Vec<T>, R>,
        ) -> Step<R> {
            match state.buffer.get(state.at) {
                None => Step::More(state, Box::new(move |state| step(each, end, all, state, then))),
                Some(next) if *next == end => then(state, all),
                Some(_) => (each.0.clone())(
                    state,
                    Box::new(move |state, value| {
                        all.push(value);
                        step(each, end, all, state, then)
                    }),
                ),
            }
        }
        Parser::new(move |state, then| step(self.clone(), end, Vec::new(), state, then))
    }
}

impl<R: 'static> Parser<R, R> {
    /// Takes the first piece.
    pub fn begin(&self, piece: &[u8]) -> Step<R> {
        (self.0)(State { buffer: piece.to_vec(), at: 0 }, Box::new(|state, value| Step::Done(value, state.at)))
    }
}

impl<R> Step<R> {
    /// Takes the next piece.
    pub fn feed(self, piece: &[u8]) -> Self {
        let Self::More(mut state, callback) = self else { return self };
        state.buffer.extend_from_slice(piece);
        callback(state)
    }
}

/// One byte.
pub fn byte<R: 'static>(wanted: u8) -> Parser<(), R> {
    fn step<R: 'static>(wanted: u8, mut state: State, then: Then<(), R>) -> Step<R> {
        match state.buffer.get(state.at) {
            None => Step::More(state, Box::new(move |state| step(wanted, state, then))),
            Some(found) if *found == wanted => {
                state.at += 1;
                then(state, ())
            }
            Some(_) => Step::Failed,
        }
    }
    Parser::new(move |state, then| step(wanted, state, then))
}

/// Some bytes that belong, at least one.
pub fn take_while<R: 'static>(belongs: fn(u8) -> bool) -> Parser<Vec<u8>, R> {
    fn step<R: 'static>(belongs: fn(u8) -> bool, seen: usize, mut state: State, then: Then<Vec<u8>, R>) -> Step<R> {
        let rest = &state.buffer[state.at..];
        match rest[seen..].iter().position(|byte| !belongs(*byte)) {
            None => {
                let seen = rest.len();
                Step::More(state, Box::new(move |state| step(belongs, seen, state, then)))
            }
            Some(more) if seen + more > 0 => {
                let taken = rest[..seen + more].to_vec();
                state.at += taken.len();
                then(state, taken)
            }
            Some(_) => Step::Failed,
        }
    }
    Parser::new(move |state, then| step(belongs, 0, state, then))
}
