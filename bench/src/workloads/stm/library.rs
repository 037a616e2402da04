//! Libraries of transactions, and locks, behind one interface each. Used by `structures.rs`.

use std::cell::RefCell;
use std::sync::Arc;

/// A value of a variable.
pub trait Value: Clone + Send + Sync + 'static {}

impl<T: Clone + Send + Sync + 'static> Value for T {}

/// A library of transactions.
pub trait Stm: Send + Sync + Sized + 'static {
    /// Whether a wait suspends a fiber.
    const IN_FIBERS: bool = false;
    type Var<T: Value>: Send + Sync;
    type Tx<'t>;
    type Stop;

    fn var<T: Value>(value: T) -> Self::Var<T>;
    fn atomically<R>(body: impl for<'t> Fn(&Self::Tx<'t>) -> Result<R, Self::Stop>) -> R;
    /// The result of `f` on the value.
    fn look<T: Value, R>(tx: &Self::Tx<'_>, var: &Self::Var<T>, f: impl FnOnce(&T) -> R) -> Result<R, Self::Stop>;
    fn write<T: Value>(tx: &Self::Tx<'_>, var: &Self::Var<T>, value: T) -> Result<(), Self::Stop>;
    fn retry<R>(tx: &Self::Tx<'_>) -> Result<R, Self::Stop>;
}

pub struct Segue;

impl Stm for Segue {
    const IN_FIBERS: bool = true;
    type Var<T: Value> = segue::stm::TVar<T>;
    type Tx<'t> = segue::stm::Tx<'t>;
    type Stop = segue::stm::Stop;

    fn var<T: Value>(value: T) -> Self::Var<T> {
        segue::stm::TVar::new(value)
    }

    #[inline]
    fn atomically<R>(body: impl for<'t> Fn(&Self::Tx<'t>) -> Result<R, Self::Stop>) -> R {
        segue::stm::atomically(body).expect("nobody cancels")
    }

    #[inline]
    fn look<T: Value, R>(tx: &Self::Tx<'_>, var: &Self::Var<T>, f: impl FnOnce(&T) -> R) -> Result<R, Self::Stop> {
        Ok(f(tx.read(var)?))
    }

    #[inline]
    fn write<T: Value>(tx: &Self::Tx<'_>, var: &Self::Var<T>, value: T) -> Result<(), Self::Stop> {
        tx.write(var, value)
    }

    fn retry<R>(tx: &Self::Tx<'_>) -> Result<R, Self::Stop> {
        tx.retry()
    }
}

/// Two crates have the same functions. Their reads clone the value.
macro_rules! blocking {
    ($name:ident, $library:ident, $stop:ty) => {
        pub struct $name;

        impl Stm for $name {
            type Var<T: Value> = $library::TVar<T>;
            type Tx<'t> = RefCell<&'t mut $library::Transaction>;
            type Stop = $stop;

            fn var<T: Value>(value: T) -> Self::Var<T> {
                $library::TVar::new(value)
            }

            #[inline]
            fn atomically<R>(body: impl for<'t> Fn(&Self::Tx<'t>) -> Result<R, Self::Stop>) -> R {
                $library::atomically(|tx| body(&RefCell::new(tx)))
            }

            #[inline]
            fn look<T: Value, R>(
                tx: &Self::Tx<'_>,
                var: &Self::Var<T>,
                f: impl FnOnce(&T) -> R,
            ) -> Result<R, Self::Stop> {
                Ok(f(&var.read(&mut tx.borrow_mut())?))
            }

            #[inline]
            fn write<T: Value>(tx: &Self::Tx<'_>, var: &Self::Var<T>, value: T) -> Result<(), Self::Stop> {
                var.write(&mut tx.borrow_mut(), value)
            }

            fn retry<R>(_: &Self::Tx<'_>) -> Result<R, Self::Stop> {
                $library::retry()
            }
        }
    };
}

blocking!(Plain, stm, stm::StmError);
blocking!(Fast, fast_stm, fast_stm::StmError);

/// Its transaction is a thread's, and is awaited: a thread blocks on that where nobody has to wait.
pub struct Async;

impl Stm for Async {
    type Var<T: Value> = async_stm::TVar<T>;
    type Tx<'t> = ();
    type Stop = async_stm::StmControl;

    fn var<T: Value>(value: T) -> Self::Var<T> {
        async_stm::TVar::new(value)
    }

    #[inline]
    fn atomically<R>(body: impl for<'t> Fn(&Self::Tx<'t>) -> Result<R, Self::Stop>) -> R {
        pollster::block_on(async_stm::atomically(|| body(&())))
    }

    #[inline]
    fn look<T: Value, R>((): &Self::Tx<'_>, var: &Self::Var<T>, f: impl FnOnce(&T) -> R) -> Result<R, Self::Stop> {
        let value: Arc<T> = var.read()?;
        Ok(f(&value))
    }

    #[inline]
    fn write<T: Value>((): &Self::Tx<'_>, var: &Self::Var<T>, value: T) -> Result<(), Self::Stop> {
        var.write(value)
    }

    fn retry<R>((): &Self::Tx<'_>) -> Result<R, Self::Stop> {
        async_stm::retry()
    }
}

/// A kind of mutex with its condition variable.
pub trait Lock: Send + Sync + Sized + 'static {
    const IN_FIBERS: bool = false;
    type Of<T: Send + 'static>: Send + Sync;

    fn new<T: Send + 'static>(value: T) -> Self::Of<T>;
    fn with<T: Send + 'static, R>(lock: &Self::Of<T>, f: impl FnOnce(&mut T) -> R) -> R;
    /// Waits until `f` has a result, and tells the others that there is a change.
    fn change<T: Send + 'static, R>(lock: &Self::Of<T>, f: impl FnMut(&mut T) -> Option<R>) -> R;
}

macro_rules! lock {
    ($name:ident, $($library:ident)::+, $in_fibers:expr) => {
        pub struct $name;

        impl Lock for $name {
            const IN_FIBERS: bool = $in_fibers;
            type Of<T: Send + 'static> = ($($library)::+::Mutex<T>, $($library)::+::Condvar);

            fn new<T: Send + 'static>(value: T) -> Self::Of<T> {
                (<$($library)::+::Mutex<T>>::new(value), <$($library)::+::Condvar>::new())
            }

            #[inline]
            fn with<T: Send + 'static, R>(lock: &Self::Of<T>, f: impl FnOnce(&mut T) -> R) -> R {
                f(&mut lock.0.lock().expect("nobody cancels or panics"))
            }

            #[inline]
            fn change<T: Send + 'static, R>(lock: &Self::Of<T>, mut f: impl FnMut(&mut T) -> Option<R>) -> R {
                let mut guard = lock.0.lock().expect("nobody cancels or panics");
                loop {
                    if let Some(result) = f(&mut guard) {
                        drop(guard);
                        lock.1.notify_all();
                        return result;
                    }
                    guard = lock.1.wait(guard).expect("nobody cancels or panics");
                }
            }
        }
    };
}

lock!(SegueLock, segue::sync, true);
lock!(StdLock, std::sync, false);
