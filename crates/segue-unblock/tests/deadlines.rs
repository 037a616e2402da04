//! Calls for which nothing ever comes: others of the worker go on meanwhile, a deadline ends each,
//! and the run returns. And descriptors that are ready for the kernel and not for the call.
#![allow(unsafe_code)] // Calls of the C library.

mod common;

use common::{BACKENDS, beside, errno, everywhere, on_one_worker, terminal, unblock};
use segue_core::{CancelToken, scope, sleep, timeout, yield_now};
use socket2::{Domain, SockAddr, Socket, Type};
use std::collections::BTreeSet;
use std::io::{self, ErrorKind, Write};
use std::mem::MaybeUninit;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::time::{Duration, Instant};

const TERM: Duration = Duration::from_millis(100);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Terminal,
    /// One that is not read before there are three bytes.
    TerminalOfThree,
    /// That of the program which shows a terminal.
    OtherSide,
    Fifo,
    Socket,
    Counter,
    Changes,
    Timer,
    /// A Unix socket that is to be connected to a listener whose queue is full.
    Unconnected,
    Listener,
}

const KINDS: [Kind; 10] = [
    Kind::Terminal,
    Kind::TerminalOfThree,
    Kind::OtherSide,
    Kind::Fifo,
    Kind::Socket,
    Kind::Counter,
    Kind::Changes,
    Kind::Timer,
    Kind::Unconnected,
    Kind::Listener,
];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Call {
    Read,
    Readv,
    Write,
    Writev,
    PollIn,
    PollOut,
    SelectIn,
    SelectOut,
    Connect,
    Accept,
}

const CALLS: [Call; 10] = [
    Call::Read,
    Call::Readv,
    Call::Write,
    Call::Writev,
    Call::PollIn,
    Call::PollOut,
    Call::SelectIn,
    Call::SelectOut,
    Call::Connect,
    Call::Accept,
];

impl Call {
    fn is_for_room(self) -> bool {
        matches!(self, Call::PollOut | Call::SelectOut)
    }
}

/// Whether a call waits until it is cut. The others are over at once: there is no such call of this
/// kind, or it fails.
fn is_cut(kind: Kind, call: Call) -> bool {
    use Call::{Accept, Connect, PollIn, PollOut, Read, Readv, SelectIn, SelectOut, Write, Writev};
    match kind {
        Kind::Unconnected => call == Connect,
        Kind::Listener => !matches!(call, Connect | Read | Readv | Write | Writev),
        Kind::Changes | Kind::Timer => !matches!(call, Connect | Accept | Write | Writev),
        Kind::Terminal | Kind::TerminalOfThree | Kind::OtherSide | Kind::Fifo | Kind::Socket | Kind::Counter => {
            matches!(call, Read | Readv | Write | Writev | PollIn | PollOut | SelectIn | SelectOut)
        }
    }
}

/// A descriptor for which nothing comes.
struct Silent {
    fd: OwnedFd,
    /// Where to connect.
    place: SockAddr,
    /// What is written.
    text: Vec<u8>,
    _open: Vec<OwnedFd>,
}

fn made(fd: i32) -> OwnedFd {
    assert!(fd >= 0, "{}", io::Error::last_os_error());
    // SAFETY: it is a new one, and ours.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// Writes until nothing more fits.
fn fill(fd: RawFd) {
    // SAFETY: the bytes are there; no other memory is named.
    unsafe {
        let flags = libc::fcntl(fd, libc::F_GETFL);
        libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK);
        for size in [4_096, 1] {
            while libc::write(fd, [b'x'; 4_096].as_ptr().cast(), size) > 0 {}
        }
        libc::fcntl(fd, libc::F_SETFL, flags);
    }
}

/// An abstract name of nobody's.
fn place() -> SockAddr {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    SockAddr::unix(format!("\0segue-deadlines-{}-{}", std::process::id(), NEXT.fetch_add(1, SeqCst))).unwrap()
}

