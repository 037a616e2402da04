//! The forms of C: messages with control data, lists of messages, calls that want all, fortified
//! ones; and a number that is closed and given out again meanwhile.
#![allow(unsafe_code)] // Calls of the C library.

mod common;

use common::{beside, errno, everywhere, guarded, unblock};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::ffi::c_void;
use std::io::{Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::ptr;
use std::time::Duration;

unsafe extern "C" {
    fn __read_chk(fd: i32, buf: *mut c_void, count: usize, room: usize) -> isize;
    fn __recv_chk(fd: i32, buf: *mut c_void, count: usize, room: usize, flags: i32) -> isize;
    fn __recvfrom_chk(
        fd: i32,
        buf: *mut c_void,
        count: usize,
        room: usize,
        flags: i32,
        addr: *mut libc::sockaddr,
        length: *mut libc::socklen_t,
    ) -> isize;
    fn __poll_chk(fds: *mut libc::pollfd, count: libc::nfds_t, timeout: i32, room: usize) -> i32;
}

fn recv(fd: &impl AsRawFd, buf: &mut [u8], flags: i32) -> isize {
    // SAFETY: the buffer is there.
    unsafe { libc::recv(fd.as_raw_fd(), buf.as_mut_ptr().cast(), buf.len(), flags) }
}

/// Sends the pieces one after the other, each when the receiver has had time for the one before.
fn in_pieces(mut stream: &UnixStream, pieces: &[&[u8]]) {
    for piece in pieces {
        stream.write_all(piece).unwrap();
        (0..5).for_each(|_| segue_core::yield_now().unwrap());
    }
}

#[test]
fn a_call_that_wants_all_gets_all_or_the_end() {
    everywhere(|| {
        let (one, mut other) = UnixStream::pair().unwrap();
        let mut bytes = [0; 6];
        assert_eq!(
            beside(|| recv(&one, &mut bytes, libc::MSG_WAITALL), || in_pieces(&other, &[b"ab", b"c", b"def"])),
            6
        );
        assert_eq!(&bytes, b"abcdef");
        other.write_all(b"abc").unwrap();
        assert_eq!(beside(|| recv(&one, &mut bytes, libc::MSG_WAITALL), || drop(other)), 3);

        // Into several buffers.
        let (one, mut other) = UnixStream::pair().unwrap();
        let (mut a, mut b) = ([0; 1], [0; 5]);
        let receive = || {
            let mut list = [(&mut a[..]), (&mut b[..])]
                .map(|part| libc::iovec { iov_base: part.as_mut_ptr().cast(), iov_len: part.len() });
            // SAFETY: zeros are an empty message; all that it names is there.
            unsafe {
                let mut message: libc::msghdr = MaybeUninit::zeroed().assume_init();
                (message.msg_iov, message.msg_iovlen) = (list.as_mut_ptr(), 2);
                libc::recvmsg(one.as_raw_fd(), &raw mut message, libc::MSG_WAITALL)
            }
        };
        // What the list of raw addresses leads to is used here alone meanwhile.
        assert_eq!(
            segue_core::scope(|_| {
                other.write_all(b"x").unwrap();
                let rest = other.try_clone().unwrap();
                let writer = segue_core::spawn(move || (&rest).write_all(b"yyyyy").unwrap());
                let count = unblock(receive);
                writer.join().unwrap();
                count
            }),
            6
        );
        assert_eq!((&a, &b), (b"x", b"yyyyy"));
        // What is said not to wait does not.
        let before = segue_unblock::waits();
        assert_eq!(unblock(|| (recv(&one, &mut bytes, libc::MSG_DONTWAIT), errno())), (-1, libc::EAGAIN));
        assert_eq!(segue_unblock::waits(), before);
    });
}

/// It says how much was sent, and not that the connection is not there yet.
#[test]
fn a_send_that_connects_first_does_so() {
    everywhere(|| {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let to = socket2::SockAddr::from(listener.local_addr().unwrap());
        let client = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        let send = || {
            let (fd, bytes) = (client.as_raw_fd(), b"first");
            // SAFETY: bytes and address are there.
            unsafe { libc::sendto(fd, bytes.as_ptr().cast(), 5, libc::MSG_FASTOPEN, to.as_ptr().cast(), to.len()) }
        };
        assert_eq!(unblock(send), 5);
        let mut bytes = [0; 5];
        listener.accept().unwrap().0.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"first");
    });
}

