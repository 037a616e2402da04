//! The trace of a schedule: at each turn that was out of order, or at every turn, which fiber went
//! on instead of which one, and where.
//!
//! Used by the explorer, which runs a schedule that has failed once more with a trace, and by
//! replays.
//!
//! A preempted fiber is somewhere in an operation, and only its stack tells where that was called:
//! the drop of a guard has no caller's place. So the trace captures the stack, by std's backtrace,
//! on the fiber that is preempted, and looks there for the innermost call that is the program's
//! own. That takes a tenth of a second the first time, so this is done for a schedule that is
//! replayed, and for its few turns out of order.

use crate::worker::common::suspended;
use segue_core::Fiber;
use std::backtrace::Backtrace;
use std::io::{self, Write};

/// A fiber, numbered in the order of the spawns; the first is 0.
pub(crate) type FiberNumber = u32;

/// How many turns out of order are told. Schedules after shrinking have mostly one.
const TOLD: usize = 8;

/// The report of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// The turns out of order, for a later question.
    OutOfOrder,
    /// All turns, at once, on the standard error; and those too.
    Aloud,
}

/// The notes on one schedule.
pub(crate) struct Trace {
    told: Told,
    /// By number, as reports name them; of a fiber that has not started, its given name.
    names: Vec<Option<String>>,
    turns: Vec<Turn>,
    /// Turns out of order that are not told.
    more: usize,
}

/// A change from one fiber to another.
struct Turn {
    from: FiberNumber,
    why: String,
    to: FiberNumber,
    /// The fiber that was ready for longer.
    before: Option<FiberNumber>,
}

impl Trace {
    pub(crate) fn new(told: Told) -> Self {
        Self { told, names: vec![None], turns: Vec::new(), more: 0 }
    }

    /// There is one more fiber, with a name or without.
    pub(crate) fn born(&mut self, name: Option<&str>) {
        self.names.push(name.map(|name| format!("fiber `{name}`")));
    }

    /// The fiber has started.
    pub(crate) fn begins(&mut self, number: FiberNumber, fiber: &Fiber) {
        if let Some(name) = self.names.get_mut(number as usize) {
            *name = Some(fiber.to_string());
        }
    }

    /// The running fiber, which could go on, is preempted here.
    pub(crate) fn preempted(&mut self, from: FiberNumber, to: FiberNumber) {
        if self.makes_room(true) {
            let why = format!("is preempted at {}", here());
            self.note(Turn { from, why, to, before: None }, true);
        }
    }

    /// The running fiber has waited, yielded or ended, and one that is ready goes on; `before`, if
    /// out of order.
    pub(crate) fn went_on(
        &mut self,
        from: FiberNumber,
        from_is_ready: bool,
        to: FiberNumber,
        before: Option<FiberNumber>,
    ) {
        if !self.makes_room(before.is_some()) {
            return;
        }
        let name = self.name(from);
        let why = match suspended(None).into_iter().find(|stuck| stuck.fiber == name) {
            _ if from_is_ready => "gives up its turn".to_owned(),
            Some(stuck) => stuck.waits_for.map_or("is suspended".to_owned(), |what| format!("waits for {what}")),
            None => "has ended".to_owned(),
        };
        self.note(Turn { from, why, to, before }, before.is_some());
    }

    /// Whether a turn is told.
    fn makes_room(&mut self, out_of_order: bool) -> bool {
        let room = self.told == Told::Aloud || (out_of_order && self.turns.len() < TOLD);
        self.more += usize::from(!room && out_of_order);
        room
    }

    fn note(&mut self, turn: Turn, out_of_order: bool) {
        if self.told == Told::Aloud {
            let mark = if out_of_order { " (out of order)" } else { "" };
            // Past the test's capture, since the schedule may hang; and nobody need read the
            // output.
            let _ = writeln!(io::stderr(), "segue: {}{mark}", self.line(&turn));
        }
        if out_of_order && self.turns.len() < TOLD {
            self.turns.push(turn);
        }
    }

    fn name(&self, number: FiberNumber) -> String {
        let name = self.names.get(number as usize).and_then(Clone::clone);
        name.unwrap_or_else(|| if number == 0 { "fiber 0".to_owned() } else { format!("new fiber {number}") })
    }

    fn line(&self, Turn { from, why, to, before }: &Turn) -> String {
        let line = format!("{} {why}; {} goes on", self.name(*from), self.name(*to));
        match before {
            Some(before) => format!("{line}, and {} was ready before it", self.name(*before)),
            None => line,
        }
    }

