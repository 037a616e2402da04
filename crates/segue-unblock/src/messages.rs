//! `sendmsg`, `recvmsg` and their forms for lists of messages.
//!
//! Used by std's sockets, by crates that send descriptors, and by C.
//!
//! Control data goes along with the first byte. A receive that wants all is put together from
//! parts, and control data may come with each: the kernel ends such a receive behind descriptors,
//! and so does this; of other control data the last stays. Parts of several writers of one stream
//! with credentials are put together, too.
//!
//! Over a stream the kernel takes a part of a message where a wait is forbidden, and counts that
//! message. So of a list the last one that was counted goes on by itself before the next begins;
//! and the messages of a receive that wants all are received one by one.
#![allow(unsafe_code)] // The C library's functions, defined anew.

use crate::buffers::{rest, total};
use crate::call::{Outcome, admit, carry_out, outcome};
use crate::descriptor::{Half, header, is_stream};
use crate::patience::Patience;
use crate::raw::raw;
use crate::sleeps::duration;
use crate::sockets::{Sending, peek_all, receive_is_ours, send_is_ours, waits_for_all};
use crate::transfer::{go_on, until_done, until_enough};
use segue_core::now;
use std::ffi::{c_int, c_uint};
use std::ptr;

/// The buffers of a message that the kernel has accepted.
///
/// # Safety
/// The list was accepted, and is there as long as this is used.
unsafe fn slices<'a>(message: *const libc::msghdr) -> &'a [libc::iovec] {
    // SAFETY: the kernel has read both.
    unsafe {
        match (*message).msg_iov.is_null() {
            true => &[],
            false => std::slice::from_raw_parts((*message).msg_iov, (*message).msg_iovlen as _),
        }
    }
}

