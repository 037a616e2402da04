//! Atomics, cells and threads from `std`, or from loom when a model is being checked.
//!
//! Every crate that takes part in a protocol between threads takes them from here, so that the
//! choice is made in one place and loom sees the source that ships.

#[cfg(not(loom))]
mod chosen {
    pub use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, fence};
    pub use std::sync::{Mutex, MutexGuard};
    pub use std::thread::{Thread, current, park, yield_now};

    /// Tells the processor that this thread spins.
    #[inline]
    pub fn spin_loop() {
        std::hint::spin_loop();
    }

    /// Whether a model has failed and is being taken down, where nothing of it can be asked any
    /// more.
    #[inline]
    pub fn has_failed() -> bool {
        false
    }

    /// A cell with every access visible to the model checker.
    #[derive(Debug, Default)]
    pub struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        /// A cell that holds `value`.
        pub const fn new(value: T) -> Self {
            Self(std::cell::UnsafeCell::new(value))
        }

        /// The value.
        pub fn into_inner(self) -> T {
            self.0.into_inner()
        }

        /// Calls `f` with a pointer to read through.
        #[inline]
        pub fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
            f(self.0.get())
        }

        /// Calls `f` with a pointer to write through.
        #[inline]
        pub fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
            f(self.0.get())
        }
    }
}

#[cfg(loom)]
mod chosen {
    pub use loom::cell::UnsafeCell;
    pub use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, fence};
    pub use loom::sync::{Mutex, MutexGuard};
    pub use loom::thread::{Thread, current, park, yield_now};

    /// Whether a model has failed and is being taken down, where nothing of it can be asked any
    /// more.
    pub fn has_failed() -> bool {
        std::thread::panicking()
    }

    /// Lets the model run another thread: to spin is to wait for one.
    pub fn spin_loop() {
        loom::thread::yield_now();
    }
}

pub use chosen::*;
pub use std::sync::atomic::Ordering;

/// Declares thread-local variables that are there as long as their thread is: the compiler refuses
/// a type that has a destructor. All others may be gone in destructors, so code of ours reaches
/// them by `try_with` alone (`.ci/run locals`). For crates of ours.
///
/// ```
/// use std::cell::Cell;
///
/// segue_core::plain_thread_local! {
///     static DEPTH: Cell<u32> = Cell::new(0);
/// }
/// DEPTH.set(1);
/// ```
///
/// ```compile_fail,E0080
/// use std::cell::RefCell;
///
/// segue_core::plain_thread_local! {
///     static NAMES: RefCell<Vec<String>> = RefCell::new(Vec::new());
/// }
/// NAMES.with_borrow(|names| assert!(names.is_empty()));
/// ```
#[doc(hidden)]
#[macro_export]
macro_rules! plain_thread_local {
    ($($(#[$attribute:meta])* $vis:vis static $name:ident: $ty:ty = $init:expr;)*) => {
        ::std::thread_local! {$(
            $(#[$attribute])*
            $vis static $name: $ty = const {
                ::std::assert!(!::std::mem::needs_drop::<$ty>(), "it is reached by `try_with`, as it has a destructor");
                $init
            };
        )*}
    };
}

/// Declares a thread-local without a destructor, cheap in production and per model thread under
/// loom.
#[cfg(not(loom))]
macro_rules! local {
    ($vis:vis static $name:ident: $ty:ty = $init:expr) => {
        $crate::plain_thread_local! { $vis static $name: $ty = $init; }
    };
}

/// As `local`, with a destructor, and so reached by `try_with` alone.
#[cfg(not(loom))]
macro_rules! local_with_destructor {
    ($vis:vis static $name:ident: $ty:ty = $init:expr) => {
        thread_local! { $vis static $name: $ty = const { $init } }
    };
}

#[cfg(loom)]
macro_rules! local {
    ($vis:vis static $name:ident: $ty:ty = $init:expr) => {
        loom::thread_local! { $vis static $name: $ty = $init }
    };
}

#[cfg(loom)]
macro_rules! local_with_destructor {
    ($($declared:tt)*) => {
        loom::thread_local! { $($declared)* }
    };
}

pub(crate) use {local, local_with_destructor, plain_thread_local};
