//! The course of one simulation: what is ready, and what was chosen at each point where there was a choice.
//!
//! Used by the simulator, as its policy, and by the explorer, which reads the choices and makes others.
//!
//! # The idea
//!
//! A simulation is a function of its choices. There is a choice wherever several fibers could go on: when one has suspended or ended, among those that are ready,
//! in the order in which they became so; and at a [preemption point](segue_core::preemption_point), among the running one, which comes first, and those.
//! So choice 0 is always the dull one: to go on, or to run whoever has waited longest. Where only one can go on there is no choice and nothing is
//! noted: whatever is chosen there is the same schedule. A [`Strategy`] makes the choices, and the same choices lead to the same course.
//!
//! A fiber that is chosen again and again while others are ready may be waiting for one of them in a loop that does not suspend. After [`PATIENCE`] times
//! somebody else has to go on. That is a function of the choices before, so a replay comes to the same.

use crate::policy::{Goes, Policy, Task, Why};
use crate::report::Stuck;
use segue_core::{CancelToken, Fiber};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// A fiber, numbered in the order of the spawns; the first is 0.
pub(crate) type Who = u32;

/// How often in a row the same fiber is chosen while others are ready.
pub(crate) const PATIENCE: u32 = 1000;

/// Makes the choices of a simulation.
pub(crate) trait Strategy {
    /// The index of the one that goes on; not called where there is only one. Steps are numbered from 1, and count the points without a choice too.
    fn choose(&mut self, options: &[Who]) -> usize;

    /// A step begins, of whoever is chosen among these.
    fn step(&mut self, _number: u64, _options: &[Who]) {}

    /// There is one more fiber.
    fn born(&mut self, _who: Who) {}

    /// It was chosen too often in a row.
    fn tire(&mut self, _who: Who) {}
}

/// A choice that was made: the index, and how many there were.
pub(crate) type Choice = (u32, u32);

/// One simulation.
pub(crate) struct Course {
    strategy: Box<dyn Strategy>,
    /// What is ready, in order, and who it is.
    ready: Vec<Task>,
    whose: Vec<Who>,
    /// The fibers that have started, by their identities; if the choices are noted, since it grows with each.
    ids: HashMap<u64, Who>,
    running: Who,
    /// Who was chosen at a preemption point, and is to be popped next: an index into `ready`, which only grows until then.
    next: Option<usize>,
    /// Kept for its memory.
    options: Vec<Who>,
    streak: u32,
    /// The choices, if somebody wants to know.
    choices: Option<Vec<Choice>>,
    preemptive: bool,
    steps: u64,
    most_steps: u64,
    stop: Option<CancelToken>,
    fibers: Who,
    diverged: bool,
}

impl Course {
    /// A course whose choices are not noted, and are made where fibers suspend.
    pub(crate) fn new(mut strategy: Box<dyn Strategy>) -> Self {
        strategy.born(0);
        Self {
            strategy,
            ready: Vec::new(),
            whose: Vec::new(),
            ids: HashMap::new(),
            running: 0,
            next: None,
            options: Vec::new(),
            streak: 0,
            choices: None,
            preemptive: false,
            steps: 0,
            most_steps: u64::MAX,
            stop: None,
            fibers: 1,
            diverged: false,
        }
    }

    /// Makes choices at preemption points too.
    pub(crate) fn preemptive(mut self, preemptive: bool) -> Self {
        self.preemptive = preemptive;
        self
    }

    /// Notes the choices, and cancels everything after `most` steps.
    pub(crate) fn noted(mut self, most: u64) -> Self {
        self.choices = Some(Vec::new());
        self.most_steps = most;
        self
    }

    pub(crate) fn is_preemptive(&self) -> bool {
        self.preemptive
    }

    /// What is cancelled when it takes too long.
    pub(crate) fn stop_by(&mut self, stop: CancelToken) {
        self.stop = Some(stop);
    }

    pub(crate) fn choices(&self) -> &[Choice] {
        self.choices.as_deref().unwrap_or_default()
    }

    /// How many segments were run, each from one point to the next.
    pub(crate) fn steps(&self) -> u64 {
        self.steps
    }

    pub(crate) fn fibers(&self) -> Who {
        self.fibers
    }

