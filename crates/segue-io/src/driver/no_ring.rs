//! What stands for the ring on systems without io_uring: there is none, and no op asks for one.

use super::op::Op;
use super::socket::Socket;
use rustix::net::SocketAddrAny;
use socket2::SockAddr;
use std::convert::Infallible;
use std::io::{self, IoSlice, IoSliceMut};
use std::marker::PhantomData;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// None is ever made.
pub(crate) struct Request<'a>(Infallible, PhantomData<&'a ()>);

impl<'a> Request<'a> {
    pub(crate) fn receive(_: BorrowedFd<'a>, _: &'a mut [u8]) -> Option<Self> {
        None
    }

    pub(crate) fn send(_: BorrowedFd<'a>, _: &'a [u8]) -> Option<Self> {
        None
    }

    pub(crate) fn receive_vectored(_: BorrowedFd<'a>, _: &'a mut [IoSliceMut<'_>]) -> Option<Self> {
        None
    }

    pub(crate) fn send_vectored(_: BorrowedFd<'a>, _: &'a [IoSlice<'_>]) -> Option<Self> {
        None
    }

    pub(crate) fn accept(_: BorrowedFd<'a>) -> Option<Self> {
        None
    }

    pub(crate) fn accept_as(_: BorrowedFd<'a>, _: i32) -> Option<Self> {
        None
    }

    pub(crate) fn ready(_: BorrowedFd<'a>, _: bool) -> Option<Self> {
        None
    }

    pub(crate) fn connect(_: BorrowedFd<'a>, _: &'a SockAddr) -> Option<Self> {
        None
    }
}

/// None ever comes.
pub(crate) struct Answer(Infallible);

impl Answer {
    pub(crate) fn bytes(self) -> usize {
        match self.0 {}
    }

    pub(crate) fn accepted(self) -> (OwnedFd, Option<SocketAddrAny>) {
        match self.0 {}
    }
}

#[derive(Debug, Default)]
pub(crate) struct Limited;

impl Limited {
    pub(crate) fn expire(&self, _here: impl FnOnce() -> Option<Rc<Ring>>) {}
}

#[derive(Debug)]
pub(crate) struct Ring(Infallible);

impl Ring {
    pub(crate) fn carry_out<O: Op>(
        &self,
        _socket: &Arc<Socket>,
        _op: &mut O,
        _timeout: Option<Duration>,
        _deadline: &mut Option<Option<Instant>>,
    ) -> Option<io::Result<O::Output>> {
        match self.0 {}
    }

    pub(crate) fn is_busy(&self) -> bool {
        match self.0 {}
    }

    pub(crate) fn is_called(&self) -> bool {
        match self.0 {}
    }

    pub(crate) fn poll(&self) {
        match self.0 {}
    }

    pub(crate) fn park(&self, _reactor: BorrowedFd<'_>, _timeout: Option<Duration>) {
        match self.0 {}
    }

    pub(crate) fn take_call(&self) -> bool {
        match self.0 {}
    }

    pub(crate) fn has_call(&self) -> bool {
        match self.0 {}
    }

    pub(crate) fn call(&self) {
        match self.0 {}
    }

    pub(crate) fn drain(&self) {
        match self.0 {}
    }
}

pub(crate) struct LazyRing;

impl LazyRing {
    pub(crate) fn new(_entries: Option<u16>) -> Self {
        Self
    }

    pub(crate) fn get(&self) -> Option<&Rc<Ring>> {
        None
    }

    pub(crate) fn made(&self) -> Option<&Rc<Ring>> {
        None
    }
}
