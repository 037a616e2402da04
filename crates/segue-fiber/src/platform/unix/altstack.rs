//! A stack for signal handlers, for threads which have none.
//!
//! Used by schedulers, through [`ensure_alternate_stack`], on each of their workers.
//!
//! `std` gives an alternate stack to the main thread of a Rust program and to the threads of its
//! making, as long as the program started in Rust. Threads of a C library, or all threads of a
//! program which started in another language, have none; a handler for a stack overflow would then
//! run on the very stack that is full, and the process dies without a word.
//!
//! `std` takes its own away before the destructors of thread-local variables, which may run fibers.
//! So a thread keeps its stack beyond these (`of_thread.rs`). A thread has at most one of ours: if
//! other code has put another one in its place, or none, the thread gets the same again, unless
//! that stack is in use.

#![allow(unsafe_code)] // Maps memory and hands it to the kernel.

use std::io;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};

use super::memory;
use super::of_thread::{Kept, OfThread};
use crate::platform::system;

/// The need of our handler beyond the frame that the kernel writes.
const HANDLER: usize = 4096;

static OWN: OfThread<AlternateStack> = OfThread::new();

/// Gives the calling thread an alternate signal stack unless there is one that is large enough.
///
/// Threads made by `std` have one already. The stack ends with the thread.
///
/// # Errors
///
/// The kernel refuses memory, or the C library a place for the pointer.
pub fn ensure_alternate_stack() -> io::Result<()> {
    let present = present()?;
    if present.ss_flags & libc::SS_DISABLE == 0 && present.ss_size >= system::signal_frame() + HANDLER {
        return Ok(());
    }
    if let Some(own) = OWN.get() {
        // If the caller runs on that stack, for a signal that has switched it off meanwhile, the
        // stack comes back at the end of that.
        // SAFETY: the thread has kept this stack.
        return if is_on(own) { Ok(()) } else { unsafe { install(own) } };
    }
    let own = map()?;
    // SAFETY: the stack is unmapped at the thread's end alone, or below, if it is not kept.
    if let Err(error) = unsafe { OWN.keep(own) } {
        // SAFETY: the stack was just made, and is unknown to the kernel.
        unsafe { unmap(own) };
        return Err(error);
    }
    // SAFETY: the thread has kept this stack.
    unsafe { install(own) }
}

/// The thread's alternate stack.
fn present() -> io::Result<libc::stack_t> {
    let mut present = MaybeUninit::<libc::stack_t>::uninit();
    // SAFETY: changes nothing and writes the present state.
    super::check(unsafe { libc::sigaltstack(ptr::null(), present.as_mut_ptr()) })?;
    // SAFETY: written by the successful call.
    Ok(unsafe { present.assume_init() })
}

/// The block at the start of a thread's mapping, a guard page and the stack above. All have the
/// same size.
struct AlternateStack;

fn map() -> io::Result<NonNull<AlternateStack>> {
    let own = memory::reserve(memory::page_size() + size())?.cast();
    // SAFETY: the range lies in the new reservation, behind the guard page.
    match unsafe { memory::make_accessible(start(own)..start(own) + size()) } {
        Ok(()) => Ok(own),
        Err(error) => {
            // SAFETY: the memory was just reserved, and nobody else has the address.
            unsafe { unmap(own) };
            Err(error)
        }
    }
}

/// # Safety
/// The stack comes from [`map`], and nobody uses the stack any more.
unsafe fn unmap(own: NonNull<AlternateStack>) {
    // SAFETY: `map` has reserved so much there, and nobody uses the memory, as the contract says.
    unsafe { memory::unmap(own.cast(), memory::page_size() + size()) };
}

/// How large a stack is, without its guard.
fn size() -> usize {
    let page = memory::page_size();
    (system::signal_frame() + HANDLER).max(libc::SIGSTKSZ).next_multiple_of(page) + 2 * page
}

/// Where the stack starts: above the guard page.
fn start(own: NonNull<AlternateStack>) -> usize {
    own.addr().get() + memory::page_size()
}

/// Whether the caller runs on this stack.
fn is_on(own: NonNull<AlternateStack>) -> bool {
    let here = 0_u8;
    (start(own)..start(own) + size()).contains(&(&raw const here).addr())
}

/// Has the signals of the calling thread handled on a stack.
///
/// # Safety
/// The stack comes from [`map`], and stays until the calling thread has disabled it again.
unsafe fn install(own: NonNull<AlternateStack>) -> io::Result<()> {
    let new = libc::stack_t { ss_sp: start(own) as *mut _, ss_flags: 0, ss_size: size() };
    // SAFETY: the memory is mapped, and stays until this thread disables the stack, by the
    // contract.
    super::check(unsafe { libc::sigaltstack(&new, ptr::null_mut()) })
}

impl Kept for AlternateStack {
    unsafe fn end(own: NonNull<Self>) {
        // Only if still ours; a thread that ends takes no signals on a stack that is gone.
        if present().is_ok_and(|present| present.ss_sp as usize == start(own)) {
            let none = libc::stack_t { ss_sp: ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: libc::SIGSTKSZ };
            // SAFETY: disables the stack of this thread, which has kept the pointer.
            if unsafe { libc::sigaltstack(&none, ptr::null_mut()) } != 0 {
                return; // In use: the stack stays mapped.
            }
        }
        // SAFETY: this thread alone has used the stack, and has another one now.
        unsafe { unmap(own) };
    }
}
