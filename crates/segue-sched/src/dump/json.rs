//! A dump as JSON, for programs.
//!
//! Used by users, and by pages that show a dump.
//!
//! Equal stacks are written once, in a list, and fibers have the index of theirs.

use super::parts::{Cycle, Dump, FiberDump, OwnerDump, SchedulerDump, ThreadDump, WorkerDump, WorkerState};
use segue_core::WaitsFor;
use segue_fiber::Backtrace;
use std::collections::HashMap;
use std::fmt::{Display, Write};
use std::panic::Location;
use std::time::Duration;

/// A string of JSON, with the places of the stacks.
#[derive(Default)]
struct Json {
    text: String,
    places: HashMap<(Vec<usize>, Option<String>), usize>,
    stacks: Vec<String>,
}

impl Dump {
    /// The dump as one JSON object, in one line.
    ///
    /// Times are in seconds; addresses and numbers of fibers are strings, since they have more bits
    /// than a number of JavaScript's. `null` stands for what is not known.
    ///
    /// # Examples
    ///
    /// ```
    /// let json = segue_sched::dump().to_json();
    /// assert!(json.starts_with(r#"{"took":"#) && json.ends_with('}'));
    /// ```
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut json = Json::default();
        json.object(|json| {
            json.field("took", |json| json.seconds(self.took));
            json.field("note", |json| json.optional(self.note, Json::string));
            json.field("deadlocks", |json| json.list(&self.deadlocks, Json::cycle));
            json.field("schedulers", |json| json.list(&self.schedulers, Json::scheduler));
            json.field("threads", |json| json.list(&self.threads, Json::thread));
            let stacks = std::mem::take(&mut json.stacks);
            json.field("stacks", |json| json.list(&stacks, |json, stack| json.string(stack)));
        });
        json.text
    }
}

impl Json {
    fn string(&mut self, text: &str) {
        self.text.push('"');
        for character in text.chars() {
            match character {
                '"' => self.text.push_str("\\\""),
                '\\' => self.text.push_str("\\\\"),
                '\n' => self.text.push_str("\\n"),
                character if character.is_control() => {
                    // Control characters are below 0x10000.
                    let _ = write!(self.text, "\\u{:04x}", character as u32);
                }
                character => self.text.push(character),
            }
        }
        self.text.push('"');
    }

    fn shown(&mut self, value: impl Display) {
        self.string(&value.to_string());
    }

    fn number(&mut self, value: impl Display) {
        let _ = write!(self.text, "{value}");
    }

    fn seconds(&mut self, time: Duration) {
        self.number(format_args!("{:.6}", time.as_secs_f64()));
    }

    fn address(&mut self, address: usize) {
        self.shown(format_args!("{address:#x}"));
    }

    fn place(&mut self, at: &'static Location<'static>) {
        self.shown(at);
    }