/// A Unix listener whose queue is full, with what is in there.
fn full_listener(place: &SockAddr) -> Vec<OwnedFd> {
    let listener = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
    listener.bind(place).unwrap();
    listener.listen(0).unwrap();
    let mut open = vec![listener.into()];
    loop {
        let client = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
        client.set_nonblocking(true).unwrap();
        if let Err(error) = client.connect(place) {
            assert_eq!(error.kind(), ErrorKind::WouldBlock);
            return open;
        }
        open.push(client.into());
    }
}

fn silent(kind: Kind, call: Call) -> Silent {
    let place = place();
    let writes = matches!(call, Call::Write | Call::Writev);
    let mut text = vec![b'x'; if writes { 4 << 20 } else { 0 }];
    let (fd, open): (OwnedFd, Vec<OwnedFd>) = match kind {
        Kind::Terminal | Kind::TerminalOfThree => {
            let (this, other) = terminal(if kind == Kind::Terminal { 1 } else { 3 }, 0);
            (this, vec![other])
        }
        Kind::OtherSide => {
            let (this, other) = terminal(1, 0);
            (other, vec![this])
        }
        Kind::Fifo => {
            let (reader, writer) = io::pipe().unwrap();
            let (reader, writer) = (reader.into(), writer.into());
            if writes || call.is_for_room() { (writer, vec![reader]) } else { (reader, vec![writer]) }
        }
        Kind::Socket => {
            let (one, other) = UnixStream::pair().unwrap();
            (one.into(), vec![other.into()])
        }
        Kind::Counter => {
            // SAFETY: no memory is named.
            let counter = made(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) });
            // With room for two more it is ready, and not for five.
            let value = match call {
                _ if writes => u64::MAX - 3,
                _ if call.is_for_room() => u64::MAX - 1,
                _ => 0,
            };
            text = 5_u64.to_ne_bytes().to_vec();
            // SAFETY: the value is there.
            assert_eq!(unsafe { libc::write(counter.as_raw_fd(), (&raw const value).cast(), 8) }, 8);
            (counter, vec![])
        }
        // SAFETY: no memory is named.
        Kind::Changes => (made(unsafe { libc::inotify_init1(libc::IN_CLOEXEC) }), vec![]),
        // SAFETY: likewise.
        Kind::Timer => (made(unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_CLOEXEC) }), vec![]),
        Kind::Unconnected => (Socket::new(Domain::UNIX, Type::STREAM, None).unwrap().into(), full_listener(&place)),
        Kind::Listener => (TcpListener::bind("127.0.0.1:0").unwrap().into(), vec![]),
    };
    match kind {
        // Full would be enough, but the kernel hands on what a terminal has when it likes.
        Kind::Terminal | Kind::TerminalOfThree | Kind::OtherSide if call.is_for_room() => {
            // SAFETY: no memory is named.
            assert_eq!(unsafe { libc::tcflow(fd.as_raw_fd(), libc::TCOOFF) }, 0);
        }
        Kind::Fifo | Kind::Socket if call.is_for_room() => fill(fd.as_raw_fd()),
        _ => {}
    }
    Silent { fd, place, text, _open: open }
}

fn select(fd: RawFd, half: usize, mut time: Option<libc::timeval>) -> i32 {
    // SAFETY: a set is zeros, and the descriptor's number fits.
    unsafe {
        let mut set: libc::fd_set = MaybeUninit::zeroed().assume_init();
        libc::FD_SET(fd, &raw mut set);
        let mut sets = [ptr::null_mut(); 3];
        sets[half] = &raw mut set;
        let time = time.as_mut().map_or(ptr::null_mut(), ptr::from_mut);
        libc::select(fd + 1, sets[0], sets[1], sets[2], time)
    }
}