/// A listener whose queue is full answers nobody.
#[test]
fn a_send_that_connects_first_suspends_its_fiber() {
    let full = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    full.bind(&std::net::SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    full.listen(0).unwrap();
    let to = full.local_addr().unwrap();
    let _queued = std::net::TcpStream::connect(to.as_socket().unwrap()).unwrap();
    everywhere(|| {
        let client = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        let send = || {
            let (fd, bytes) = (client.as_raw_fd(), b"first");
            // SAFETY: bytes and address are there.
            let sent =
                unsafe { libc::sendto(fd, bytes.as_ptr().cast(), 5, libc::MSG_FASTOPEN, to.as_ptr().cast(), to.len()) };
            (sent, errno())
        };
        let cut = segue_core::timeout(Duration::from_millis(20), || unblock(send));
        assert_eq!(cut, (-1, libc::ECANCELED));
    });
}

#[test]
fn a_call_that_wants_all_of_a_packet_gets_its_packet() {
    everywhere(|| {
        let (one, other) = UnixDatagram::pair().unwrap();
        let mut bytes = [0; 6];
        for packet in [&b"ab"[..], b"cde"] {
            other.send(packet).unwrap();
        }
        assert_eq!(unblock(|| recv(&one, &mut bytes, libc::MSG_WAITALL)), 2);
        assert_eq!(unblock(|| recv(&one, &mut bytes, libc::MSG_WAITALL)), 3);
        let wait = || recv(&one, &mut bytes, libc::MSG_WAITALL);
        assert_eq!(beside(wait, || assert_eq!(other.send(b"f").unwrap(), 1)), 1);
        let mut list = [libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: 6 }];
        // SAFETY: numbers and pointers, for which zero is a value.
        let mut message: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
        (message.msg_iov, message.msg_iovlen) = (list.as_mut_ptr(), 1);
        other.send(b"gh").unwrap();
        // SAFETY: message, list and buffer are there.
        assert_eq!(unblock(|| unsafe { libc::recvmsg(one.as_raw_fd(), &raw mut message, libc::MSG_WAITALL) }), 2);
    });
}

/// `read` and `readv` of nothing leave a packet where it is; `writev` of nothing makes none, and
/// `write` does.
#[test]
fn a_call_without_a_byte_takes_no_packet() {
    everywhere(|| {
        let (one, other) = UnixDatagram::pair().unwrap();
        other.send(b"packet").unwrap();
        let mut bytes = [0_u8; 9];
        let none = [libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: 0 }; 2];
        let (from, to, room) = (one.as_raw_fd(), other.as_raw_fd(), bytes.as_mut_ptr().cast::<c_void>());
        // SAFETY: the lists and the buffers are there.
        unsafe {
            assert_eq!(unblock(|| libc::read(from, room, 0)), 0);
            assert_eq!(unblock(|| libc::readv(from, none.as_ptr(), 2)), 0);
            assert_eq!(unblock(|| libc::read(from, room, 9)), 6);
            assert_eq!(unblock(|| libc::writev(to, none.as_ptr(), 2)), 0);
            assert_eq!(unblock(|| libc::write(to, room, 0)), 0);
            assert_eq!(unblock(|| libc::read(from, room, 9)), 0);
            one.set_nonblocking(true).unwrap();
            assert_eq!((libc::read(from, room, 9), errno()), (-1, libc::EAGAIN), "a packet too many");
        }
    });
}

#[test]
fn what_can_not_be_read_says_so() {
    everywhere(|| {
        // SAFETY: an epoll is made, and is ours; the buffer is there.
        unsafe {
            let epoll = OwnedFd::from_raw_fd(libc::epoll_create1(libc::EPOLL_CLOEXEC));
            let read = || libc::read(epoll.as_raw_fd(), [0_u8; 8].as_mut_ptr().cast(), 8);
            assert_eq!(unblock(|| (read(), errno())), (-1, libc::EINVAL));
        }
    });
}

