//! What stands in place of `completions` on systems without io_uring: nothing flies, and a worker
//! idles in its reactor alone.

use super::op::Op;
use super::reactor::{Found, Reactor};
use super::socket::Socket;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(crate) fn carry_out<O: Op>(
    _socket: &Arc<Socket>,
    _op: &mut O,
    _timeout: Option<Duration>,
    _deadline: &mut Option<Option<Instant>>,
) -> Option<io::Result<O::Output>> {
    None
}

pub(super) struct Beside;

impl Beside {
    pub(super) fn new(_entries: Option<Option<u16>>) -> io::Result<Self> {
        Ok(Self)
    }

    pub(super) fn enter(&self) -> Self {
        Self
    }

    pub(super) fn turn(&self, reactor: &Reactor, found: &mut Found, timeout: Option<Duration>) {
        let _ = reactor.turn(found, timeout);
    }

    pub(super) fn poll(&self, reactor: &Reactor, found: &mut Found) {
        let _ = reactor.is_empty() || reactor.empty(found);
    }

    pub(super) fn is_called(&self) -> bool {
        false
    }

    pub(super) fn drain(&self) {}
}
