//! Fiber-local values: one for each fiber, as thread-locals are one for each thread.
//!
//! Used by applications, through `fiber_local!`; by tasks, which end a fiber's values before the
//! fiber, and take them from poll to poll.
//!
//! # The idea
//!
//! A fiber's header has one pointer to a table, which is made when the first value is. A plain
//! thread has such a pointer in a thread-local variable. A table belongs to one flow of control:
//! the fiber of the header, the thread, or the async task that is polled; a task takes it out of
//! the header of one poll's fiber and puts it into that of the next. So values move between
//! threads, and are `Send`; they are lent on the thread alone that has them, to a closure that
//! nothing is captured across.
//!
//! A job that runs in the place of its spawner, or on a thread of a pool, has a table of its own
//! meanwhile, which `instead` puts in the place of the thread's.
//!
//! # The end
//!
//! The code that runs a job to its end calls [`end`], while the job's fiber is in its contexts. The
//! values are dropped there, the newest first, and may wait; the caller takes note of each panic. A
//! plain thread's are dropped by the destructor of a thread-local variable; the one with the table
//! has no destructor, so that it can be read meanwhile, and afterwards. A read of a dropped value,
//! or of a new one without a table, is an error. **The race to fear** is none: no other thread has
//! the table. But a drop is foreign code, which reads other values and makes more: so a value is
//! taken out of the table before its drop, and no reference into the table is held across foreign
//! code. A value that is lent stays, since a value lies in a box of its own, and the borrowing
//! frame is above the one that ends the table.
#![allow(unsafe_code)] // A value is lent while its table may grow.

use crate::chain::barrier;
use crate::chain::unwind::caught;
use crate::contract::current;
use crate::contract::fiber::Fiber;
use crate::primitives::at_end::at_end;
use crate::primitives::atomic::plain_thread_local;
use crate::primitives::impl_debug::impl_debug;
use crate::primitives::payload::Payload;
use crate::primitives::waits_for::WaitsFor;
use std::any::TypeId;
use std::cell::{Cell, RefCell};
use std::error::Error;
use std::ptr::NonNull;
use std::{fmt, mem, ptr};

/// The address of a [`FiberLocal`], and its type: two constants of different types may be one in
/// memory, if they are alike there.
type Key = (usize, TypeId);

/// The values of one fiber, thread or task.
pub(crate) struct Locals {
    /// Each was a box: one that is moved says that nobody else has its value, which may be lent.
    values: Vec<(Key, NonNull<dyn Value>)>,
    /// Whether they are being dropped.
    ends: bool,
}

impl fmt::Debug for Locals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Locals").field("len", &self.values.len()).finish()
    }
}

/// In a header: the values were dropped.
const ENDED: *mut Locals = ptr::without_provenance_mut(1);

/// A value with its key's function to hand it down.
trait Value: Send {
    fn address(&self) -> *const ();
    fn inherited(&self) -> Option<Box<dyn Value>>;
}

struct Kept<T> {
    value: T,
    inherit: Option<fn(&T) -> T>,
}

impl<T: Send + 'static> Value for Kept<T> {
    fn address(&self) -> *const () {
        (&raw const self.value).cast()
    }

    fn inherited(&self) -> Option<Box<dyn Value>> {
        let Self { value, inherit } = self;
        inherit.map(|inherit| Box::new(Self { value: inherit(value), inherit: Some(inherit) }) as Box<dyn Value>)
    }
}

/// Ends the values of a plain thread.
struct AtEnd;

impl Drop for AtEnd {
    fn drop(&mut self) {
        // The panic hook has reported a panic.
        // SAFETY: the thread ends, so no frame is left that has borrowed a value of the thread's.
        unsafe { end(mem::forget) };
    }
}

plain_thread_local! {
    static OF_THREAD: Cell<*mut Locals> = Cell::new(ptr::null_mut());
}

thread_local! {
    static AT_END: AtEnd = const { AtEnd };
}

/// The place of a fiber's table.
#[inline(always)]
fn of_fiber(fiber: &Fiber) -> &Cell<*mut Locals> {
    // SAFETY: pointers to types with a size are alike, whatever type they point to.
    unsafe { &*ptr::from_ref(&fiber.locals).cast() }
}

/// Calls `f` with the place of the caller's table.
#[inline]
fn slot<R>(f: impl FnOnce(&Cell<*mut Locals>) -> R) -> R {
    current::with_running(|fiber| match fiber {
        Some(fiber) => f(of_fiber(fiber)),
        None => OF_THREAD.with(f),
    })
}

/// A value that each fiber has one of. Made by [`fiber_local!`](crate::fiber_local).
pub struct FiberLocal<T: 'static> {
    init: fn() -> T,
    inherit: Option<fn(&T) -> T>,
}

