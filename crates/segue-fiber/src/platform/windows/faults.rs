//! The handler of a fault: an overflow of the stack, or an access to memory that can't be accessed.
//!
//! Used by `native/overflow.rs`, which knows the guards. The handler is asked before the others,
//! std's for instance, which are asked next if this one returns.

#![allow(unsafe_code)] // The handler of exceptions, and a handle of the process.

use std::fs::File;
use std::io::{self, Write};
use std::mem::ManuallyDrop;
use std::os::windows::io::{AsRawHandle, FromRawHandle};
use std::process;
use std::sync::OnceLock;

use windows_sys::Win32::Foundation::{EXCEPTION_ACCESS_VIOLATION, EXCEPTION_STACK_OVERFLOW};
use windows_sys::Win32::System::Diagnostics::Debug::{
    AddVectoredExceptionHandler, EXCEPTION_CONTINUE_SEARCH, EXCEPTION_POINTERS,
};

use super::processor;
use crate::platform::{OnFault, Registers};

/// Has `F` look at all faults from now on. Installed once for the process; later calls do nothing.
///
/// # Errors
///
/// There is no memory for a handler.
pub(crate) fn install<F: OnFault>() -> io::Result<()> {
    static INSTALLED: OnceLock<bool> = OnceLock::new();
    // SAFETY: the handler has the signature that is asked for, and is there for ever.
    let install = || !unsafe { AddVectoredExceptionHandler(1, Some(handle::<F>)) }.is_null();
    if *INSTALLED.get_or_init(install) { Ok(()) } else { Err(io::ErrorKind::OutOfMemory.into()) }
}

/// Ends the process, from a handler.
pub(crate) fn abort() -> ! {
    process::abort()
}

/// Writes to standard error, from a handler, and says how much; nothing after an error. Without a
/// lock and without a buffer, other than by std's handle.
pub(in crate::platform) fn write(text: &[u8]) -> usize {
    // SAFETY: the process's handle, which is not closed here.
    let file = ManuallyDrop::new(unsafe { File::from_raw_handle(io::stderr().as_raw_handle()) });
    (&*file).write(text).unwrap_or(0)
}

unsafe extern "system" fn handle<F: OnFault>(exception: *mut EXCEPTION_POINTERS) -> i32 {
    // SAFETY: the system passes valid pointers.
    let (record, context) = unsafe { (&*(*exception).ExceptionRecord, (*exception).ContextRecord) };
    let address = match record.ExceptionCode {
        EXCEPTION_STACK_OVERFLOW => processor::lowest(),
        EXCEPTION_ACCESS_VIOLATION => record.ExceptionInformation[1],
        _ => return EXCEPTION_CONTINUE_SEARCH,
    };
    // SAFETY: the context is the exception's. This is the handler, on the thread that has faulted.
    unsafe { F::fault(address, &Registers::of(context.cast())) };
    EXCEPTION_CONTINUE_SEARCH
}
