//! Takes a dump: asks the workers, and puts together what they say.
//!
//! Used by [`dump`](super::dump).

use super::parts::{
    ClosureDump, Dump, FiberDump, FiberState, OwnerDump, SchedulerDump, ThreadDump, WorkerDump, WorkerState,
};
use crate::worker::asks::ask;
use crate::worker::common::TICK;
use crate::worker::group::Group;
use crate::worker::roster::{self, Listed};
use crate::worker::seat::Answer;
use crate::worker::snapshot::{Is, Seen, Site, Snapshot};
use segue_core::Owner;
use segue_core::scheduling::{Job, waiting_threads};
use segue_fiber::{Backtrace, StackOwner};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long the list of the threads that wait may be locked.
const PATIENCE: Duration = Duration::from_secs(1);

/// The owners' words that were seen, by the numbers of their waiters: names are known at the end.
type Owners = HashMap<u64, (u64, Site)>;

/// Everything but cycles, of certain schedulers; the calls only `with_stacks`.
pub(super) fn all(with_stacks: bool, is_wanted: impl Fn(&Arc<Group>) -> bool) -> Dump {
    let began = Instant::now();
    let mut owners = Owners::new();
    let mut schedulers = roster::schedulers();
    schedulers.retain(|listed| is_wanted(&listed.group));
    let mut schedulers: Vec<_> = schedulers.iter().map(|listed| scheduler(listed, with_stacks, &mut owners)).collect();
    schedulers.retain(|it: &SchedulerDump| !it.workers.is_empty() || !it.closures.is_empty());
    let threads = waiting_threads(PATIENCE);
    let note = threads.is_none().then_some("the list of the threads that wait is locked for long");
    let threads = threads.into_iter().flatten().map(|thread| {
        owners.extend(thread.owner.map(|owner| (thread.number, owner)));
        ThreadDump {
            number: thread.number,
            name: thread.name,
            waits_for: thread.waits_on.waits_for,
            object: thread.waits_on.object.address(),
            owner: None,
            age: thread.since.elapsed(),
            sleep: thread.sleep,
        }
    });
    let threads = threads.collect();
    let mut dump = Dump { schedulers, threads, deadlocks: Vec::new(), took: began.elapsed(), note };
    name_owners(&mut dump, &owners);
    dump
}

fn scheduler(listed: &Listed, with_stacks: bool, owners: &mut Owners) -> SchedulerDump {
    let Listed { number, name, group, .. } = listed;
    let workers = (0..group.len()).filter_map(|index| worker(listed, index, with_stacks, owners)).collect();
    SchedulerDump { number: *number, name: name.clone(), workers, closures: closures(group) }
}

/// The closures on the shelves.
fn closures(group: &Group) -> Vec<ClosureDump> {
    let mut closures = Vec::new();
    let mut put_down = |job: &Job, worker| {
        let name = job.name().map(String::from);
        closures.push(ClosureDump { name, spawned_at: job.spawned_at(), worker });
    };
    group.outside.each(|job| put_down(job, None));
    for index in 0..group.len() {
        let remote = group.remote(index);
        remote.sent.each(|job| put_down(job, Some(index)));
        remote.shelf.each(|job| put_down(job, Some(index)));
    }
    closures
}

fn worker(listed: &Listed, index: usize, with_stacks: bool, owners: &mut Owners) -> Option<WorkerDump> {
    let mut snapshot = Snapshot::new(with_stacks);
    let (mut fibers, mut met) = (Vec::new(), HashSet::new());
    let (mut state, mut stack) = (WorkerState::Idle, None);
    let mut in_vain = 0;
    loop {
        let before = snapshot.position();
        let trace;
        (snapshot, trace) = match ask(&listed.group, index, snapshot) {
            Answer::Came(snapshot) => {
                state = if state == WorkerState::Busy { state } else { WorkerState::Turning };
                (snapshot, None)
            }
            Answer::Interrupted(snapshot, trace) => (snapshot, Some(trace)),
            Answer::Silent(why) => {
                return Some(WorkerDump { index, state: WorkerState::Silent(why), fibers, stack });
            }
            Answer::Gone => break,
        };
        for seen in &snapshot.fibers {
            if !met.insert(seen.number) {
                continue;
            }
            owners.extend(seen.owner.map(|owner| (seen.number, owner)));
            let copied = seen.stack.as_ref().map(|copied| snapshot.copies.backtrace(copied));
            let running = (seen.is == Is::Running).then_some(trace.as_ref()).flatten();
            if running.is_some() {
                (state, stack) = (WorkerState::Busy, trace.clone());
            }
            let calls = copied.or_else(|| running.and_then(|trace| calls_of(seen, trace)));
            fibers.push(fiber(seen, age(seen, &snapshot, listed.simulates), calls.filter(|_| with_stacks)));
        }
        in_vain = if snapshot.position() == before { in_vain + 1 } else { 0 };
        // The thread may be on more stacks than are looked at.
        if snapshot.is_complete() || in_vain == 3 {
            return Some(WorkerDump { index, state, fibers, stack: stack.filter(|_| with_stacks) });
        }
        snapshot.go_on();
    }
    // A worker without fibers that has ended, or not begun.
    (!fibers.is_empty()).then_some(WorkerDump { index, state, fibers, stack })
}