/// A fiber-local value can't be read: the value was dropped already, since its fiber ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessError;

impl fmt::Display for AccessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a fiber-local value was dropped already, or is new to a fiber that ends")
    }
}

impl Error for AccessError {}

impl<T: Send + 'static> FiberLocal<T> {
    /// For the macro.
    #[doc(hidden)]
    #[must_use]
    pub const fn new(init: fn() -> T) -> Self {
        Self { init, inherit: None }
    }

    /// For the macro.
    #[doc(hidden)]
    #[must_use]
    pub const fn inherited(init: fn() -> T) -> Self
    where
        T: Clone,
    {
        Self { init, inherit: Some(T::clone) }
    }

    /// Calls `f` with the caller's value, which is made at its first use. This call is an
    /// operation: no computation is captured across it by an effect or a generator.
    ///
    /// # Cancellation
    /// *No effect*: `f` sees the caller's.
    ///
    /// # Panics
    /// If the value was dropped, which a destructor of another one may find when its fiber ends:
    /// see [`try_with`](Self::try_with).
    #[track_caller]
    pub fn with<R>(&'static self, f: impl FnOnce(&T) -> R) -> R {
        self.try_with(f).unwrap_or_else(|error| panic!("{error}"))
    }

    /// As [`with`](Self::with), or an error.
    ///
    /// # Cancellation
    /// *No effect*: `f` sees the caller's.
    ///
    /// # Errors
    /// [`AccessError`] if the value was dropped, since the fiber or thread ends; or is asked for
    /// then for the first time.
    #[track_caller]
    pub fn try_with<R>(&'static self, f: impl FnOnce(&T) -> R) -> Result<R, AccessError> {
        barrier(WaitsFor::new("a fiber-local value"), || {
            let value = match self.find()? {
                Some(value) => value,
                None => self.make()?,
            };
            // SAFETY: the value lies in a box that the table frees when the running fiber, thread
            // or task ends: after this frame, which is inside of it and is not captured.
            Ok(f(unsafe { &*value }))
        })
    }

    fn key(&'static self) -> Key {
        (ptr::from_ref(self).addr(), TypeId::of::<T>())
    }

    fn find(&'static self) -> Result<Option<*const T>, AccessError> {
        slot(|slot| match slot.get() {
            ENDED => Err(AccessError),
            table => {
                // SAFETY: null, or the running fiber's table, into which nobody has a reference.
                let Some(locals) = (unsafe { table.as_ref() }) else { return Ok(None) };
                match locals.values.iter().find(|(key, _)| *key == self.key()) {
                    // SAFETY: the value stays until the table ends.
                    Some((_, value)) => Ok(Some(unsafe { value.as_ref() }.address().cast())),
                    None if locals.ends => Err(AccessError),
                    None => Ok(None),
                }
            }
        })
    }

    #[cold]
    fn make(&'static self) -> Result<*const T, AccessError> {
        // Foreign code, which may make others, or this one.
        let kept = Box::new(Kept { value: (self.init)(), inherit: self.inherit });
        if let Some(value) = self.find()? {
            return Ok(value);
        }
        slot(|slot| {
            if slot.get().is_null() {
                // For a thread's own table. The thread may be past its end: then this is the table
                // of a job that runs meanwhile, which `instead` ends.
                let _ = AT_END.try_with(|_| ());
                slot.set(Box::into_raw(Box::new(Locals { values: Vec::new(), ends: false })));
            }
            let kept = NonNull::from(Box::leak(kept));
            // SAFETY: the running fiber's table is in place, and nobody has a reference there.
            unsafe { (*slot.get()).values.push((self.key(), kept)) };
            // SAFETY: as in `find`.
            Ok(unsafe { kept.as_ref() }.address().cast())
        })
    }
}

impl<T: Send + 'static> FiberLocal<Cell<T>> {
    /// Puts a value into the caller's cell.
    ///
    /// # Panics
    /// As [`with`](Self::with).
    #[track_caller]
    pub fn set(&'static self, value: T) {
        self.with(|cell| cell.set(value));
    }

    /// A copy of the content of the caller's cell.
    ///
    /// # Panics
    /// As [`with`](Self::with).
    #[must_use]
    #[track_caller]
    pub fn get(&'static self) -> T
    where
        T: Copy,
    {
        self.with(Cell::get)
    }

    /// Puts a value into the caller's cell, and yields the former one.
    ///
    /// # Panics
    /// As [`with`](Self::with).
    #[track_caller]
    pub fn replace(&'static self, value: T) -> T {
        self.with(|cell| cell.replace(value))
    }
}

