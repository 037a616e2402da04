//! A stack for signal handlers, for threads which have none.
//!
//! Used by schedulers, through [`ensure_alternate_stack`], on each of their workers.
//!
//! `std` gives an alternate stack to the main thread of a Rust program and to the threads it makes,
//! as long as the program started in Rust. Threads of a C library, or all threads of a program
//! which started in another language, have none; a handler for a stack overflow would then run on
//! the very stack that is full, and the process dies without a word.

#![allow(unsafe_code)] // Maps memory and hands it to the kernel.

use std::cell::OnceCell;
use std::io;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};

use super::sys;

/// What a handler of ours needs beyond the frame that the kernel writes.
const HANDLER: usize = 4096;

thread_local! {
    static OWN: OnceCell<AlternateStack> = const { OnceCell::new() };
}

/// Gives the calling thread an alternate signal stack unless it has one that is large enough.
///
/// Threads made by `std` have one already. It ends with the thread.
///
/// # Errors
///
/// The kernel refuses memory.
pub fn ensure_alternate_stack() -> io::Result<()> {
    // SAFETY: no preconditions.
    let frame = (unsafe { libc::getauxval(libc::AT_MINSIGSTKSZ) } as usize).max(libc::MINSIGSTKSZ);
    let present = present()?;
    if present.ss_flags & libc::SS_DISABLE == 0 && present.ss_size >= frame + HANDLER {
        return Ok(());
    }
    let own = AlternateStack::install(frame)?;
    // If this thread had one from us already and something disabled it, the earlier one stays
    // mapped: it may be in use.
    OWN.with(|cell| {
        if let Err(second) = cell.set(own) {
            std::mem::forget(second);
        }
    });
    Ok(())
}

/// The thread's alternate stack.
fn present() -> io::Result<libc::stack_t> {
    let mut present = MaybeUninit::<libc::stack_t>::uninit();
    // SAFETY: changes nothing and writes the present state.
    sys::check(unsafe { libc::sigaltstack(ptr::null(), present.as_mut_ptr()) })?;
    // SAFETY: written by the successful call.
    Ok(unsafe { present.assume_init() })
}

struct AlternateStack {
    mapping: NonNull<u8>,
    size: usize,
    /// Where the stack starts: above a guard page.
    start: usize,
}

impl AlternateStack {
    fn install(frame: usize) -> io::Result<AlternateStack> {
        let page = sys::page_size();
        let stack = (frame + HANDLER).max(libc::SIGSTKSZ).next_multiple_of(page) + 2 * page;
        let size = stack + page;
        let mapping = sys::reserve(size)?;
        let start = mapping.addr().get() + page;
        // Dropped, it is unmapped.
        let own = AlternateStack { mapping, size, start };
        sys::make_accessible(start..start + stack)?;
        let new = libc::stack_t { ss_sp: start as *mut _, ss_flags: 0, ss_size: stack };
        // SAFETY: the memory is mapped, ours, and stays until this thread disables the stack again.
        sys::check(unsafe { libc::sigaltstack(&new, ptr::null_mut()) })?;
        Ok(own)
    }
}

impl Drop for AlternateStack {
    fn drop(&mut self) {
        // Only if it is still ours; a thread that ends takes no signals on a stack that is gone.
        if present().is_ok_and(|present| present.ss_sp as usize == self.start) {
            let none = libc::stack_t { ss_sp: ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: libc::SIGSTKSZ };
            // SAFETY: disables the stack of this thread; this is a local variable of it.
            if unsafe { libc::sigaltstack(&none, ptr::null_mut()) } != 0 {
                return; // In use: leave it mapped.
            }
        }
        sys::unmap(self.mapping, self.size);
    }
}
