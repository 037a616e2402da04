//! What the tests of backtraces share: coroutines that know their headers, and the names of
//! functions in a trace.
//!
//! Used by `traces` and `watched`. Functions that a trace must name are kept out of line and do
//! something after their calls, so that each has a frame.

#![allow(unsafe_code)] // Suspends by hand.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::hint::black_box;
use std::ptr::NonNull;
use std::rc::Rc;

use segue_fiber::{Backtrace, Coroutine, StackArena, StackConfig, StackOwner, StackPool, Step, suspend};

type Me = Rc<Cell<Option<NonNull<()>>>>;

pub fn pool() -> StackPool {
    StackPool::new(StackArena::new(StackConfig::new()).unwrap())
}

/// A coroutine that knows its own header.
pub fn coroutine(pool: &mut StackPool, id: u64, name: &str, main: impl FnOnce(NonNull<()>) + 'static) -> Coroutine<()> {
    let me: Me = Rc::default();
    let own = Rc::clone(&me);
    let fiber = Coroutine::new(pool.take().unwrap(), (), move |()| main(own.get().unwrap()));
    me.set(Some(fiber.header_ptr()));
    fiber.set_label(id, (!name.is_empty()).then_some(name));
    fiber
}

/// Runs a suspended coroutine to its end.
pub fn end(mut fiber: Coroutine<()>, pool: &mut StackPool) {
    while fiber.resume() == Step::Suspended {}
    pool.put(fiber.into_stack());
}

pub fn end_returned(fiber: Coroutine<()>, pool: &mut StackPool) {
    pool.put(fiber.into_stack());
}

#[inline(never)]
pub fn rest_here(header: NonNull<()>) {
    // SAFETY: the tests pass the header of a coroutine in which they run.
    unsafe { suspend(header) };
    black_box(());
}

#[inline(never)]
pub fn resume_inner(inner: &mut Coroutine<()>) -> Step {
    let step = inner.resume();
    black_box(step)
}

/// The names of the functions of each stack, innermost first; inlined ones included.
pub fn names(trace: &Backtrace) -> Vec<Vec<String>> {
    thread_local!(static KNOWN: RefCell<HashMap<usize, Vec<String>>> = RefCell::default());
    let resolve = |address: usize| {
        let mut names = Vec::new();
        backtrace::resolve((address + 1) as *mut _, |symbol| {
            names.push(format!("{:#}", symbol.name().expect("a symbol has a name")));
        });
        names
    };
    let of = |&address: &usize| {
        KNOWN.with_borrow_mut(|known| known.entry(address).or_insert_with(|| resolve(address)).clone())
    };
    trace.stacks().iter().map(|stack| stack.addresses().iter().flat_map(of).collect()).collect()
}

pub fn count(names: &[String], function: &str) -> usize {
    // With little debug information, names are without their path.
    names.iter().filter(|name| name.rsplit("::").next() == Some(function)).count()
}

pub fn owner(id: u64, name: &str) -> StackOwner {
    StackOwner::Coroutine { id, name: name.into() }
}
