//! One use of each name in docs/clippy.toml: clippy has to find all of them.
#![allow(dead_code)]

use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, SyncSender};
use std::sync::{Barrier, Condvar, Mutex, MutexGuard, Once, OnceLock, RwLock};
use std::thread::{self, JoinHandle, ScopedJoinHandle};
use std::time::Duration;

fn threads(handle: JoinHandle<()>, scoped: ScopedJoinHandle<'_, ()>) {
    thread::sleep(Duration::ZERO);
    thread::park();
    thread::park_timeout(Duration::ZERO);
    thread::scope(|_| ());
    drop((handle.join(), scoped.join()));
}

fn channels(receiver: &Receiver<()>, sender: &SyncSender<()>) {
    drop(receiver.recv());
    drop(receiver.recv_timeout(Duration::ZERO));
    drop(receiver.iter());
    drop(sender.send(()));
}

fn meetings(guards: [MutexGuard<'_, ()>; 4], condvar: &Condvar, barrier: &Barrier) {
    let [a, b, c, d] = guards;
    drop(condvar.wait(a));
    drop(condvar.wait_while(b, |()| false));
    drop(condvar.wait_timeout(c, Duration::ZERO));
    drop(condvar.wait_timeout_while(d, Duration::ZERO, |()| false));
    barrier.wait();
}

fn cells(once: &Once, cell: &OnceLock<()>) {
    once.wait();
    cell.wait();
    std::hint::spin_loop();
}

fn local_sockets() {
    drop(UnixStream::connect("a"));
    drop(UnixStream::pair());
    drop(UnixListener::bind("a"));
    drop(UnixDatagram::bind("a"));
    drop(std::io::pipe());
}

fn sockets(at: std::net::SocketAddr) {
    drop(TcpStream::connect(at));
    drop(TcpStream::connect_timeout(&at, Duration::ZERO));
    drop(TcpListener::bind(at));
    drop(UdpSocket::bind(at));
}

fn input(mut line: String) {
    drop(std::io::stdin().read_line(&mut line));
    drop(std::io::stdin().lines());
    drop(std::io::stdin().lock());
}

fn processes(mut child: Child, mut command: Command) {
    drop(child.wait());
    drop(child.wait_with_output());
    drop(command.status());
    drop(command.output());
}

fn paths(path: &Path) {
    drop((path.exists(), path.try_exists(), path.is_file(), path.is_dir(), path.is_symlink()));
    drop((path.metadata(), path.symlink_metadata(), path.canonicalize(), path.read_link(), path.read_dir()));
}

#[allow(deprecated)]
fn files(file: std::fs::File) {
    drop(std::os::unix::fs::symlink("a", "b"));
    drop(std::os::unix::fs::chown("a", None, None));
    drop(std::os::unix::fs::lchown("a", None, None));
    drop(std::os::unix::fs::fchown(file, None, None));
    drop(std::os::unix::fs::chroot("a"));
    drop(std::fs::soft_link("a", "b"));
    drop((std::env::current_exe(), std::env::set_current_dir("a")));
}

fn locks(mutex: &Mutex<()>, lock: &RwLock<()>) {
    drop(mutex.lock());
    drop(lock.read());
    drop(lock.write());
}
