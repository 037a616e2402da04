// Which of std's types may be taken into a `catch_unwind`: included once with `std` as `like`, and
// once with `segue_std`.

use like::sync::{Barrier, Condvar, LazyLock, Mutex, MutexGuard, Once, OnceLock, mpsc};
use like::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use like::thread;
use std::panic::{RefUnwindSafe, UnwindSafe};

/// By value, and by reference.
pub fn unwind_safety() -> Vec<(&'static str, [bool; 2])> {
    /// Its constant is the trait's, unless that of the type is there, which comes first.
    struct Is<T: ?Sized>(std::marker::PhantomData<T>);
    trait Not {
        const BY_VALUE: bool = false;
        const BY_REFERENCE: bool = false;
    }
    impl<T: ?Sized> Not for Is<T> {}
    impl<T: ?Sized + UnwindSafe> Is<T> {
        const BY_VALUE: bool = true;
    }
    impl<T: ?Sized + RefUnwindSafe> Is<T> {
        const BY_REFERENCE: bool = true;
    }
    macro_rules! of {
        ($($type:ty),* $(,)?) => {
            vec![$((stringify!($type), [<Is<$type>>::BY_VALUE, <Is<$type>>::BY_REFERENCE])),*]
        };
    }
    of![
        Mutex<u32>,
        Mutex<&mut u32>,
        MutexGuard<'static, u32>,
        RwLock<u32>,
        RwLock<&mut u32>,
        RwLockReadGuard<'static, u32>,
        RwLockWriteGuard<'static, u32>,
        Once,
        OnceLock<u32>,
        OnceLock<&mut u32>,
        LazyLock<u32>,
        LazyLock<&mut u32>,
        Condvar,
        Barrier,
        mpsc::Sender<u32>,
        mpsc::SyncSender<u32>,
        mpsc::Receiver<u32>,
        thread::JoinHandle<u32>,
        thread::Thread,
    ]
}
