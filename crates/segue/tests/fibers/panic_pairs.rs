//! Every pair of panics in what a scope has: its body, children, daemons, hooks, and the drops of
//! results that nobody takes. The first one is raised, with the later one attached; in a scope that
//! may fail as in one that may not.
#![cfg(feature = "sched")]

use crate::meet;

use meet::everywhere;
use segue::sync::Barrier;
use segue::{Builder, Cancelled, Scope, after, scope, shield, try_scope};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    Body,
    Child,
    Sibling,
    Daemon,
    Hook,
    Drop,
}

use Part::{Body, Child, Daemon, Drop, Hook, Sibling};

const PARTS: [Part; 6] = [Body, Child, Sibling, Daemon, Hook, Drop];

impl Part {
    /// What a later panic of it is called.
    fn name(self) -> &'static str {
        match self {
            Body => "the body",
            Child => "fiber `child`",
            Sibling => "fiber `sibling`",
            Daemon => "fiber `daemon`",
            Hook => "a hook",
            Drop => "the drop of what a fiber has left",
        }
    }
}

/// What the parts panic with.
#[derive(Clone, Copy)]
enum With {
    Text,
    Number,
}

/// A pair of parts that panic one after the other. Hooks run when all else has ended: one that is
/// named first is the second one all the same.
#[derive(Clone, Copy)]
struct Pair {
    first: Part,
    second: Part,
    with: With,
}

impl Pair {
    /// What a part does, when all of them have begun.
    fn act(self, part: Part) {
        if part == self.second && part != Hook {
            // The first failure cancels the scope.
            after(Duration::MAX).wait().unwrap_err();
        }
        if part == self.first || part == self.second {
            match self.with {
                // Without the noise of the panic hook.
                With::Text => resume_unwind(Box::new(format!("<{part:?}>"))),
                With::Number => resume_unwind(Box::new(part as u32)),
            }
        }
    }
}

/// Panics when it is dropped.
struct Sour(Pair);

impl std::ops::Drop for Sour {
    fn drop(&mut self) {
        self.0.act(Drop);
    }
}

/// The body of a scope with all parts.
fn all<'scope>(s: &'scope Scope<'scope, '_>, pair: Pair, began: &'scope Barrier) {
    let begin = || _ = shield(|| began.wait()).unwrap();
    s.on_exit(Duration::MAX, move || pair.act(Hook));
    drop(Builder::new().name("daemon").within(s).daemon().spawn(move || {
        begin();
        pair.act(Daemon);
    }));
    for (name, part) in [("child", Child), ("sibling", Sibling)] {
        drop(Builder::new().name(name).within(s).spawn(move || {
            begin();
            pair.act(part);
        }));
    }
    drop(s.spawn(move || {
        begin();
        Sour(pair)
    }));
    begin();
    pair.act(Body);
}

fn raised(run: impl FnOnce(&Barrier)) -> Box<dyn Any + Send> {
    let began = Barrier::new(5);
    catch_unwind(AssertUnwindSafe(|| run(&began))).expect_err("two parts panic")
}

/// By a plain scope, and by one that may fail: what was raised.
fn both(pair: Pair) -> [Box<dyn Any + Send>; 2] {
    let plain = raised(|began| scope(|s| all(s, pair, began)));
    let fallible = raised(|began| {
        let value = try_scope(|s| -> Result<(), Cancelled> {
            all(s, pair, began);
            Ok(())
        });
        panic!("{value:?}: what came first is a panic, and to be raised");
    });
    [plain, fallible]
}

/// All ordered pairs.
fn pairs(with: With) -> impl Iterator<Item = Pair> {
    let of = move |first| PARTS.into_iter().filter(move |second| *second != first).map(move |second| (first, second));
    PARTS.into_iter().flat_map(of).map(move |pair| match pair {
        (Hook, other) | (other, Hook) => Pair { first: other, second: Hook, with },
        (first, second) => Pair { first, second, with },
    })
}

#[test]
fn the_first_panic_is_raised_and_the_later_one_attached() {
    everywhere(|| {
        for pair in pairs(With::Text) {
            for payload in both(pair) {
                let text = *payload.downcast::<String>().expect("two texts");
                let (first, later) = text.split_once("; then ").unwrap_or_else(|| panic!("one is lost: {text}"));
                assert_eq!(first, format!("<{:?}>", pair.first));
                let second = format!("panicked: <{:?}>", pair.second);
                assert!(later.starts_with(pair.second.name()) && later.ends_with(&second), "{text}");
            }
        }
    });
}

#[test]
fn a_first_panic_without_a_text_keeps_its_payload() {
    everywhere(|| {
        for pair in pairs(With::Number) {
            for payload in both(pair) {
                assert_eq!(payload.downcast_ref(), Some(&(pair.first as u32)), "{:?}, {:?}", pair.first, pair.second);
            }
        }
    });
}
