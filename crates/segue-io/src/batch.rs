//! Several transfers of bytes together: submitted at once to a ring, or attempted in turn until the
//! last has a result.
//!
//! Used by `net::transfer_all`. By readiness the fiber waits in one choice for the edges of all
//! that would block, and then attempts those again.

use crate::driver::{ring_of_caller, try_once};
use crate::op::{Half, Op, Read, Write};
use crate::ring::Request;
use crate::socket::Socket;
use segue_core::{Cancelled, MAX_ARM, Source, Waitable, WaitsFor, any_of, merge};
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

/// A read or a write of a batch.
pub(crate) enum Transferring<'a> {
    Read(&'a Arc<Socket>, Read<'a>),
    Write(&'a Arc<Socket>, Write<'a>),
}

/// The next edge of a direction, from a tick on.
struct Edge<'a>(&'a Socket, Half, u64);

impl<'a> Transferring<'a> {
    fn request(&mut self) -> Option<Request<'_>> {
        match self {
            Self::Read(socket, op) => op.request(socket.io().as_fd()),
            Self::Write(socket, op) => op.request(socket.io().as_fd()),
        }
    }

    /// Attempts it. If it would block, answers with what is to be waited for.
    fn attempt(&mut self) -> Result<io::Result<usize>, Edge<'a>> {
        match self {
            Self::Read(socket, op) => attempt(socket, op),
            Self::Write(socket, op) => attempt(socket, op),
        }
    }
}

/// Attempts an op, and sees to it that edges are reported if it would block.
fn attempt<'a, O: Op<Output = usize>>(socket: &'a Arc<Socket>, op: &mut O) -> Result<io::Result<usize>, Edge<'a>> {
    let (tick, result) = try_once(socket, op);
    result.ok_or(Edge(socket, O::HALF, tick))
}

/// Waits for the first of these edges. A choice is cheaper, and has so many arms at most.
#[track_caller]
fn wait_for_one(edges: Vec<Waitable<impl Source<Output = ()>>>) -> Result<(), Cancelled> {
    match edges.len() {
        ..=MAX_ARM => any_of(edges).wait().map(drop),
        _ => merge(edges).next().map(drop),
    }
}

/// Carries out several transfers together; see `net::transfer_all`.
#[track_caller]
pub(crate) fn run_all(mut batch: Vec<Transferring<'_>>) -> Vec<io::Result<usize>> {
    let mut results: Vec<Option<io::Result<usize>>> = batch.iter().map(|_| None).collect();
    let mut ended = segue_core::admit().err();
    if ended.is_none()
        && let Some(ring) = ring_of_caller()
    {
        let mut numbers = Vec::with_capacity(batch.len());
        let requests = batch.iter_mut().enumerate().filter_map(|(number, transfer)| {
            let request = transfer.request()?;
            numbers.push(number);
            Some(request)
        });
        let flown = ring.carry_out_all(requests.collect());
        numbers.into_iter().zip(flown).for_each(|(number, result)| results[number] = result);
    }
    while ended.is_none() {
        let mut edges = Vec::new();
        for (transfer, result) in batch.iter_mut().zip(&mut results).filter(|(_, result)| result.is_none()) {
            match transfer.attempt() {
                Ok(done) => *result = Some(done),
                Err(Edge(socket, half, tick)) => {
                    let waits_for = WaitsFor::new("a batch of transfers");
                    edges.push(Waitable::new(socket.edges(half, tick, false, waits_for)));
                }
            }
        }
        if edges.is_empty() {
            break;
        }
        let _kernel = segue_core::drivers::kernel_wait();
        ended = wait_for_one(edges).err();
    }
    let result = |result: Option<io::Result<usize>>| match (result, &ended) {
        (Some(result), _) => result,
        (None, Some(cancelled)) => Err(cancelled.clone().into()),
        (None, None) => unreachable!("each transfer was attempted until it had a result"),
    };
    results.into_iter().map(result).collect()
}