#[test]
fn a_descriptor_that_is_sent_arrives() {
    everywhere(|| {
        let (one, other) = UnixStream::pair().unwrap();
        let (mut reader, writer) = std::io::pipe().unwrap();
        // SAFETY: all that a message names is there; there is room for one descriptor.
        let transfer = |fd: i32, sends: Option<OwnedFd>| unsafe {
            let (mut byte, mut control) = (b'!', [0_u64; 4]);
            let mut list = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
            let mut message: libc::msghdr = MaybeUninit::zeroed().assume_init();
            (message.msg_iov, message.msg_iovlen) = (&raw mut list, 1);
            message.msg_control = control.as_mut_ptr().cast();
            message.msg_controllen = libc::CMSG_SPACE(4) as _;
            let Some(sent) = sends else {
                let count = libc::recvmsg(fd, &raw mut message, libc::MSG_CMSG_CLOEXEC);
                let got = libc::CMSG_DATA(libc::CMSG_FIRSTHDR(&raw const message)).cast::<i32>().read_unaligned();
                return (count, got);
            };
            let first = libc::CMSG_FIRSTHDR(&raw const message);
            (*first).cmsg_level = libc::SOL_SOCKET;
            (*first).cmsg_type = libc::SCM_RIGHTS;
            (*first).cmsg_len = libc::CMSG_LEN(4) as _;
            libc::CMSG_DATA(first).cast::<i32>().write_unaligned(sent.as_raw_fd());
            (libc::sendmsg(fd, &raw const message, 0), -1)
        };
        let send = || assert_eq!(unblock(|| transfer(other.as_raw_fd(), Some(writer.into()))).0, 1);
        let (count, got) = beside(|| transfer(one.as_raw_fd(), None), send);
        assert_eq!(count, 1);
        // SAFETY: it has just arrived, and is ours.
        let mut got = std::fs::File::from(unsafe { OwnedFd::from_raw_fd(got) });
        got.write_all(b"through").unwrap();
        drop(got);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "through");
    });
}

#[test]
fn lists_of_messages_wait_for_each() {
    everywhere(|| {
        let (from, to) = UnixDatagram::pair().unwrap();
        let count = 700_u32;
        let transfer = move |fd: i32, buffers: &mut [Vec<u8>], sends: bool| {
            let mut list = list_of(buffers);
            let messages = list.messages.as_mut_ptr();
            // SAFETY: messages and buffers are there.
            unsafe {
                match sends {
                    true => libc::sendmmsg(fd, messages, count, 0),
                    false => libc::recvmmsg(fd, messages, count, 0, ptr::null_mut()),
                }
            }
        };
        segue_core::scope(|s| {
            s.spawn(|| {
                let mut buffers: Vec<_> = (0..count).map(|number| number.to_ne_bytes().to_vec()).collect();
                assert_eq!(unblock(|| transfer(from.as_raw_fd(), &mut buffers, true)), count as i32);
            });
            let mut buffers = vec![vec![0; 4]; count as usize];
            assert_eq!(unblock(|| transfer(to.as_raw_fd(), &mut buffers, false)), count as i32);
            assert!(buffers.into_iter().eq((0..count).map(|number| number.to_ne_bytes().to_vec())));
        });
    });
}

/// Lists of messages with a buffer each.
struct List {
    messages: Vec<libc::mmsghdr>,
    _parts: Vec<libc::iovec>,
}

/// A list for these buffers, which have to stay in place.
fn list_of(buffers: &mut [Vec<u8>]) -> List {
    let part = |buffer: &mut Vec<u8>| libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let mut parts: Vec<_> = buffers.iter_mut().map(part).collect();
    let message = |part: &mut libc::iovec| {
        // SAFETY: numbers and pointers, for which zero is a value.
        let mut message: libc::mmsghdr = unsafe { MaybeUninit::zeroed().assume_init() };
        (message.msg_hdr.msg_iov, message.msg_hdr.msg_iovlen) = (part, 1);
        message
    };
    List { messages: parts.iter_mut().map(message).collect(), _parts: parts }
}