impl<T: Send + 'static> FiberLocal<RefCell<T>> {
    /// As [`with`](Self::with), with the content of the caller's cell.
    ///
    /// # Panics
    /// As [`with`](Self::with), or at a mutable borrow.
    #[track_caller]
    pub fn with_borrow<R>(&'static self, f: impl FnOnce(&T) -> R) -> R {
        self.with(|cell| f(&cell.borrow()))
    }

    /// As [`with`](Self::with), with the content of the caller's cell, to change.
    ///
    /// # Panics
    /// As [`with`](Self::with), or at a borrow.
    #[track_caller]
    pub fn with_borrow_mut<R>(&'static self, f: impl FnOnce(&mut T) -> R) -> R {
        self.with(|cell| f(&mut cell.borrow_mut()))
    }
}

impl_debug!([T] FiberLocal<T>);

/// The values with which a child of the caller starts.
#[inline]
pub(crate) fn inherited() -> *mut Locals {
    current::with_running(inherited_from)
}

/// As [`inherited`], where the caller is this fiber, or a plain thread.
#[inline(always)]
pub(crate) fn inherited_from(fiber: Option<&Fiber>) -> *mut Locals {
    let table = match fiber {
        Some(fiber) => of_fiber(fiber).get(),
        None => of_thread(),
    };
    if table.addr() <= ENDED.addr() {
        ptr::null_mut()
    } else {
        // SAFETY: the table was found in the slot of this fiber, or of the thread that calls this.
        unsafe { clone_of(table) }
    }
}

#[cold]
#[inline(never)]
fn of_thread() -> *mut Locals {
    OF_THREAD.get()
}

/// # Safety
/// The table is that of the running fiber, thread or task.
#[cold]
#[inline(never)]
unsafe fn clone_of(table: *mut Locals) -> *mut Locals {
    let mut values: Vec<(Key, Box<dyn Value>)> = Vec::new();
    barrier(WaitsFor::new("the clone of a fiber-local value"), || {
        // SAFETY: the table is in place. A clone is foreign code, which may make more values, but
        // removes none, and each lies in a place of its own; no reference to the list is held.
        let len = || unsafe { (*table).values.len() };
        let mut index = 0;
        while index < len() {
            // SAFETY: as above.
            let (key, value) = unsafe { (&(*table).values)[index] };
            // SAFETY: as above.
            values.extend(unsafe { value.as_ref() }.inherited().map(|value| (key, value)));
            index += 1;
        }
    });
    if values.is_empty() {
        return ptr::null_mut();
    }
    let values = values.into_iter().map(|(key, value)| (key, NonNull::from(Box::leak(value)))).collect();
    Box::into_raw(Box::new(Locals { values, ends: false }))
}

/// Drops the values with which a gone task was to begin or to go on, and calls `note` with each
/// panic of these drops.
///
/// # Safety
/// The pointer is null, or a table that nobody else has.
#[inline]
pub(crate) unsafe fn discard(table: *mut Locals, mut note: impl FnMut(Payload)) {
    if !table.is_null() {
        // SAFETY: as the caller promises.
        unsafe { end_table(table, &mut note) };
    }
}

/// Drops the caller's values, and calls `note` with each panic of these drops.
///
/// # Safety
/// The running fiber, thread or task ends: no frame further out has borrowed a value of its own.
#[inline(always)]
pub(crate) unsafe fn end(mut note: impl FnMut(Payload)) {
    let table = current::with_running(|fiber| match fiber {
        Some(fiber) => of_fiber(fiber).replace(ENDED),
        None => end_of_thread(),
    });
    if table.addr() > ENDED.addr() {
        // SAFETY: the slot had this table until now, and has none any more; the running fiber,
        // thread or task ends, by the contract.
        unsafe { end_slowly(table, &mut note) };
    }
}

#[cold]
#[inline(never)]
fn end_of_thread() -> *mut Locals {
    OF_THREAD.replace(ENDED)
}

/// # Safety
/// The table is that of the running fiber, thread or task, which ends, and was just taken out of
/// its slot.
#[cold]
#[inline(never)]
unsafe fn end_slowly(table: *mut Locals, note: &mut dyn FnMut(Payload)) {
    slot(|slot| slot.set(table));
    // SAFETY: the table is in its slot again until empty, and nobody else has the table, or a value
    // of that.
    unsafe { empty(table, note) };
    slot(|slot| slot.set(ENDED));
    // SAFETY: nobody finds the table any more; it came from a box.
    drop(unsafe { Box::from_raw(table) });
}

/// # Safety
/// The pointer is null, or a table of the caller's, which nobody else has.
#[cold]
unsafe fn end_table(table: *mut Locals, note: &mut dyn FnMut(Payload)) {
    if table.addr() > ENDED.addr() {
        // SAFETY: as the caller promises; the table came from a box.
        unsafe {
            empty(table, note);
            drop(Box::from_raw(table));
        }
    }
}

