//! A scheduler written as a handler: fork, yield and suspend are effects, and a thread is a
//! continuation in a queue.
//!
//! (Segue's own schedulers, in `segue::sched`, run fibers on several workers, and wait for time and
//! network; this one is as small as it gets.)

use segue::effect::{Effect, Handler, perform};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

type Task = Box<dyn FnOnce()>;

/// Starts a thread.
struct Fork(Task);
/// Lets the others have a turn.
struct Yield;
/// Waits, until the task that the function gets is called.
struct Suspend(Box<dyn FnOnce(Task)>);

impl Effect for Fork {
    type Output = ();
}
impl Effect for Yield {
    type Output = ();
}
impl Effect for Suspend {
    type Output = ();
}

#[derive(Clone, Default)]
struct Ready(Rc<RefCell<VecDeque<Task>>>);

impl Ready {
    fn push(&self, task: impl FnOnce() + 'static) {
        self.0.borrow_mut().push_back(Box::new(task));
    }

    /// Runs `main` and all that it forks, until nothing is ready. Each clause puts the rest of its
    /// thread somewhere, and returns here.
    fn run(main: impl FnOnce() + 'static) {
        let ready = Ready::default();
        ready.spawn(main);
        while let Some(task) = { ready.0.borrow_mut().pop_front() } {
            task();
        }
    }

    fn spawn(&self, body: impl FnOnce() + 'static) {
        let [to_fork, to_yield, to_suspend] = [self.clone(), self.clone(), self.clone()];
        self.push(move || {
            Handler::stored()
                .on(move |Yield, k| to_yield.push(|| k.resume(())))
                .on(move |Fork(body), k| {
                    to_fork.push(|| k.resume(()));
                    to_fork.spawn(body);
                })
                .on(move |Suspend(register), k| {
                    let ready = to_suspend.clone();
                    register(Box::new(move || ready.push(|| k.resume(()))));
                })
                .panic(|_payload| ())
                .handle(body);
        });
    }
}

fn main() {
    let trace: Rc<RefCell<Vec<&str>>> = Rc::default();
    let seen = Rc::clone(&trace);
    Ready::run(move || {
        let note = move |what| seen.borrow_mut().push(what);
        let event: Rc<Cell<Option<Task>>> = Rc::default();
        let (a, b, c, to_wake) = (note.clone(), note.clone(), note.clone(), Rc::clone(&event));
        perform(Fork(Box::new(move || (a("a"), perform(Yield), a("a again")).0)));
        perform(Fork(Box::new(move || (b("b"), perform(Yield), b("b again")).0)));
        perform(Fork(Box::new(move || (c("waker"), to_wake.take().expect("main waits")()).0)));
        perform(Suspend(Box::new(move |wake| event.set(Some(wake)))));
        note("main");
    });
    assert_eq!(*trace.borrow(), ["a", "b", "a again", "waker", "b again", "main"]);
}
