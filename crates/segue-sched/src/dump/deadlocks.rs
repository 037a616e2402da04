//! Cycles among waiters: each waits for the next.
//!
//! Used by dumps.
//!
//! # The idea
//!
//! A waiter points at all those that must go on before its wait can end: the owner of a lock, or of
//! a cell's initialisation; the fiber that it joins; *each* fiber of a scope. A wait for one of
//! several things points at nobody. So every arrow is a need, and a cycle of arrows is a deadlock,
//! if all its arrows are there at the same time.
//!
//! # The second look
//!
//! A dump is made of looks at several instants, so a cycle that it shows may be none. All its
//! waiters are looked at again. If each is in the same wait, which its count of waits tells, and
//! points at the same waiter, then all of them waited from the end of the first look to the
//! beginning of the second: at the same time. None of them has unlocked, initialised or ended
//! meanwhile, as none has run.
//!
//! An owner's word does not tell that a guard was sent to another fiber, or forgotten. And it is
//! written after the lock: a locker that the system stops between the two leaves the owner before
//! in place, from both looks if it is stopped for longer than they are apart.
//!
//! **Woken waiters** count as waiting until they run; one that its own worker has woken has no
//! letter, and is `Waiting`. That makes no false cycle: a lock that is handed to a waiter names
//! nobody until that waiter runs, and a cell that was filled has no owner any more; a fiber that
//! has ended is not in the dump; a waiter that was told of a free lock, and finds that taken,
//! waits again.

use super::parts::{Cycle, Dump, FiberState, Waiter};
use segue_core::WaitsFor;
use std::collections::HashMap;
use std::panic::Location;

/// A waiter, and those that it waits for.
struct Node {
    number: u64,
    name: String,
    waits_for: WaitsFor,
    object: usize,
    locked_at: Option<&'static Location<'static>>,
    /// Tells this wait from others.
    wait: u64,
    needs: Vec<u64>,
}

/// All waiters that need somebody, by their numbers.
fn nodes(dump: &Dump) -> HashMap<u64, Node> {
    let mut members: HashMap<usize, Vec<u64>> = HashMap::new();
    for (scope, number) in dump.fibers().filter_map(|fiber| Some((fiber.scope?, fiber.number))) {
        members.entry(scope).or_default().push(number);
    }
    let needs = |owner: Option<u64>, object: usize| match owner {
        Some(owner) => vec![owner],
        None => members.get(&object).cloned().unwrap_or_default(),
    };
    let fibers = dump.schedulers.iter().flat_map(|scheduler| {
        let all = scheduler.workers.iter().flat_map(|worker| worker.fibers.iter().map(move |fiber| (worker, fiber)));
        all.filter_map(move |(worker, fiber)| {
            let (waits_for, object) = (fiber.waits_for?, fiber.object?);
            if fiber.state != FiberState::Waiting {
                return None;
            }
            let name = format!("{} (worker {} of `{}`)", fiber.label(), worker.index, scheduler.name);
            let owner = fiber.owner.as_ref();
            let (owner, locked_at) = (owner.map(|owner| owner.number), owner.and_then(|owner| owner.locked_at));
            Some((fiber.number, fiber.wait, name, waits_for, object, locked_at, owner))
        })
    });
    let threads = dump.threads.iter().filter_map(|thread| {
        let owner = thread.owner.as_ref();
        let (owner, locked_at) = (owner.map(|owner| owner.number), owner.and_then(|owner| owner.locked_at));
        Some((thread.number, thread.sleep, thread.label(), thread.waits_for, thread.object?, locked_at, owner))
    });
    let node = |(number, wait, name, waits_for, object, locked_at, owner)| {
        let mut needs = needs(owner, object);
        needs.sort_unstable();
        (number, Node { number, name, waits_for, object, locked_at, wait, needs })
    };
    fibers.chain(threads).map(node).filter(|(_, node)| !node.needs.is_empty()).collect()
}

/// The cycles that one look shows: each waiter is in one of them at most.
pub(super) fn cycles(dump: &Dump) -> Vec<Vec<u64>> {
    let nodes = nodes(dump);
    let mut numbers: Vec<_> = nodes.keys().copied().collect();
    numbers.sort_unstable();
    let mut search = Search { nodes: &nodes, places: HashMap::new(), path: Vec::new(), cycles: Vec::new() };
    numbers.into_iter().for_each(|number| search.from(number));
    search.cycles
}

/// A walk along the needs, depth first, without recursion: chains may be long.
struct Search<'a> {
    nodes: &'a HashMap<u64, Node>,
    /// The place on the path; `None` for those that have been left.
    places: HashMap<u64, Option<usize>>,
    /// With the next need to follow.
    path: Vec<(u64, usize)>,
    cycles: Vec<Vec<u64>>,
}

impl Search<'_> {
    fn from(&mut self, start: u64) {
        self.enter(start);
        while let Some((number, next)) = self.path.last_mut() {
            let need = self.nodes[number].needs.get(*next).copied();
            *next += 1;
            match need {
                Some(need) => match self.places.get(&need) {
                    Some(Some(place)) => {
                        let cycle = self.path[*place..].iter().map(|(number, _)| *number).collect();
                        self.cycles.push(cycle);
                        // One cycle for all that lead there.
                        self.leave_all();
                    }
                    Some(None) => {}
                    None => self.enter(need),
                },
                None => {
                    let left = self.path.pop();
                    self.places.extend(left.map(|(number, _)| (number, None)));
                }
            }
        }
    }

    fn enter(&mut self, number: u64) {
        if self.nodes.contains_key(&number) && !self.places.contains_key(&number) {
            self.places.insert(number, Some(self.path.len()));
            self.path.push((number, 0));
        }
    }

    fn leave_all(&mut self) {
        for (number, _) in self.path.drain(..) {
            self.places.insert(number, None);
        }
    }
}

/// Those of these cycles that a second look shows as well, in the same waits.
pub(super) fn confirmed(cycles: Vec<Vec<u64>>, first: &Dump, second: &Dump) -> Vec<Cycle> {
    let (first, second) = (nodes(first), nodes(second));
    let is_there = |number: &u64, next: &u64| match (first.get(number), second.get(number)) {
        (Some(before), Some(now)) => before.wait == now.wait && before.object == now.object && now.needs.contains(next),
        _ => false,
    };
    let waiter = |number: &u64| {
        let node = &first[number];
        Waiter {
            number: node.number,
            name: node.name.clone(),
            waits_for: node.waits_for,
            object: node.object,
            locked_at: node.locked_at,
        }
    };
    let mut confirmed = Vec::new();
    for cycle in cycles {
        let next = cycle.iter().cycle().skip(1);
        if cycle.iter().zip(next).all(|(number, next)| is_there(number, next)) {
            confirmed.push(Cycle { waiters: cycle.iter().map(waiter).collect() });
        }
    }
    confirmed
}