/// Sends a message, or the rest after so many bytes.
///
/// # Safety
/// As for `sendmsg`; if something was sent, the kernel has accepted the message.
unsafe fn send_part(fd: c_int, message: *const libc::msghdr, sending: &Sending, moved: usize) -> Outcome {
    if moved == 0 {
        // SAFETY: by the contract of this function, which stands at the head of the crate.
        return sending.attempt(0, |flags| unsafe { raw!(SYS_sendmsg, fd, message, flags) });
    }
    // Control data has gone with the first byte; a stream has no addresses.
    // SAFETY: the list was accepted above, and stays in place.
    let rest = rest(unsafe { slices(message) }, moved);
    let part = header(rest.as_ptr(), rest.len());
    // SAFETY: parts of the caller's buffers.
    sending.attempt(moved, |flags| unsafe { raw!(SYS_sendmsg, fd, &raw const part, flags) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sendmsg(fd: c_int, message: *const libc::msghdr, flags: c_int) -> isize {
    if !send_is_ours(fd, flags) {
        // SAFETY: by the contract of this function, which stands at the head of the crate.
        return unsafe { raw!(SYS_sendmsg, fd, message, flags) };
    }
    let sending = Sending::new(flags);
    carry_out(|| {
        admit()?;
        // SAFETY: this is asked for after bytes were sent.
        let length = || total(unsafe { slices(message) });
        // SAFETY: the caller's; the kernel has accepted the message.
        let attempt = |fd, moved| unsafe { send_part(fd, message, &sending, moved) };
        go_on(&mut Patience::new(fd), Half::Write, 0, length, attempt)
    })
}

/// Whether descriptors have come with a message, or control data that there was no room for.
///
/// # Safety
/// The kernel has filled the message.
unsafe fn ends_a_receive(message: *const libc::msghdr) -> bool {
    // SAFETY: the kernel has written headers one behind the other, of the given lengths.
    unsafe {
        if (*message).msg_flags & libc::MSG_CTRUNC != 0 {
            return true;
        }
        let mut next = libc::CMSG_FIRSTHDR(message);
        // Ends: each header lies behind the one before, within the length that the kernel has said.
        while let Some(control) = next.as_ref() {
            if (control.cmsg_level, control.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
                return true;
            }
            next = libc::CMSG_NXTHDR(message, control);
        }
        false
    }
}

/// Receives into all of a message's buffers, by a stream.
///
/// # Safety
/// As for `recvmsg`; the message is not null.
#[track_caller]
unsafe fn receive_all(patience: &mut Patience, message: *mut libc::msghdr, flags: c_int) -> Outcome {
    let flags = flags | libc::MSG_DONTWAIT;
    // The kernel writes there how much has come.
    // SAFETY: the caller's message can be read.
    let (control, room) = unsafe { ((*message).msg_control, (*message).msg_controllen) };
    // SAFETY: the caller's; the kernel had this much room before.
    let whole = |fd: c_int| unsafe {
        (*message).msg_controllen = room;
        outcome(raw!(SYS_recvmsg, fd, message, flags))
    };
    // SAFETY: this is asked for after bytes were received.
    let length = || total(unsafe { slices(message) });
    if flags & libc::MSG_PEEK != 0 {
        return peek_all(patience, length, whole);
    }
    // SAFETY: likewise.
    let wanted = || if unsafe { ends_a_receive(message) } { 0 } else { length() };
    let attempt = |fd: c_int, moved: usize| {
        if moved == 0 {
            return whole(fd);
        }
        // SAFETY: something was received.
        let rest = rest(unsafe { slices(message) }, moved);
        let mut part = header(rest.as_ptr(), rest.len());
        (part.msg_control, part.msg_controllen) = (control, room);
        // SAFETY: parts of the caller's buffers, and its control data.
        let received = outcome(unsafe { raw!(SYS_recvmsg, fd, &raw mut part, flags) })?;
        // SAFETY: the caller's message is there.
        unsafe {
            (*message).msg_flags |= part.msg_flags;
            if part.msg_controllen > 0 {
                (*message).msg_controllen = part.msg_controllen;
            }
        }
        Ok(received)
    };
    go_on(patience, Half::Read, 0, wanted, attempt)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn recvmsg(fd: c_int, message: *mut libc::msghdr, flags: c_int) -> isize {
    if !receive_is_ours(fd, flags) || message.is_null() {
        // SAFETY: by the contract of this function, which stands at the head of the crate.
        return unsafe { raw!(SYS_recvmsg, fd, message, flags) };
    }
    carry_out(|| {
        if waits_for_all(fd, flags) {
            admit()?;
            // SAFETY: by the contract of this function, which stands at the head of the crate.
            return unsafe { receive_all(&mut Patience::new(fd), message, flags) };
        }
        let flags = flags | libc::MSG_DONTWAIT;
        // SAFETY: by the contract of this function, which stands at the head of the crate.
        until_done(fd, Half::Read, |fd| outcome(unsafe { raw!(SYS_recvmsg, fd, message, flags) }))
    })
}

/// Moves messages one batch after the other, until all are moved or a call fails; how many, if any.
/// `is_enough` and `attempt` get how many were moved before.
#[track_caller]
fn batches(
    fd: c_int,
    half: Half,
    count: c_uint,
    is_enough: impl Fn(usize) -> bool,
    attempt: impl FnMut(&mut Patience, usize) -> Outcome,
) -> Outcome {
    admit()?;
    let is_enough = |moved| moved >= count as usize || is_enough(moved);
    until_enough(&mut Patience::new(fd), half, 0, is_enough, attempt)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sendmmsg(fd: c_int, messages: *mut libc::mmsghdr, count: c_uint, flags: c_int) -> c_int {
    if !send_is_ours(fd, flags) {
        // SAFETY: by the contract of this function, which stands at the head of the crate.
        return unsafe { raw!(SYS_sendmmsg, fd, messages, count, flags) } as c_int;
    }
    let (sending, may_be_cut) = (Sending::new(flags), is_stream(fd));
    let last = |moved: usize| messages.wrapping_add(moved - 1);
    // SAFETY: the kernel has sent something of this message, and so has read it.
    let length = |moved: usize| total(unsafe { slices(&raw const (*last(moved)).msg_hdr) });
    // SAFETY: the caller's, and the kernel has written there.
    let is_cut = |moved: usize| may_be_cut && (unsafe { (*last(moved)).msg_len } as usize) < length(moved);
    let attempt = |patience: &mut Patience, moved: usize| {
        let (fd, from, left) = (patience.fd(), messages.wrapping_add(moved), count - moved as c_uint);
        // SAFETY: the caller's; those that are left.
        let more = sending.attempt(0, |flags| unsafe { raw!(SYS_sendmmsg, fd, from, left, flags) })?;
        let moved = moved + more.cast_unsigned();
        if more > 0 && is_cut(moved) {
            let message = last(moved);
            // SAFETY: the caller's messages are there, and the kernel has accepted this one.
            unsafe {
                let sent = (*message).msg_len as usize;
                let part = |fd, sent| send_part(fd, &raw const (*message).msg_hdr, &sending, sent);
                // Bytes that were sent are returned, after any end.
                let sent = go_on(patience, Half::Write, sent, || length(moved), part)?;
                (*message).msg_len = sent as c_uint;
            }
        }
        Ok(more)
    };
    // One that stays cut is the last.
    carry_out(|| batches(fd, Half::Write, count, is_cut, attempt)) as c_int
}

#[unsafe(no_mangle)]
unsafe extern "C" fn recvmmsg(
    fd: c_int,
    messages: *mut libc::mmsghdr,
    count: c_uint,
    flags: c_int,
    timeout: *mut libc::timespec,
) -> c_int {
    // SAFETY: null, or there by the contract of this function.
    let limit = unsafe { timeout.as_ref() }.map(duration);
    if !receive_is_ours(fd, flags) || limit == Some(None) {
        // SAFETY: by the contract of this function, which stands at the head of the crate.
        return unsafe { raw!(SYS_recvmmsg, fd, messages, count, flags, timeout) } as c_int;
    }
    let wants_all = waits_for_all(fd, flags) && !messages.is_null();
    let deadline = limit.flatten().and_then(|limit| now().checked_add(limit));
    let attempt = |patience: &mut Patience, moved: usize| {
        let (fd, to, left) = (patience.fd(), messages.wrapping_add(moved), count - moved as c_uint);
        if wants_all && left > 0 {
            // SAFETY: the caller's: this message is there.
            unsafe {
                let received = receive_all(patience, &raw mut (*to).msg_hdr, flags & !libc::MSG_WAITFORONE)?;
                (*to).msg_len = received as c_uint;
            }
            return Ok(1);
        }
        let flags = flags | libc::MSG_DONTWAIT;
        // SAFETY: the caller's; those that are left.
        outcome(unsafe { raw!(SYS_recvmmsg, fd, to, left, flags, ptr::null_mut::<libc::timespec>()) })
    };
    // As in the kernel, its time-out is looked at when something has come.
    let is_enough = |_| flags & libc::MSG_WAITFORONE != 0 || deadline.is_some_and(|at| at <= now());
    carry_out(|| batches(fd, Half::Read, count, is_enough, attempt)) as c_int
}