/// Makes the call: what it returns, or its number.
fn make(silent: &Silent, call: Call) -> Result<isize, i32> {
    let fd = silent.fd.as_raw_fd();
    let mut bytes = vec![0_u8; 4_096];
    let polled = |events| {
        let mut asked = libc::pollfd { fd, events, revents: 0 };
        // SAFETY: the entry is there.
        unsafe { libc::poll(&raw mut asked, 1, -1) as isize }
    };
    let (half, text) = (silent.text.len() / 2, silent.text.as_ptr());
    let part = |base: *const u8, length| libc::iovec { iov_base: base.cast_mut().cast(), iov_len: length };
    let read = [part(bytes.as_mut_ptr(), 9), part(bytes.as_mut_ptr().wrapping_add(9), 4_000)];
    let written = [part(text, half), part(text.wrapping_add(half), half)];
    // SAFETY: all that is named is there.
    let result = unsafe {
        match call {
            Call::Read => libc::read(fd, bytes.as_mut_ptr().cast(), bytes.len()),
            Call::Readv => libc::readv(fd, read.as_ptr(), 2),
            Call::Write => libc::write(fd, text.cast(), silent.text.len()),
            // A counter takes its number from one buffer.
            Call::Writev if silent.text.len() == 8 => libc::writev(fd, [part(text, 8)].as_ptr(), 1),
            Call::Writev => libc::writev(fd, written.as_ptr(), 2),
            Call::PollIn => polled(libc::POLLIN),
            Call::PollOut => polled(libc::POLLOUT),
            Call::SelectIn => select(fd, 0, None) as isize,
            Call::SelectOut => select(fd, 1, None) as isize,
            Call::Connect => libc::connect(fd, silent.place.as_ptr().cast(), silent.place.len()) as isize,
            Call::Accept => libc::accept(fd, ptr::null_mut(), ptr::null_mut()) as isize,
        }
    };
    if result == -1 { Err(errno()) } else { Ok(result) }
}

/// One cell of the table.
fn check(kind: Kind, call: Call) {
    let silent = silent(kind, call);
    let begun = Instant::now();
    let result = timeout(TERM, || unblock(|| make(&silent, call)));
    let cut = match result {
        Err(libc::ECANCELED) => true,
        // What was written before is said.
        Ok(count) => matches!(call, Call::Write | Call::Writev) && count.cast_unsigned() < silent.text.len(),
        Err(_) => false,
    };
    assert_eq!(cut, is_cut(kind, call), "{kind:?} {call:?}: {result:?}");
    assert!(!cut || begun.elapsed() >= TERM, "{kind:?} {call:?}: it has not waited");
}

/// All cells at once in fibers of one worker: a call that blocked it would stop the test.
#[test]
fn whatever_a_call_waits_for_others_go_on_and_a_deadline_ends_it() {
    for backend in BACKENDS {
        let ticks = on_one_worker(backend, || {
            let (open, checked) = (AtomicBool::new(true), std::sync::Mutex::new(BTreeSet::new()));
            let ticks = scope(|s| {
                let ticker = s.spawn(|| {
                    let mut ticks = 0;
                    while open.load(SeqCst) {
                        sleep(Duration::from_millis(1)).unwrap();
                        ticks += 1;
                    }
                    ticks
                });
                scope(|s| {
                    for (kind, call) in KINDS.into_iter().flat_map(|kind| CALLS.map(|call| (kind, call))) {
                        let checked = &checked;
                        s.spawn(move || {
                            check(kind, call);
                            assert!(checked.lock().unwrap().insert((kind, call)));
                        });
                    }
                });
                open.store(false, SeqCst);
                ticker.join().unwrap()
            });
            let checked = checked.into_inner().unwrap();
            assert_eq!(checked.len(), 100, "a cell is empty");
            assert_eq!(checked.iter().filter(|(kind, call)| is_cut(*kind, *call)).count(), 6 * 8 + 2 * 6 + 1 + 5);
            ticks
        });
        // Some hundred, unless others have the processor. A call that blocks ends the process.
        assert!(ticks >= 2, "the worker stood still: {ticks} ticks");
    }
}

const BRIEF: Duration = Duration::from_millis(20);

/// A call that is never satisfied: it ends by its own limit, and by a deadline around it.
fn is_limited(call: impl Fn() -> Result<isize, i32>, late: Result<isize, i32>) {
    let before = Instant::now();
    assert_eq!(unblock(&call), late);
    assert!(before.elapsed() >= BRIEF - Duration::from_millis(1), "it has not waited");
}