/// The kernel takes a part of a message from a call that must not wait, and counts it.
#[test]
fn a_list_of_messages_for_a_stream_is_sent_whole_and_in_order() {
    let text: Vec<u8> = (0..4_u32 << 20).map(|byte| (byte / 251) as u8).collect();
    everywhere(|| {
        let (one, mut other) = UnixStream::pair().unwrap();
        let send = || {
            let mut buffers: Vec<Vec<u8>> = text.chunks(1 << 20).map(<[u8]>::to_vec).collect();
            let mut list = list_of(&mut buffers);
            // SAFETY: messages and buffers are there.
            let sent = unsafe { libc::sendmmsg(one.as_raw_fd(), list.messages.as_mut_ptr(), 4, 0) };
            (sent, list.messages.iter().map(|message| message.msg_len).collect::<Vec<_>>())
        };
        let mut received = vec![0; text.len()];
        let receive = || unblock(|| other.read_exact(&mut received)).unwrap();
        assert_eq!(beside(send, receive), (4, vec![1 << 20; 4]));
        assert!(received == text, "bytes are lost, or in another order");
    });
}

/// As the kernel has it: a message of which a part was sent is counted, and is the last.
#[test]
fn a_list_of_messages_that_is_cut_says_what_was_sent() {
    everywhere(|| {
        let (one, mut other) = UnixStream::pair().unwrap();
        one.set_write_timeout(Some(Duration::from_millis(10))).unwrap();
        let mut buffers = vec![vec![1; 1_000], vec![2; 4 << 20], vec![3; 1_000]];
        let mut list = list_of(&mut buffers);
        let messages = list.messages.as_mut_ptr().expose_provenance();
        // SAFETY: messages and buffers are there.
        let send = || unsafe { libc::sendmmsg(one.as_raw_fd(), messages as *mut libc::mmsghdr, 3, 0) };
        assert_eq!(unblock(send), 2);
        let sent = [list.messages[0].msg_len as usize, list.messages[1].msg_len as usize];
        assert!(sent[0] == 1_000 && (1..4 << 20).contains(&sent[1]), "{sent:?}");
        drop(one);
        let mut received = vec![];
        other.read_to_end(&mut received).unwrap();
        assert_eq!(received.len(), sent[0] + sent[1]);
        assert!(received[..1_000].iter().all(|byte| *byte == 1) && received[1_000..].iter().all(|byte| *byte == 2));
    });
}

#[test]
fn a_list_that_wants_all_gets_all_of_each_message() {
    everywhere(|| {
        let (one, mut other) = UnixStream::pair().unwrap();
        let receive = || {
            let mut buffers = vec![vec![0; 5]; 3];
            let mut list = list_of(&mut buffers);
            let (fd, null) = (one.as_raw_fd(), ptr::null_mut());
            // SAFETY: messages and buffers are there.
            let count = unsafe { libc::recvmmsg(fd, list.messages.as_mut_ptr(), 3, libc::MSG_WAITALL, null) };
            (count, list.messages.iter().map(|message| message.msg_len).collect::<Vec<_>>(), buffers.concat())
        };
        let send = || in_pieces(&other, &[b"ab", b"cdefg", b"hij", b"k", b"lmno"]);
        assert_eq!(beside(receive, send), (3, vec![5; 3], b"abcdefghijklmno".to_vec()));
        // The end comes in the middle of the second.
        assert_eq!(
            beside(receive, || {
                other.write_all(b"abcdefg").unwrap();
                drop(other);
            }),
            (3, vec![5, 2, 0], b"abcdefg\0\0\0\0\0\0\0\0".to_vec())
        );
    });
}

#[test]
fn a_peek_that_wants_all_waits_for_all_and_takes_nothing() {
    everywhere(|| {
        let (one, mut other) = UnixStream::pair().unwrap();
        let mut bytes = [0; 6];
        let flags = libc::MSG_PEEK | libc::MSG_WAITALL;
        assert_eq!(beside(|| recv(&one, &mut bytes, flags), || in_pieces(&other, &[b"ab", b"c", b"def"])), 6);
        assert_eq!(&bytes, b"abcdef");
        assert_eq!(recv(&one, &mut bytes, 0), 6);
        // What there is at the end of the time, and at the end of the stream.
        one.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
        assert_eq!(unblock(|| (recv(&one, &mut bytes, flags), errno())), (-1, libc::EAGAIN));
        other.write_all(b"xyz").unwrap();
        assert_eq!(unblock(|| recv(&one, &mut bytes, flags)), 3);
        one.set_read_timeout(None).unwrap();
        assert_eq!(beside(|| recv(&one, &mut bytes, flags), || drop(other)), 3);
        assert_eq!(&bytes[..3], b"xyz");
    });
}

