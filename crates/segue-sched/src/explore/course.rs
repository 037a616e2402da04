//! The course of one simulation: the ready fibers, and the choice at each point where there was
//! one.
//!
//! Used by the simulator, as its policy, and by the explorer, which reads the choices and makes
//! others.
//!
//! # The idea
//!
//! A simulation is a function of its choices. There is a choice wherever several fibers could go
//! on: when one has suspended or ended, among those that are ready, in the order in which they
//! became so; and at a [preemption point](segue_core::preemption_point), among the running one,
//! which comes first, and those. So choice 0 is always the dull one: to go on, or to run the fiber
//! that has waited longest. Where only one can go on there is no choice and nothing is noted: all
//! choices there are the same schedule. A [`Strategy`] makes the choices, and the same choices lead
//! to the same course.
//!
//! A fiber that is chosen again and again while others are ready may be waiting for one of them in
//! a loop that does not suspend. After [`PATIENCE`] times another fiber has to go on. That is a
//! function of the choices before, so a replay comes to the same.

use super::trace::{FiberNumber, Trace};
use crate::worker::policy::{Goes, Idle, Policy, Task, Why};
use crate::worker::stuck::Stuck;
use segue_core::scheduling::Timers;
use segue_core::{CancelToken, Fiber};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

/// How often in a row the same fiber is chosen while others are ready.
pub(crate) const PATIENCE: u32 = 1000;

/// Makes the choices of a simulation.
pub(crate) trait Strategy {
    /// The index of the one that goes on; not called where there is only one. Steps are numbered
    /// from 1, and count the points without a choice too.
    fn choose(&mut self, options: &[FiberNumber]) -> usize;

    /// A step begins, of one of these.
    fn step(&mut self, _step: u64, _options: &[FiberNumber]) {}

    /// There is one more fiber.
    fn born(&mut self, _number: FiberNumber) {}

    /// Chosen too often in a row.
    fn tire(&mut self, _number: FiberNumber) {}
}

/// A choice that was made: the index, and how many there were.
pub(crate) type Choice = (u32, u32);

/// One simulation. Choices are made only where fibers suspend, unless `preemptive`.
pub(crate) struct Course {
    strategy: Box<dyn Strategy>,
    /// Makes choices at preemption points too.
    pub(super) preemptive: bool,
    /// The choices, if somebody wants to know.
    pub(super) choices: Option<Vec<Choice>>,
    /// How many segments were run, each from one point to the next.
    pub(super) steps: u64,
    /// After how many of them everything is cancelled, by `stop`.
    pub(super) most_steps: u64,
    pub(super) stop: Option<CancelToken>,
    /// How many fibers there were.
    pub(super) fibers: FiberNumber,
    /// Whether a choice was asked for that there was not.
    pub(super) diverged: bool,
    /// Which fiber goes on instead of which one, if somebody wants to know.
    pub(super) trace: Option<Trace>,
    /// Whether the running fiber, after its next yield, goes on only when nothing else is ready:
    /// `settle` sets this.
    pub(super) settles: Rc<Cell<bool>>,
    /// Fibers that settle wait for their work outside before they go on.
    pub(super) clock: Option<Timers>,
    /// Those that settle. While there is one, they are no choice.
    settling: Vec<(FiberNumber, Task)>,
    /// The ready fibers, in order, with the number of its fiber.
    ready: Vec<Task>,
    numbers: Vec<FiberNumber>,
    /// The fibers that have started, by their identities; if the choices are noted, since the list
    /// grows with each.
    ids: HashMap<u64, FiberNumber>,
    running: FiberNumber,
    /// The fiber that was chosen at a preemption point and is to be popped next: an index into
    /// `ready`, which only grows until then.
    next: Option<usize>,
    /// How often in a row the running fiber was chosen while others were ready.
    streak: u32,
}

impl Course {
    pub(crate) fn new(mut strategy: Box<dyn Strategy>, preemptive: bool) -> Self {
        strategy.born(0);
        Self {
            strategy,
            preemptive,
            choices: None,
            steps: 0,
            most_steps: u64::MAX,
            stop: None,
            fibers: 1,
            diverged: false,
            trace: None,
            settles: Rc::default(),
            clock: None,
            settling: Vec::new(),
            ready: Vec::new(),
            numbers: Vec::new(),
            ids: HashMap::new(),
            running: 0,
            next: None,
            streak: 0,
        }
    }

    /// Those that wait for everything to settle go on, if everything has.
    fn has_settled(&mut self) {
        let works_outside = || self.clock.as_ref().is_some_and(Timers::has_outside_work);
        if self.ready.is_empty() && !self.settling.is_empty() && !works_outside() {
            for (number, task) in std::mem::take(&mut self.settling) {
                self.ready.push(task);
                self.numbers.push(number);
            }
        }
    }

