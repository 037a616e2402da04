//! System calls as they are: what every function that is defined here does where it does nothing
//! else.
//!
//! Used by all of them. The result is the C library's: -1 with `errno`, or what the kernel says.

/// Makes a system call by its number.
macro_rules! raw {
    ($number:ident $(, $argument:expr)*) => {
        libc::syscall(libc::$number $(, $argument)*) as isize
    };
}

pub(crate) use raw;