/// The kernel ends such a receive behind descriptors.
#[test]
fn a_receive_that_wants_all_has_the_descriptors_that_come_with_a_part() {
    everywhere(|| {
        let (one, other) = UnixStream::pair().unwrap();
        let (_reader, writer) = std::io::pipe().unwrap();
        // SAFETY: all that a message names is there; there is room for one descriptor.
        let send = |descriptor: i32| unsafe {
            let (mut bytes, mut control) = (*b"cd", [0_u64; 4]);
            let mut list = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: 2 };
            let mut message: libc::msghdr = MaybeUninit::zeroed().assume_init();
            (message.msg_iov, message.msg_iovlen) = (&raw mut list, 1);
            message.msg_control = control.as_mut_ptr().cast();
            message.msg_controllen = libc::CMSG_SPACE(4) as _;
            let first = libc::CMSG_FIRSTHDR(&raw const message);
            (*first).cmsg_level = libc::SOL_SOCKET;
            (*first).cmsg_type = libc::SCM_RIGHTS;
            (*first).cmsg_len = libc::CMSG_LEN(4) as _;
            libc::CMSG_DATA(first).cast::<i32>().write_unaligned(descriptor);
            assert_eq!(libc::sendmsg(other.as_raw_fd(), &raw const message, 0), 2);
        };
        // SAFETY: likewise.
        let receive = || unsafe {
            let (mut bytes, mut control) = ([0_u8; 6], [0_u64; 4]);
            let mut list = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: 6 };
            let mut message: libc::msghdr = MaybeUninit::zeroed().assume_init();
            (message.msg_iov, message.msg_iovlen) = (&raw mut list, 1);
            (message.msg_control, message.msg_controllen) = (control.as_mut_ptr().cast(), size_of_val(&control) as _);
            let flags = libc::MSG_WAITALL | libc::MSG_CMSG_CLOEXEC;
            let count = libc::recvmsg(one.as_raw_fd(), &raw mut message, flags);
            let first = libc::CMSG_FIRSTHDR(&raw const message);
            let got = (!first.is_null()).then(|| libc::CMSG_DATA(first).cast::<i32>().read_unaligned());
            (count, bytes, got.map(|fd| OwnedFd::from_raw_fd(fd)).is_some())
        };
        let parts = || {
            in_pieces(&other, &[b"ab"]);
            send(writer.as_raw_fd());
        };
        assert_eq!(beside(receive, parts), (4, *b"abcd\0\0", true));
        // Without one all is waited for.
        let parts = || in_pieces(&other, &[b"ab", b"cdef"]);
        assert_eq!(beside(receive, parts), (6, *b"abcdef", false));
    });
}

#[test]
fn fortified_calls_wait_too() {
    everywhere(|| {
        let (one, mut other) = UnixStream::pair().unwrap();
        let (fd, mut bytes) = (one.as_raw_fd(), [0_u8; 4]);
        let buf = bytes.as_mut_ptr().expose_provenance();
        // SAFETY: the buffer, and the entry, are there.
        let calls: [Box<dyn FnOnce() -> isize + Send>; 4] = unsafe {
            let buf = move || ptr::with_exposed_provenance_mut::<c_void>(buf);
            [
                Box::new(move || {
                    let mut asked = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
                    __poll_chk(&raw mut asked, 1, -1, size_of::<libc::pollfd>()) as isize + 3
                }),
                Box::new(move || __read_chk(fd, buf(), 4, 4)),
                Box::new(move || __recv_chk(fd, buf(), 4, 4, 0)),
                Box::new(move || __recvfrom_chk(fd, buf(), 4, 4, 0, ptr::null_mut(), ptr::null_mut())),
            ]
        };
        for (call, kept) in calls.into_iter().zip([true, false, false, false]) {
            assert_eq!(beside(call, || other.write_all(b"four").unwrap()), 4);
            if kept {
                // A poll has taken nothing.
                assert_eq!(recv(&one, &mut [0; 4], 0), 4);
            }
        }
    });
}