/// Drops the values, the newest first, and calls `note` with each panic of that.
///
/// # Safety
/// The pointer is a table of the caller's, and no frame further out has borrowed a value in there.
unsafe fn empty(table: *mut Locals, note: &mut dyn FnMut(Payload)) {
    // SAFETY: as the caller promises; no reference is held while a value is dropped, nor in `note`.
    let next = || unsafe {
        (*table).ends = true;
        (*table).values.pop()
    };
    while let Some((_, value)) = next() {
        // SAFETY: the value was a box, and is in the table no more; nobody has borrowed the value,
        // by the contract of this function.
        if let Err(payload) = caught(|| drop(unsafe { Box::from_raw(value.as_ptr()) })) {
            note(payload);
        }
    }
}

/// Runs `f` with this table in place of the running fiber's, and ends the table after that.
///
/// # Safety
/// The table is null, or one that nobody else has. Nothing is captured across `f`.
pub(crate) unsafe fn instead<R>(locals: *mut Locals, f: impl FnOnce() -> R) -> R {
    let outer = slot(|slot| slot.replace(locals));
    let _restore = at_end(|| {
        let own = slot(|slot| slot.replace(outer));
        // SAFETY: the table was put there by this frame, or made by `f`, unless that has ended. `f`
        // is over, on this fiber, and so are all borrows of values in there.
        unsafe { end_table(own, &mut mem::forget) };
    });
    f()
}

/// Takes the caller's table out, for the next poll of a task.
pub(crate) fn take() -> *mut Locals {
    let table = slot(|slot| slot.replace(ptr::null_mut()));
    if table == ENDED { ptr::null_mut() } else { table }
}

/// Puts a table in: the values that a job has inherited, or that the last poll of a task has taken
/// out.
///
/// # Safety
/// The table is null, or one that nobody else has. The running fiber has not begun, or has had none
/// since its last one was taken out.
#[cold]
pub(crate) unsafe fn put(locals: *mut Locals) {
    slot(|slot| slot.set(locals));
}

/// Declares values that each fiber has one of, as `thread_local!` does for threads. A plain thread
/// has one, too, and so has an async task, from poll to poll.
///
/// A value is made at its fiber's first use. With `, inherited` behind it, which takes a `Clone`, a
/// fiber begins with a clone of its spawner's, made at the spawn, if there is one. To use a value
/// the fiber looks through those that it has: a handful costs nothing to speak of, a thousand take
/// a microsecond each time, and belong into a map in one value. A part of a call has values of its
/// own and inherits none: the halves of a `join` that another worker takes, and code that runs on
/// another scheduler or blocks a thread for its caller.
///
/// The values are dropped on their fiber's stack after its end, before its scope hears of that, the
/// newest first; they may wait. A drop may read values that are still there; the others are an
/// [`AccessError`]. A plain thread drops its values among its thread-local variables, and
/// destructors of these read the values before, and get an error afterwards. Each panic of a drop
/// is a failure of the scope; at the end of a thread, or of a part of a call, only the panic hook
/// reports that.
///
/// # Examples
///
/// ```
/// use segue_core::{fiber_local, scope};
/// use std::cell::{Cell, RefCell};
///
/// fiber_local! {
///     static REQUEST: RefCell<String> = RefCell::new("none".to_owned()), inherited;
///     static DEPTH: Cell<u32> = Cell::new(0);
/// }
///
/// REQUEST.with_borrow_mut(|request| *request = "no. 7".to_owned());
/// DEPTH.set(3);
/// scope(|s| {
///     let child = s.spawn(|| (REQUEST.with_borrow(String::clone), DEPTH.get()));
///     assert_eq!(child.join().unwrap(), ("no. 7".to_owned(), 0));
/// });
/// ```
#[macro_export]
macro_rules! fiber_local {
    () => {};
    ($(#[$attribute:meta])* $vis:vis static $name:ident: $type:ty = $init:expr, inherited $(; $($rest:tt)*)?) => {
        $(#[$attribute])*
        $vis static $name: $crate::FiberLocal<$type> = $crate::FiberLocal::inherited(|| $init);
        $($crate::fiber_local! { $($rest)* })?
    };
    ($(#[$attribute:meta])* $vis:vis static $name:ident: $type:ty = $init:expr $(; $($rest:tt)*)?) => {
        $(#[$attribute])*
        $vis static $name: $crate::FiberLocal<$type> = $crate::FiberLocal::new(|| $init);
        $($crate::fiber_local! { $($rest)* })?
    };
}
