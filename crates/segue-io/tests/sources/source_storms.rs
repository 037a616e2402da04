//! The sources of sockets in the suite of sources: looks, registrations, withdrawals and drops that
//! race with what comes from the network.
//!
//! The suite takes for served what `serve` has done when it returns. But the kernel's event goes
//! through the driver's thread. So each serve ends with a connect, which waits in that driver too,
//! and whose event comes behind.

use crate::common;

use common::guarded;
use segue_conformance::Sources;
use segue_io::net::{TcpListener, TcpStream, UnixDatagram};
use segue_io::pipe::{PipeReader, PipeWriter, pipe};
use segue_io::process::{self, Child, Command, Stdio};
use std::io::Write;

fn listener() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").unwrap()
}

fn connect(listener: &TcpListener) {
    TcpStream::connect(listener.local_addr().unwrap()).unwrap();
}

struct World {
    here: UnixDatagram,
    there: UnixDatagram,
    listener: TcpListener,
}

impl World {
    fn new() -> Self {
        let (here, there) = UnixDatagram::pair().unwrap();
        Self { here, there, listener: listener() }
    }

    fn full() -> Self {
        let world = Self::new();
        while world.here.try_send(b"x").is_ok() {}
        world
    }

    fn send(&self) {
        self.here.send(b"x").unwrap();
        connect(&self.listener);
    }

    fn drain(&self) {
        while self.there.try_recv(&mut [0]).is_ok() {}
        connect(&self.listener);
    }
}

#[test]
fn a_socket_that_can_be_read() {
    guarded("readable", || {
        Sources::new("readable", World::new, |world| world.there.readable_source().map(drop).boxed(), World::send)
            .lasting()
            .check();
    });
}

#[test]
fn a_socket_that_has_room() {
    guarded("writable", || {
        Sources::new("writable", World::full, |world| world.here.writable_source().map(drop).boxed(), World::drain)
            .lasting()
            .check();
    });
}

#[test]
fn a_connection_to_be_accepted() {
    guarded("accept", || {
        Sources::new("accept", listener, |listener| listener.accept_source().map(drop).boxed(), connect).check();
    });
}

#[test]
fn a_pipe_that_can_be_read() {
    fn serve((_, writer, listener): &(PipeReader, PipeWriter, TcpListener)) {
        (&mut &*writer).write_all(b"x").unwrap();
        connect(listener);
    }
    let world = || {
        let (reader, writer) = pipe().unwrap();
        (reader, writer, listener())
    };
    guarded("pipe", || {
        Sources::new("pipe", world, |world| world.0.readable_source().map(drop).boxed(), serve).lasting().check();
    });
}

#[test]
fn a_child_that_ends() {
    fn serve((child, listener): &(Child, TcpListener)) {
        child.kill().unwrap();
        // The kill is over when the process is; this look sees it then, and takes nothing.
        while child.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        connect(listener);
    }
    let world = || {
        let child = process::spawn(Command::new("cat").stdin(Stdio::piped())).unwrap();
        (child.kill_on_drop(true), listener())
    };
    guarded("exit", || {
        Sources::new("exit", world, |world| world.0.exit_source().map(drop).boxed(), serve).lasting().check();
    });
}