#[test]
fn a_fortified_call_that_would_overflow_ends_the_program() {
    const CHILD: &str = "SEGUE_UNBLOCK_OVERFLOW";
    if std::env::var_os(CHILD).is_some() {
        // SAFETY: it does not return.
        unsafe { __read_chk(0, ptr::null_mut(), 5, 4) };
        return;
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["a_fortified_call_that_would_overflow_ends_the_program", "--exact", "--nocapture"]);
    let output = command.env(CHILD, "1").output().unwrap();
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("buffer overflow detected"), "{output:?}");
}

#[test]
fn a_number_that_is_given_out_again_does_not_mislead_a_fiber() {
    everywhere(|| {
        let (one, mut other) = UnixStream::pair().unwrap();
        let (decoy, mut behind) = UnixStream::pair().unwrap();
        let number = one.into_raw_fd();
        let read = move || {
            let mut bytes = [0; 5];
            // SAFETY: the buffer is there; the number is whatever it is.
            let count = unsafe { libc::read(number, bytes.as_mut_ptr().cast(), 5) };
            (count, bytes)
        };
        let reuse = || {
            // SAFETY: the number is this test's own, and leads to the decoy from now on.
            assert_eq!(unsafe { libc::dup2(decoy.as_raw_fd(), number) }, number);
            behind.write_all(b"wrong").unwrap();
            (0..5).for_each(|_| segue_core::yield_now().unwrap());
            other.write_all(b"right").unwrap();
        };
        // As in the kernel: the call goes on with the file that it was begun with.
        assert_eq!(beside(read, reuse), (5, *b"right"));
        // The next call goes by the number.
        assert_eq!(unblock(read), (5, *b"wrong"));
        // SAFETY: ours, and closed once.
        drop(unsafe { OwnedFd::from_raw_fd(number) });
        assert_eq!(unblock(|| (read().0, errno())), (-1, libc::EBADF));
    });
}

#[test]
fn without_a_descriptor_left_a_fiber_still_waits() {
    const CHILD: &str = "SEGUE_UNBLOCK_EXHAUSTED";
    if std::env::var_os(CHILD).is_none() {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["without_a_descriptor_left_a_fiber_still_waits", "--exact", "--nocapture"]);
        assert!(guarded("the child", || command.env(CHILD, "1").status()).unwrap().success());
        return;
    }
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(200), maximum }).unwrap();
    everywhere(|| {
        let (one, mut other) = UnixStream::pair().unwrap();
        one.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
        // The driver has what it needs once it has been used.
        assert_eq!(unblock(|| (recv(&one, &mut [0], 0), errno())), (-1, libc::EAGAIN));
        let all: Vec<_> = std::iter::from_fn(|| std::fs::File::open("/dev/null").ok()).collect();
        assert_eq!(unblock(|| (recv(&one, &mut [0], 0), errno())), (-1, libc::EAGAIN));
        one.set_read_timeout(None).unwrap();
        assert_eq!(beside(|| recv(&one, &mut [0], 0), || other.write_all(b"x").unwrap()), 1);
        let mut asked = [libc::pollfd { fd: one.as_raw_fd(), events: libc::POLLIN, revents: 0 }];
        // SAFETY: the entry is there.
        let mut poll = |time| unsafe { libc::poll(asked.as_mut_ptr(), 1, time) };
        assert_eq!(unblock(|| poll(2)), 0);
        assert_eq!(beside(|| poll(-1), || other.write_all(b"x").unwrap()), 1);
        assert_eq!(unblock(|| recv(&one, &mut [0], 0)), 1);
        let token = segue_core::CancelToken::new();
        let read = || token.run(|| unblock(|| (recv(&one, &mut [0], 0), errno())));
        segue_core::scope(|s| {
            let fiber = s.spawn(read);
            (0..10).for_each(|_| segue_core::yield_now().unwrap());
            token.cancel();
            assert_eq!(fiber.join().unwrap(), (-1, libc::ECANCELED));
        });
        drop(all);
    });
}