/// Of a thread's calls those down to the beginning of the fiber.
fn calls_of(seen: &Seen, trace: &Backtrace) -> Option<Backtrace> {
    let is_its = |owner: &StackOwner| matches!(owner, StackOwner::Coroutine { id, .. } if *id == seen.id);
    let at = trace.stacks().iter().position(|stack| is_its(stack.owner()))?;
    Some(trace.clone().innermost(at + 1))
}

fn age(seen: &Seen, snapshot: &Snapshot, simulates: bool) -> Option<Duration> {
    if seen.is == Is::Running || (seen.since, seen.waits) == (0, 0) {
        return None;
    }
    let now = match snapshot.began {
        Some(began) if !simulates => (began.elapsed().as_nanos() / TICK.as_nanos()) as u32,
        _ => snapshot.time,
    };
    Some(TICK * now.wrapping_sub(seen.since))
}

fn fiber(seen: &Seen, age: Option<Duration>, stack: Option<Backtrace>) -> FiberDump {
    let state = match seen.is {
        Is::Running => FiberState::Running,
        Is::Called => FiberState::Woken,
        Is::Resting if seen.waits_on.is_some() => FiberState::Waiting,
        Is::Resting => FiberState::Ready,
    };
    let name = seen.name().map(|(name, has_more)| if has_more { name + "..." } else { name });
    FiberDump {
        number: seen.number,
        id: seen.id,
        name,
        state,
        waits_for: seen.waits_on.map(|waits_on| waits_on.waits_for),
        object: seen.waits_on.and_then(|waits_on| waits_on.object.address()),
        owner: None,
        is_for_kernel: seen.network,
        age,
        spawned_at: seen.job.and_then(|(_, at, _)| at),
        scope: seen.job.map(|(_, _, scope)| scope).filter(|scope| *scope != 0),
        stack,
        job: seen.job.map(|(job, _, _)| job),
        wait: u64::from(seen.since) << 32 | u64::from(seen.waits),
    }
}

/// Puts names to the owners' numbers, and finds the owners of joins.
fn name_owners(dump: &mut Dump, owners: &Owners) {
    let mut names: HashMap<u64, String> = dump.fibers().map(|fiber| (fiber.number, fiber.label())).collect();
    names.extend(dump.threads.iter().map(|thread| (thread.number, thread.label())));
    let jobs: HashMap<usize, u64> = dump.fibers().filter_map(|fiber| Some((fiber.job?, fiber.number))).collect();
    let owner_of = |waiter: u64, object: Option<usize>| {
        let (number, locked_at) = match owners.get(&waiter) {
            Some(&(0, _)) => return None,
            Some(&owner) => owner,
            None => (*jobs.get(&object?)?, None),
        };
        let name = match names.get(&number) {
            Some(name) => name.clone(),
            None if number == Owner::HANDED => "a waiter that was given it, and has not run since".to_owned(),
            None if number >> 63 != 0 => "a thread that does not wait, or has ended".to_owned(),
            None => "a fiber that has ended".to_owned(),
        };
        Some(OwnerDump { number, name, locked_at })
    };
    let fibers = dump.schedulers.iter_mut().flat_map(|it| &mut it.workers).flat_map(|it| &mut it.fibers);
    for fiber in fibers {
        fiber.owner = owner_of(fiber.number, fiber.object);
    }
    for thread in &mut dump.threads {
        thread.owner = owner_of(thread.number, thread.object);
    }
}