fn number(result: isize) -> Result<isize, i32> {
    if result == -1 { Err(errno()) } else { Ok(result) }
}

/// The sender's own queue has room for ever, and it is the other one's that is full.
#[test]
fn a_send_to_a_full_queue_of_datagrams_ends_in_time_and_when_there_is_room() {
    everywhere(|| {
        let receiver = Socket::new(Domain::UNIX, Type::DGRAM, None).unwrap();
        let place = place();
        receiver.bind(&place).unwrap();
        let sender = UnixDatagram::unbound().unwrap();
        sender.set_write_timeout(Some(BRIEF)).unwrap();
        let send = |flags| {
            let fd = sender.as_raw_fd();
            // SAFETY: bytes and address are there.
            number(unsafe { libc::sendto(fd, b"x".as_ptr().cast(), 1, flags, place.as_ptr().cast(), place.len()) })
        };
        while send(libc::MSG_DONTWAIT).is_ok() {}
        is_limited(|| send(0), Err(libc::EAGAIN));
        sender.set_write_timeout(None).unwrap();
        assert_eq!(timeout(BRIEF, || unblock(|| send(0))), Err(libc::ECANCELED));
        let take = || assert_eq!(receiver.recv(&mut [MaybeUninit::uninit()]).unwrap(), 1);
        assert_eq!(beside(|| send(0), take), Ok(1));
    });
}

/// A socket with something in its queue of errors is ready, and has nothing to read.
#[test]
fn a_receive_of_a_socket_with_a_queue_of_errors_ends_in_time_and_when_something_comes() {
    everywhere(|| {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let (fd, on) = (socket.as_raw_fd(), 1_i32);
        // SAFETY: the number is there.
        let set = unsafe { libc::setsockopt(fd, libc::IPPROTO_IP, libc::IP_RECVERR, (&raw const on).cast(), 4) };
        assert_eq!(set, 0);
        let nobody = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        socket.send_to(b"x", nobody).unwrap();
        let receive = |flags| {
            // SAFETY: there is room for a byte.
            number(unsafe { libc::recv(fd, [0_u8].as_mut_ptr().cast(), 1, flags) })
        };
        // The first call is told; the queue stays.
        assert_eq!(unblock(|| receive(0)), Err(libc::ECONNREFUSED));
        socket.set_read_timeout(Some(BRIEF)).unwrap();
        is_limited(|| receive(0), Err(libc::EAGAIN));
        socket.set_read_timeout(None).unwrap();
        assert_eq!(timeout(BRIEF, || unblock(|| receive(0))), Err(libc::ECANCELED));
        let send = || assert_eq!(socket.send_to(b"y", socket.local_addr().unwrap()).unwrap(), 1);
        assert_eq!(beside(|| receive(0), send), Ok(1));
    });
}

/// Such a socket is ready for what was peeked at before.
#[test]
fn a_peek_beyond_the_last_byte_ends_in_time_and_when_one_comes() {
    everywhere(|| {
        let (one, other) = UnixStream::pair().unwrap();
        let (fd, offset) = (one.as_raw_fd(), 3_i32);
        // SAFETY: the number is there.
        let set = unsafe { libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_PEEK_OFF, (&raw const offset).cast(), 4) };
        assert_eq!(set, 0);
        (&other).write_all(b"abc").unwrap();
        let peek = || {
            // SAFETY: there is room.
            number(unsafe { libc::recv(fd, [0_u8; 9].as_mut_ptr().cast(), 9, libc::MSG_PEEK) })
        };
        one.set_read_timeout(Some(BRIEF)).unwrap();
        is_limited(peek, Err(libc::EAGAIN));
        one.set_read_timeout(None).unwrap();
        assert_eq!(timeout(BRIEF, || unblock(peek)), Err(libc::ECANCELED));
        assert_eq!(beside(peek, || (&other).write_all(b"de").unwrap()), Ok(2));
    });
}

