//! A dump as text: the deadlocks, then each scheduler with its workers; fibers with equal stacks
//! stand together.
//!
//! Used by users.

use super::parts::{Cycle, Dump, FiberDump, FiberState, OwnerDump, SchedulerDump, ThreadDump, WorkerDump};
use segue_fiber::Backtrace;
use std::collections::HashMap;
use std::fmt::{self, Display, Formatter};
use std::time::Duration;

impl Display for Dump {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (schedulers, fibers) = (self.schedulers.len(), self.fibers().count());
        writeln!(
            f,
            "segue: dump of {fibers} fibers in {schedulers} schedulers, and {} threads that wait, in {:.1?}",
            self.threads.len(),
            self.took
        )?;
        self.note.iter().try_for_each(|note| writeln!(f, "  ({note})"))?;
        self.deadlocks.iter().try_for_each(|cycle| write!(f, "{cycle}"))?;
        self.schedulers.iter().try_for_each(|scheduler| write!(f, "{scheduler}"))?;
        self.threads.iter().try_for_each(|thread| writeln!(f, "{thread}"))
    }
}

impl Display for Cycle {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &*self.waiters {
            [_] => writeln!(f, "deadlock: one waits for itself")?,
            waiters => writeln!(f, "deadlock: {} wait for each other", waiters.len())?,
        }
        let next = self.waiters.iter().cycle().skip(1);
        for (waiter, next) in self.waiters.iter().zip(next) {
            write!(f, "  {} waits for {}, that of {}", waiter.name, waiter.waits_for, next.name)?;
            waiter.locked_at.iter().try_for_each(|at| write!(f, ", locked at {at}"))?;
            writeln!(f)?;
        }
        Ok(())
    }
}

impl Display for SchedulerDump {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "scheduler `{}` ({})", self.name, self.number)?;
        self.workers.iter().try_for_each(|worker| write!(f, "{worker}"))?;
        for closure in &self.closures {
            let name = closure.name.as_deref().map_or_else(String::new, |name| format!(" `{name}`"));
            write!(f, "  a closure{name} that has not started")?;
            closure.spawned_at.iter().try_for_each(|at| write!(f, ", spawned at {at}"))?;
            writeln!(f)?;
        }
        Ok(())
    }
}

impl Display for WorkerDump {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "  worker {}: {}", self.index, self.state)?;
        // In the order in which the first of each group was met.
        let (mut groups, mut places) = (Vec::<(Option<&Backtrace>, Vec<&FiberDump>)>::new(), HashMap::new());
        for fiber in &self.fibers {
            let stack = fiber.stack.as_ref();
            let key: Option<Vec<usize>> = stack.map(|stack| stack.addresses().collect());
            let place = *places.entry((key, stack.and_then(Backtrace::note))).or_insert_with(|| {
                groups.push((stack, Vec::new()));
                groups.len() - 1
            });
            groups[place].1.push(fiber);
        }
        for (stack, fibers) in groups {
            fibers.iter().try_for_each(|fiber| writeln!(f, "    {fiber}"))?;
            if let Some(stack) = stack {
                if fibers.len() > 1 {
                    writeln!(f, "    {} with these calls:", fibers.len())?;
                }
                write!(f, "{stack}")?;
            }
        }
        Ok(())
    }
}

/// The end of a line about a wait: the thing's address, its owner, the age.
struct About<'a>(Option<usize>, Option<&'a OwnerDump>, Option<Duration>);

impl Display for About<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|object| write!(f, " [{object:#x}]"))?;
        if let Some(owner) = self.1 {
            write!(f, ", that of {}", owner.name)?;
            owner.locked_at.iter().try_for_each(|at| write!(f, ", locked at {at}"))?;
        }
        self.2.iter().try_for_each(|age| write!(f, ", for {age:.2?}"))
    }
}

impl Display for FiberDump {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let about = About(self.object, self.owner.as_ref(), self.age);
        write!(f, "{}", self.label())?;
        match (self.state, self.waits_for) {
            (FiberState::Running, _) => write!(f, " runs")?,
            (FiberState::Woken, Some(what)) => write!(f, " was woken from its wait for {what}{about}")?,
            (_, Some(what)) => write!(f, " waits for {what}{about}")?,
            (_, None) => write!(f, " is ready{about}")?,
        }
        self.spawned_at.iter().try_for_each(|at| write!(f, ", spawned at {at}"))
    }
}

impl Display for ThreadDump {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let about = About(self.object, self.owner.as_ref(), Some(self.age));
        write!(f, "{} waits for {}{about}", self.label(), self.waits_for)
    }
}