    fn optional<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        match value {
            Some(value) => write(self, value),
            None => self.text.push_str("null"),
        }
    }

    fn object(&mut self, fields: impl FnOnce(&mut Self)) {
        self.text.push('{');
        fields(self);
        self.text.push('}');
    }

    fn field(&mut self, name: &str, value: impl FnOnce(&mut Self)) {
        self.comma();
        self.string(name);
        self.text.push(':');
        value(self);
    }

    fn list<T>(&mut self, items: &[T], mut write: impl FnMut(&mut Self, &T)) {
        self.text.push('[');
        for item in items {
            self.comma();
            write(self, item);
        }
        self.text.push(']');
    }

    /// Before all but the first.
    fn comma(&mut self) {
        if !self.text.ends_with(['{', '[', ':']) {
            self.text.push(',');
        }
    }

    fn scheduler(&mut self, scheduler: &SchedulerDump) {
        self.object(|json| {
            json.field("number", |json| json.number(scheduler.number));
            json.field("name", |json| json.string(&scheduler.name));
            json.field("workers", |json| json.list(&scheduler.workers, Self::worker));
            json.field("closures", |json| {
                json.list(&scheduler.closures, |json, closure| {
                    json.object(|json| {
                        json.field("name", |json| json.optional(closure.name.as_deref(), Self::string));
                        json.field("spawned_at", |json| json.optional(closure.spawned_at, Self::place));
                        json.field("worker", |json| json.optional(closure.worker, Self::number));
                    });
                });
            });
        });
    }

    fn worker(&mut self, worker: &WorkerDump) {
        let state = match worker.state {
            WorkerState::Idle => "idle",
            WorkerState::Turning => "turning",
            WorkerState::Busy => "busy",
            WorkerState::Silent(_) => "silent",
        };
        self.object(|json| {
            json.field("index", |json| json.number(worker.index));
            json.field("state", |json| json.string(state));
            json.field("stack", |json| json.stack(worker.stack.as_ref()));
            json.field("fibers", |json| json.list(&worker.fibers, Self::fiber));
        });
    }

    fn fiber(&mut self, fiber: &FiberDump) {
        self.object(|json| {
            json.field("number", |json| json.shown(fiber.number));
            json.field("id", |json| json.shown(fiber.id));
            json.field("name", |json| json.optional(fiber.name.as_deref(), Self::string));
            json.field("state", |json| json.shown(fiber.state));
            json.waits(fiber.waits_for, fiber.object, fiber.owner.as_ref(), fiber.age);
            json.field("is_for_kernel", |json| json.number(fiber.is_for_kernel));
            json.field("spawned_at", |json| json.optional(fiber.spawned_at, Self::place));
            json.field("scope", |json| json.optional(fiber.scope, Self::address));
            json.field("stack", |json| json.stack(fiber.stack.as_ref()));
        });
    }

    fn thread(&mut self, thread: &ThreadDump) {
        self.object(|json| {
            json.field("number", |json| json.shown(thread.number));
            json.field("name", |json| json.optional(thread.name.as_deref(), Self::string));
            json.waits(Some(thread.waits_for), thread.object, thread.owner.as_ref(), Some(thread.age));
        });
    }

    /// The fields of a wait.
    fn waits(
        &mut self,
        waits_for: Option<WaitsFor>,
        object: Option<usize>,
        owner: Option<&OwnerDump>,
        age: Option<Duration>,
    ) {
        self.field("waits_for", |json| json.optional(waits_for.map(|it| it.what), Self::string));
        self.field("waits_at", |json| json.optional(waits_for.map(|it| it.at), Self::place));
        self.field("object", |json| json.optional(object, Self::address));
        self.field("owner", |json| {
            json.optional(owner, |json, owner| {
                json.object(|json| {
                    json.field("number", |json| json.shown(owner.number));
                    json.field("name", |json| json.string(&owner.name));
                    json.field("locked_at", |json| json.optional(owner.locked_at, Self::place));
                });
            });
        });
        self.field("age", |json| json.optional(age, Self::seconds));
    }

    fn cycle(&mut self, cycle: &Cycle) {
        self.list(&cycle.waiters, |json, waiter| {
            json.object(|json| {
                json.field("number", |json| json.shown(waiter.number));
                json.field("name", |json| json.string(&waiter.name));
                json.field("waits_for", |json| json.string(waiter.waits_for.what));
                json.field("waits_at", |json| json.place(waiter.waits_for.at));
                json.field("object", |json| json.address(waiter.object));
                json.field("locked_at", |json| json.optional(waiter.locked_at, Self::place));
            });
        });
    }

    /// The place of the stack in the list.
    fn stack(&mut self, stack: Option<&Backtrace>) {
        let Some(stack) = stack else { return self.text.push_str("null") };
        let key = (stack.addresses().collect(), stack.note().map(str::to_owned));
        let next = self.stacks.len();
        let place = *self.places.entry(key).or_insert(next);
        if place == next {
            self.stacks.push(stack.to_string());
        }
        self.number(place);
    }
}