    pub(crate) fn took_too_long(&self) -> bool {
        self.steps > self.most_steps
    }

    /// Whether a choice was asked for that there was not.
    pub(crate) fn has_diverged(&self) -> bool {
        self.diverged
    }

    /// Closures that have not started.
    pub(crate) fn unstarted(&self) -> Vec<Stuck> {
        let name = |(task, who): (&Task, &Who)| match task {
            Task::Fresh(job) => {
                let name = job.name().map_or_else(|| format!("fiber {who}"), |name| format!("fiber `{name}`"));
                Some(Stuck { fiber: name, waits_for: None, backtrace: None })
            }
            Task::Started(_) => None,
        };
        self.ready.iter().zip(&self.whose).filter_map(name).collect()
    }

    fn push(&mut self, task: Task) {
        let who = match &task {
            Task::Fresh(_) => {
                let who = self.fibers;
                self.fibers += 1;
                self.strategy.born(who);
                who
            }
            Task::Started(started) => self.ids.get(&started.fiber().id()).copied().unwrap_or_default(),
        };
        self.ready.push(task);
        self.whose.push(who);
    }

    fn pop(&mut self) -> Option<Task> {
        let chosen = match self.next.take() {
            Some(index) => index,
            None if self.ready.is_empty() => return None,
            None => {
                let options = std::mem::take(&mut self.whose);
                let chosen = self.decide(&options);
                self.whose = options;
                chosen
            }
        };
        // Nobody knows the order if nobody knows the choices.
        let (who, task) = match self.choices {
            Some(_) => (self.whose.remove(chosen), self.ready.remove(chosen)),
            None => (self.whose.swap_remove(chosen), self.ready.swap_remove(chosen)),
        };
        self.running = who;
        Some(task)
    }

    /// At a preemption point: whether another one goes on.
    fn preempts(&mut self) -> bool {
        let mut options = std::mem::take(&mut self.options);
        options.clear();
        options.push(self.running);
        options.extend_from_slice(&self.whose);
        let chosen = self.decide(&options);
        self.options = options;
        self.next = chosen.checked_sub(1);
        chosen != 0
    }

    /// Chooses among the options.
    fn decide(&mut self, options: &[Who]) -> usize {
        self.steps += 1;
        self.watch_the_limit();
        self.strategy.step(self.steps, options);
        if options.len() == 1 {
            return 0;
        }
        let mut chosen = self.strategy.choose(options);
        if chosen >= options.len() {
            (self.diverged, chosen) = (true, 0);
        }
        let Some(choices) = &mut self.choices else { return chosen };
        let mut of = options.len();
        if options[chosen] != self.running {
            self.streak = 0;
        } else if self.streak < PATIENCE {
            self.streak += 1;
        } else {
            self.streak = 0;
            self.strategy.tire(self.running);
            chosen = usize::from(chosen == 0);
            // The others were not choices.
            of = chosen + 1;
        }
        choices.push((chosen as u32, of as u32));
        chosen
    }

    fn watch_the_limit(&mut self) {
        if self.took_too_long()
            && let Some(stop) = self.stop.take()
        {
            stop.cancel();
        }
        // What goes on after it was cancelled, for as long again, ignores that, and can't be ended.
        if self.steps / 2 > self.most_steps {
            eprintln!("segue: a simulation goes on after {} steps, although it was cancelled", self.steps);
            std::process::abort();
        }
    }
}

/// The policy of a simulation: what runs next is what its course says.
pub(crate) struct Steered(pub(crate) Rc<RefCell<Course>>);

impl Policy for Steered {
    fn push(&mut self, task: Task, _why: Why) -> Goes {
        self.0.borrow_mut().push(task);
        Goes::Here
    }

    fn pop(&mut self) -> Option<Task> {
        self.0.borrow_mut().pop()
    }

    fn simulates() -> bool {
        true
    }

    fn begins(&mut self, fiber: &Fiber) {
        let mut course = self.0.borrow_mut();
        if course.choices.is_some() {
            let who = course.running;
            course.ids.insert(fiber.id(), who);
        }
    }

    fn may_preempt(&self) -> bool {
        self.0.borrow().preemptive
    }

    fn preempts(&mut self) -> bool {
        self.0.borrow_mut().preempts()
    }
}