    /// The turns out of order, a line each.
    pub(crate) fn lines(&self) -> Vec<String> {
        let more = (self.more > 0).then(|| format!("... and {} more", self.more));
        self.turns.iter().map(|turn| self.line(turn)).chain(more).collect()
    }
}

/// The innermost call of the program's own, and the function of Segue that it has called.
fn here() -> String {
    place_in(&format!("{:#}", Backtrace::force_capture()))
}

/// Where the sources of Segue's crates lie, each in a directory of its name.
fn crates() -> &'static str {
    let own = env!("CARGO_MANIFEST_DIR");
    own.rsplit_once('/').map_or(own, |(crates, _)| crates)
}

/// The owner of the code that a call is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Std,
    Segue,
    Program,
}

/// Names of inlined functions have no path without full debug information, so the file decides
/// where known.
fn owner(function: &str, file: Option<&str>) -> Owner {
    let Some(file) = file else {
        let path =
            function.trim_start_matches(['<', '&', '*', '(']).trim_start_matches("mut ").trim_start_matches("dyn ");
        return match path.split("::").next().unwrap_or(path) {
            "core" | "alloc" | "std" => Owner::Std,
            "segue" => Owner::Segue,
            other if other.starts_with("segue_") => Owner::Segue,
            _ => Owner::Program,
        };
    };
    let ours = file.strip_prefix(crates()).and_then(|file| file.strip_prefix("/segue"));
    match ours.and_then(|file| file.split_once('/')) {
        // Its tests are programs.
        Some((_, file)) if file.starts_with("src/") => Owner::Segue,
        _ if file.starts_with("/rustc/") || file.contains("/library/std/src/") => Owner::Std,
        _ => Owner::Program,
    }
}

/// In a backtrace that was printed in full: a call is a number, an address and a name, and `at` a
/// place, or one inlined into the call before, a name alone.
fn place_in(backtrace: &str) -> String {
    let mut operation = None;
    let mut lines = backtrace.lines().map(str::trim).peekable();
    while let Some(line) = lines.next() {
        let function = without_hash(line.split_once(" - ").map_or(line, |(_, function)| function));
        let at = lines.next_if(|line| line.starts_with("at ")).map(|at| &at["at ".len()..]);
        match owner(function, at) {
            Owner::Std => {}
            Owner::Segue => operation = Some(name_of(function)),
            Owner::Program => {
                let operation = operation.unwrap_or_else(|| "a preemption point".to_owned());
                return format!("{}, {operation}", at.map_or(function, shortened));
            }
        }
    }
    "a place that its stack does not tell".to_owned()
}

/// The name of a function without the compiler's mark, `::h` and sixteen digits.
fn without_hash(function: &str) -> &str {
    match function.rsplit_once("::h") {
        Some((name, hash)) if hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()) => name,
        _ => function,
    }
}

/// A path from where the process is.
fn shortened(path: &str) -> &str {
    let here = std::env::current_dir().unwrap_or_default();
    here.to_str().and_then(|here| path.strip_prefix(here)).map_or(path, |path| path.trim_start_matches('/'))
}

/// An operation by its public name.
fn name_of(function: &str) -> String {
    let function = function.trim_end_matches("::{{closure}}");
    if let Some(dropped) = function.strip_suffix("as core::ops::drop::Drop>::drop") {
        let path = without_arguments(dropped.trim_start_matches('<').trim());
        return match path.rsplit("::").next().unwrap_or_default() {
            "MutexGuard" => "unlock of a mutex".to_owned(),
            "RwLockGuard" => "unlock of a read-write lock".to_owned(),
            "Permits" => "return of a permit".to_owned(),
            other => format!("drop of a `{other}`"),
        };
    }
    let path = without_arguments(function);
    let mut parts: Vec<&str> = path.split("::").collect();
    let method = parts.pop().unwrap_or_default();
    let of = parts.pop().filter(|of| of.starts_with(char::is_uppercase));
    match (of, method) {
        (None, "preemption_point") => "a preemption point".to_owned(),
        (Some(of), method) => format!("`{of}::{method}`"),
        (None, method) => format!("`{method}`"),
    }
}

/// A path without the text in angle brackets.
fn without_arguments(path: &str) -> String {
    let mut depth = 0;
    let mut plain = String::new();
    for character in path.chars() {
        match character {
            '<' => depth += 1,
            '>' => depth -= 1,
            _ if depth == 0 => plain.push(character),
            _ => {}
        }
    }
    plain.replace("::::", "::")
}

#[cfg(test)]
#[path = "../../tests/units/trace.rs"]
mod tests;