/// An epoll says of it that it has hung up, which is no exception for `select`.
#[test]
fn a_select_for_exceptions_of_what_has_hung_up_ends_in_time() {
    everywhere(|| {
        let (one, other) = UnixStream::pair().unwrap();
        drop(other);
        let time = libc::timeval { tv_sec: 0, tv_usec: BRIEF.as_micros() as i64 };
        let look = |time| number(select(one.as_raw_fd(), 2, time) as isize);
        is_limited(|| look(Some(time)), Ok(0));
        assert_eq!(timeout(BRIEF, || unblock(|| look(None))), Err(libc::ECANCELED));
    });
}

/// What is waited for is the old file, which is ready, and asked is the new one.
#[test]
fn a_poll_of_a_number_that_leads_elsewhere_meanwhile_ends_in_time_and_finds_the_new_file() {
    everywhere(|| {
        for finds in [false, true] {
            let (old, behind) = UnixStream::pair().unwrap();
            let (new, beyond) = UnixStream::pair().unwrap();
            let kept = old.try_clone().unwrap();
            let number = old.as_raw_fd();
            let poll = || {
                let mut asked = libc::pollfd { fd: number, events: libc::POLLIN, revents: 0 };
                // SAFETY: the entry is there.
                unsafe { libc::poll(&raw mut asked, 1, if finds { -1 } else { 100 }) }
            };
            let turn = || {
                // SAFETY: the number is this test's own, and leads elsewhere from now on.
                assert_eq!(unsafe { libc::dup2(new.as_raw_fd(), number) }, number);
                (&behind).write_all(b"old").unwrap();
                if finds {
                    (0..5).for_each(|_| yield_now().unwrap());
                    (&beyond).write_all(b"new").unwrap();
                }
            };
            assert_eq!(beside(poll, turn), i32::from(finds));
            drop(kept);
        }
    });
}

/// Takes what comes to a listener, as another process would, sooner or later than others do.
fn steal(listener: RawFd, open: &AtomicBool) {
    for round in 0_u32.. {
        let mut asked = libc::pollfd { fd: listener, events: libc::POLLIN, revents: 0 };
        // SAFETY: the entry is there; the listener stays open while this runs.
        while unsafe { libc::poll(&raw mut asked, 1, 0) } == 0 {
            if !open.load(SeqCst) {
                return;
            }
        }
        (0..round.wrapping_mul(977) % 4_000).for_each(|_| std::hint::spin_loop());
        // SAFETY: likewise. It waits for the next one if another accept was faster.
        drop(made(unsafe { libc::accept(listener, ptr::null_mut(), ptr::null_mut()) }));
    }
}

/// Accepts of other listeners go on while one has lost its connection to a thread, and that one
/// goes on with the next; and is cut where none comes.
#[test]
fn an_accept_that_has_lost_its_race_holds_up_nobody() {
    for backend in BACKENDS {
        on_one_worker(backend, || {
            let (raced, other) = (TcpListener::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
            let (to_raced, to_other) = (raced.local_addr().unwrap(), other.local_addr().unwrap());
            let open = Arc::new(AtomicBool::new(true));
            let thief = {
                let (listener, open) = (raced.as_raw_fd(), open.clone());
                std::thread::spawn(move || steal(listener, &open))
            };
            let token = CancelToken::new();
            let taken = scope(|s| {
                let accepts =
                    s.spawn(|| token.run(|| unblock(|| (0..).take_while(|_| raced.accept().is_ok()).count())));
                for _ in 0..400 {
                    let _connection = unblock(|| TcpStream::connect(to_raced)).unwrap();
                    // The other listener has its connection, whatever became of this one.
                    scope(|s| {
                        let accept = s.spawn(|| unblock(|| other.accept().unwrap().1));
                        let client = unblock(|| TcpStream::connect(to_other)).unwrap();
                        assert_eq!(accept.join().unwrap(), client.local_addr().unwrap());
                    });
                }
                token.cancel();
                accepts.join().unwrap()
            });
            assert!(taken <= 400);
            open.store(false, SeqCst);
            // One that still waits for a connection is given it.
            while !thief.is_finished() {
                drop(TcpStream::connect(to_raced));
                sleep(Duration::from_millis(1)).unwrap();
            }
            thief.join().unwrap();
        });
    }
}
