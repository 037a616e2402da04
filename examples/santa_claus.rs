//! Santa Claus (Trono 1994), with transactions: Santa sleeps until all nine reindeer are back, or
//! three of his ten elves have a problem; if both groups wait, he goes with the reindeer.
//!
//! After Peyton Jones, "Beautiful concurrency" (2007): each joins a group at the door,
//! and Santa's choice is an `or_else`. Runs in the simulator, under a hundred schedules.

use segue::stm::{Stop, TVar, Tx, atomically};
use segue::testing::Sim;
use segue::{Cancelled, scope};

/// Passes a gate, once open: so many may still pass.
fn pass(gate: &TVar<u32>) -> Result<(), Cancelled> {
    atomically(|tx| {
        tx.check(*tx.read(gate)? > 0)?;
        tx.modify(gate, |left| left - 1)
    })
}

/// Opens a gate for so many, and waits until they have passed.
fn open(gate: &TVar<u32>, size: u32) -> Result<(), Cancelled> {
    gate.set(size)?;
    atomically(|tx| tx.check(*tx.read(gate)? == 0))
}

/// A group that gathers: how many are missing, and the gates to Santa and back. The next group has
/// other gates, through which nobody of this one passes.
#[derive(Clone)]
struct Group(u32, TVar<u32>, TVar<u32>);

fn group_of(size: u32) -> Group {
    Group(size, TVar::new(0), TVar::new(0))
}

/// Joins the group that gathers, goes to Santa with that, and back.
fn join(gathering: &TVar<Group>) -> Result<(), Cancelled> {
    let Group(_, to_santa, back) = atomically(|tx| {
        let Group(missing, to_santa, back) = tx.read(gathering)?.clone();
        tx.check(missing > 0)?;
        tx.replace(gathering, Group(missing - 1, to_santa, back)).cloned()
    })?;
    pass(&to_santa)?;
    pass(&back)
}

/// Waits for a whole group; the next one gathers in its place.
fn whole(tx: &Tx<'_>, gathering: &TVar<Group>, size: u32) -> Result<(u32, Group), Stop> {
    tx.check(tx.read(gathering)?.0 == 0)?;
    Ok((size, tx.replace(gathering, group_of(size))?.clone()))
}

fn christmas() -> Result<[u32; 2], Cancelled> {
    let (reindeer, elves) = (TVar::new(group_of(9)), TVar::new(group_of(3)));
    let (mut toys, mut talks) = (0, 0);
    scope(|s| {
        // They come again and again, until the end of the scope cancels them.
        (0..9).for_each(|_| drop(s.spawn_daemon(|| while join(&reindeer).is_ok() {})));
        (0..10).for_each(|_| drop(s.spawn_daemon(|| while join(&elves).is_ok() {})));
        while toys < 3 || talks < 3 {
            let (size, Group(_, to_santa, back)) = atomically(|tx| {
                let (size, group) = tx.or_else(|tx| whole(tx, &reindeer, 9), |tx| whole(tx, &elves, 3))?;
                assert!(size == 9 || tx.read(&reindeer)?.0 > 0, "elves before reindeer");
                Ok((size, group))
            })?;
            open(&to_santa, size)?;
            *if size == 9 { &mut toys } else { &mut talks } += 1;
            open(&back, size)?;
        }
        Ok([toys, talks])
    })
}

fn main() {
    let run = |seed| Sim::new(seed).preemptive().run(christmas).unwrap_or_else(|deadlock| panic!("{deadlock}"));
    let all = (0..100).map(|seed| run(seed).expect("nobody cancels"));
    let [toys, talks] = all.fold([0; 2], |sums, counts| [sums[0] + counts[0], sums[1] + counts[1]]);
    println!("in 100 years: {toys} deliveries of toys, {talks} talks with elves");
}