    pub(crate) fn took_too_long(&self) -> bool {
        self.steps > self.most_steps
    }

    /// Closures that have not started.
    pub(crate) fn unstarted(&self) -> Vec<Stuck> {
        let name = |(task, number): (&Task, &FiberNumber)| match task {
            Task::Fresh(job) => {
                let name = job.name().map_or_else(|| format!("fiber {number}"), |name| format!("fiber `{name}`"));
                Some(Stuck { fiber: name, waits_for: None, network: false, backtrace: None })
            }
            Task::Started(_) => None,
        };
        self.ready.iter().zip(&self.numbers).filter_map(name).collect()
    }

    /// There is one more fiber.
    fn born(&mut self, name: Option<&str>) -> FiberNumber {
        let number = self.fibers;
        self.fibers += 1;
        if let Some(trace) = &mut self.trace {
            trace.born(name);
        }
        self.strategy.born(number);
        number
    }

    fn push(&mut self, task: Task, why: Why) {
        if why == Why::Yielded && self.settles.take() {
            return self.settling.push((self.running, task));
        }
        let number = match &task {
            Task::Fresh(job) => self.born(job.name().as_deref()),
            Task::Started(started) if why == Why::Spawned => {
                let number = self.born(started.fiber().name());
                if self.choices.is_some() {
                    self.ids.insert(started.fiber().id(), number);
                }
                number
            }
            Task::Started(started) => self.ids.get(&started.fiber().id()).copied().unwrap_or_default(),
        };
        self.ready.push(task);
        self.numbers.push(number);
    }

    fn pop(&mut self) -> Option<Task> {
        self.has_settled();
        let chosen = match self.next.take() {
            Some(index) => index,
            None if self.ready.is_empty() => return None,
            None => {
                let options = std::mem::take(&mut self.numbers);
                let chosen = self.decide(&options);
                if let Some(trace) = &mut self.trace
                    && options[chosen] != self.running
                {
                    let before = (chosen != 0).then_some(options[0]);
                    let yields = |number| {
                        options.contains(&number) || self.settling.iter().any(|(settling, _)| *settling == number)
                    };
                    trace.went_on(self.running, yields(self.running), options[chosen], before);
                }
                self.numbers = options;
                chosen
            }
        };
        // Nobody knows the order if nobody knows the choices.
        let (number, task) = match self.choices {
            Some(_) => (self.numbers.remove(chosen), self.ready.remove(chosen)),
            None => (self.numbers.swap_remove(chosen), self.ready.swap_remove(chosen)),
        };
        self.running = number;
        Some(task)
    }

    /// At a preemption point: whether another one goes on.
    fn preempts(&mut self) -> bool {
        let mut options = std::mem::take(&mut self.numbers);
        options.insert(0, self.running);
        let chosen = self.decide(&options);
        if let Some(trace) = &mut self.trace
            && chosen != 0
        {
            trace.preempted(self.running, options[chosen]);
        }
        options.remove(0);
        self.numbers = options;
        self.next = chosen.checked_sub(1);
        chosen != 0
    }

    /// Chooses among the options.
    fn decide(&mut self, options: &[FiberNumber]) -> usize {
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
            stop.cancel_with(format!("the simulation was not over after {} steps", self.most_steps));
        }
        // A fiber that goes on after its cancellation, for as long again, ignores that, and can't
        // be ended.
        if self.steps / 2 > self.most_steps {
            let steps = self.steps;
            segue_core::unwind::abort(format_args!(
                "a simulation goes on after {steps} steps, although it was cancelled"
            ));
        }
    }
}

/// The policy of a simulation: its course chooses the next fiber.
pub(crate) struct Steered(pub(crate) Rc<RefCell<Course>>);

impl Policy for Steered {
    fn push(&mut self, task: Task, why: Why) -> Goes {
        self.0.borrow_mut().push(task, why);
        Goes::Here
    }

    fn pop(&mut self) -> Option<Task> {
        self.0.borrow_mut().pop()
    }

    fn idle(&mut self) -> Idle {
        // Until the work outside is done.
        if self.0.borrow().settling.is_empty() { Idle::Sleep } else { Idle::Hold(None) }
    }

    fn simulates() -> bool {
        true
    }

    fn begins(&mut self, fiber: &Fiber) {
        let mut course = self.0.borrow_mut();
        if course.choices.is_some() {
            let number = course.running;
            course.ids.insert(fiber.id(), number);
        }
        let number = course.running;
        if let Some(trace) = &mut course.trace {
            trace.begins(number, fiber);
        }
    }

    fn may_preempt(&self) -> bool {
        self.0.borrow().preemptive
    }

    fn preempts(&mut self) -> bool {
        self.0.borrow_mut().preempts()
    }
}
