//! Generators: iterators made of code that visits.
//!
//! Used by applications: a recursive walk or an interface with callbacks becomes something to loop
//! over.
//!
//! # The idea
//!
//! The body runs on a stack of its own, from one element to the next. To give an element, the body
//! leaves its address in the header and suspends; the consumer takes the element from there. There
//! is no handler and no search in between: an element costs two switches.
//!
//! # States
//!
//! ```text
//!   New --next--> Running --give--> Suspended --next, drop--> Running --the body returns or panics--> Over
//! ```
//!
//! If the region ends before the first element, the generator is *late*, and never starts. A
//! generator that is dropped while suspended is *ending*: giving then panics with [`Dropped`], so
//! that the body is unwound. A body that catches the panic and gives again is unwound again.

#![allow(unsafe_code)] // Body and consumer meet in a header at the top of the body's stack.

use std::any::Any;
use std::cell::Cell;
use std::iter::FusedIterator;
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, MaybeUninit, offset_of};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::{self, NonNull};
use std::thread;

use crate::backtrace::Backtrace;
use crate::coroutine::Coroutine;
use crate::effect::Dropped;
use crate::host::RawCoroutine;
use crate::outcome::{Main, Step, can_unwind, count_leak};
use crate::region::{Kept, List};
use crate::thread_stacks;
use segue_core::chain::{self, Frame, Path};

/// Makes an iterator of `body`, which gives the elements to its [`Yielder`].
///
/// The body starts when the first element is asked for, on a stack of the [default
/// size](crate::StackConfig::set_default_slot_size); [`generator_with_stack`] says another. The
/// body borrows nothing, and the generator may be kept for any time; for bodies that borrow there
/// is [`Region::generator`](crate::Region::generator).
///
/// ```
/// use segue_fiber::{Yielder, generator};
///
/// enum Tree {
///     Leaf,
///     Node(Box<Tree>, u32, Box<Tree>),
/// }
///
/// fn walk(tree: &Tree, y: &Yielder<u32>) {
///     if let Tree::Node(left, here, right) = tree {
///         walk(left, y);
///         y.give(*here);
///         walk(right, y);
///     }
/// }
///
/// let leaf = |it| Box::new(Tree::Node(Box::new(Tree::Leaf), it, Box::new(Tree::Leaf)));
/// let tree = Tree::Node(leaf(1), 2, leaf(3));
/// assert!(generator(move |y| walk(&tree, y)).eq([1, 2, 3]));
/// ```
///
/// # Panics
///
/// Without a stack for the body. Panics of the body are those of [`next`](Iterator::next).
#[inline]
pub fn generator<T: 'static, F: FnOnce(&Yielder<T>) + 'static>(body: F) -> Generator<'static, T> {
    // SAFETY: the body borrows nothing.
    unsafe { Generator::new(body, None, None) }
}

/// As [`generator`], on a stack with `bytes` for the body.
///
/// Without it a body has a stack of the [default size](crate::StackConfig::set_default_slot_size):
/// by default 240 KiB of that can be used. A walk over a deep tree may need more.
///
/// ```
/// use segue_fiber::{Yielder, generator_with_stack};
///
/// fn dive(depth: u32, y: &Yielder<u32>) {
///     let frame = std::hint::black_box([depth; 64]);
///     match depth {
///         0 => y.give(frame[0]),
///         _ => dive(depth - 1, y),
///     }
///     std::hint::black_box(frame);
/// }
/// assert!(generator_with_stack(16 << 20, |y| dive(20_000, y)).eq([0]));
/// ```
///
/// # Panics
///
/// Without a stack for the body, or for such a size.
pub fn generator_with_stack<T: 'static, F: FnOnce(&Yielder<T>) + 'static>(
    bytes: usize,
    body: F,
) -> Generator<'static, T> {
    // SAFETY: the body borrows nothing.
    unsafe { Generator::new(body, None, Some(bytes)) }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    New,
    Running,
    Suspended,
    Over,
    /// Not started at the end of its region, and never will be.
    Late,
}

/// The state that body and consumer share; at the top of the body's stack.
#[repr(C)]
struct Header<T> {
    /// The outermost handler of the body, which handles nothing: its parent is the consumer's
    /// innermost.
    frame: Frame,
    raw: Cell<MaybeUninit<RawCoroutine>>,
    /// The element that was given, on the giver's stack.
    element: Cell<*const T>,
    /// A place that the consumer lends to the body for the time of one run, or null.
    input: Cell<*mut ()>,
    state: Cell<State>,
    /// Whether the body is to be unwound.
    ending: Cell<bool>,
    /// Whether the thread was panicking already when the body was run on.
    panicking: Cell<bool>,
    borrows: bool,
    kept: Kept,
    /// The panic that has left the body.
    panic: Cell<Option<Box<dyn Any + Send>>>,
}

/// An iterator over the elements of a body: made by [`generator`] and
/// [`Region::generator`](crate::Region::generator).
///
/// A panic of the body goes to the consumer that asked for the element; the generator is at its end
/// then.
///
/// Dropped halfway, the body is unwound from the point of its last element, and its panic, should
/// it have one of its own, is the dropper's. Without unwinding (`panic = "abort"`), and in the
/// destructors of thread-local variables, the stack is leaked and [counted](crate::leaked_stacks)
/// instead; a body that borrows can't be leaked, and aborts the process.
///
/// Effects that the body performs go to its own handlers, and then to those of the consumer that
/// asks for the next element.
///
/// ```compile_fail,E0277
/// fn moves_to_another_thread<T: Send>() {}
/// moves_to_another_thread::<segue_fiber::Generator<u32>>();
/// ```
#[must_use = "generators do nothing unless they are asked for elements"]
pub struct Generator<'r, T> {
    /// Until the end was seen.
    header: Option<NonNull<Header<T>>>,
    _good_for: PhantomData<fn(&'r ()) -> &'r ()>,
    _elements: PhantomData<T>,
}

/// Takes the elements of a generator's body.
pub struct Yielder<T> {
    header: NonNull<Header<T>>,
}

impl<T> Yielder<T> {
    /// Hands `element` to the consumer, and returns when the consumer asks for the next one.
    ///
    /// While a panic unwinds the body, in destructors, nothing can be handed over: the element is
    /// dropped.
    ///
    /// # Panics
    ///
    /// With [`Dropped`], to unwind the body, if the generator was dropped. Inside of a fiber of a
    /// scheduler that runs within the body.
    #[inline]
    pub fn give(&self, element: T) {
        self.try_give(element);
    }

    /// The same, and says whether the element was handed over, and the next one is wanted.
    #[inline(always)]
    pub(crate) fn try_give(&self, element: T) -> bool {
        // SAFETY: the header is in place while its body runs, and nobody has this yielder outside
        // of the body.
        let header = unsafe { self.header.as_ref() };
        if thread::panicking() || header.ending.get() {
            return self.refuse(element);
        }
        self.hand_over(element)
    }

    /// The place of [`next_with`](Generator::next_with), or null in every other run.
    #[inline(always)]
    pub(crate) fn input(&self) -> &Cell<*mut ()> {
        // SAFETY: as in `give`.
        &unsafe { self.header.as_ref() }.input
    }

    #[inline(always)]
    fn hand_over(&self, element: T) -> bool {
        if chain::top() == self.header.as_ptr().cast() {
            self.suspend(element);
            true
        } else {
            self.hand_over_from_within(element)
        }
    }

    /// Looks past everything that the body has in place around the caller.
    #[cold]
    #[inline(never)]
    fn hand_over_from_within(&self, element: T) -> bool {
        // SAFETY: this call is inside of all of these frames, and is captured with them.
        let path = unsafe { chain::path(self.header.as_ptr().cast()) };
        let _away = match path {
            Path::Clear => None,
            // SAFETY: the body is captured next; this frame goes on along with the body, and
            // `_away` is dropped first.
            Path::Through(contexts) => Some(unsafe { contexts.leave() }),
            // To panic as well would end the process.
            Path::Barred(_) | Path::Apart if thread::panicking() => return false,
            Path::Barred(barrier) => panic!(
                "an element was given, or the input of a machine was read, in the middle of an operation, {}, which can't be suspended \
                 with the body around: do that before or after the operation",
                barrier.what()
            ),
            Path::Apart => panic!(
                "an element was given, or the input of a machine was read, from inside of a fiber that runs within the body: do that \
                 in the body itself"
            ),
        };
        self.suspend(element);
        true
    }

    #[inline(always)]
    fn suspend(&self, element: T) {
        // SAFETY: as in `give`.
        let header = unsafe { self.header.as_ref() };
        let top = chain::top();
        let element = ManuallyDrop::new(element);
        header.element.set(&raw const *element);
        // SAFETY: set when the generator was made. The body runs, and this call inside of it,
        // with no other coroutine's start between: its frame is in the chain. The element is moved
        // out once, by `next`.
        unsafe { header.raw.get().assume_init().suspend() };
        // SAFETY: the frames around this call were captured with it.
        unsafe { chain::set_top(top) };
        if header.ending.get() {
            self.unwind();
        }
    }

    #[cold]
    fn unwind(&self) -> ! {
        resume_unwind(Box::new(Dropped))
    }

    #[cold]
    fn refuse(&self, element: T) -> bool {
        // SAFETY: as in `give`.
        let header = unsafe { self.header.as_ref() };
        match (thread::panicking(), header.ending.get()) {
            // The consumer panics.
            (true, false) if header.panicking.get() => self.hand_over(element),
            (true, _) => false,
            (false, _) => {
                drop(element);
                self.unwind()
            }
        }
    }
}

impl<'r, T> Generator<'r, T> {
    /// # Safety
    ///
    /// The data that body and elements borrow outlive the region, or nothing is borrowed.
    #[inline]
    pub(crate) unsafe fn new<F: FnOnce(&Yielder<T>)>(body: F, list: Option<List<'r>>, size: Option<usize>) -> Self {
        let stack = thread_stacks::take_of(size)
            .unwrap_or_else(|error| panic!("no stack for a generator or a machine: {error}"));
        let header = Header {
            frame: Frame::passive(),
            raw: Cell::new(MaybeUninit::uninit()),
            element: Cell::new(ptr::null()),
            input: Cell::new(ptr::null_mut()),
            state: Cell::new(State::New),
            ending: Cell::new(false),
            panicking: Cell::new(false),
            borrows: list.is_some(),
            kept: Kept::new(),
            panic: Cell::new(None),
        };
        // SAFETY: by the contract: the region ends the body before the end of the borrowed data.
        // `main` does not unwind.
        let coroutine = unsafe { Coroutine::new_borrowing(stack, header, Body(body)) };
        coroutine.header().raw.set(MaybeUninit::new(coroutine.raw()));
        let header = coroutine.into_header();
        if let Some(list) = list {
            // SAFETY: the entry is at its final place, and leaves when the body is over.
            unsafe { Kept::enter(&raw const (*header.as_ptr()).kept, list, Self::end_kept) };
        }
        Generator { header: Some(header), _good_for: PhantomData, _elements: PhantomData }
    }

    /// The calls of the body: from its last element outwards. Empty before the first and after the
    /// end.
    ///
    /// Costs about as much as [`Coroutine::backtrace`](crate::Coroutine::backtrace).
    pub fn backtrace(&self) -> Backtrace {
        let Some(header) = self.header else { return Backtrace::empty("it has ended") };
        // SAFETY: in place until the end was seen.
        let this = unsafe { header.as_ref() };
        if this.state.get() == State::Running {
            // Its region ends this generator, and this call comes from a destructor in that.
            return Backtrace::empty("it runs");
        }
        // SAFETY: set when the generator was made. The body does not run, and is not another
        // thread's, as this handle is not `Send`.
        unsafe { this.raw.get().assume_init().backtrace() }
    }

    /// Whether the body is in the middle of its work, and neither runs nor is captured.
    pub(crate) fn is_suspended(&self) -> bool {
        // SAFETY: in place until the end was seen.
        self.header.is_some_and(|header| unsafe { header.as_ref() }.state.get() == State::Suspended)
    }

    /// As [`next`](Iterator::next), and lends a place to the body until that suspends or returns.
    #[inline(always)]
    pub(crate) fn next_with(&mut self, input: *mut ()) -> Option<T> {
        self.lend(input);
        let element = self.next();
        self.lend(ptr::null_mut());
        element
    }

    /// To a body that does not run.
    #[inline(always)]
    fn lend(&self, input: *mut ()) {
        if let Some(header) = self.header {
            // SAFETY: in place until the end was seen.
            let header = unsafe { header.as_ref() };
            if matches!(header.state.get(), State::New | State::Suspended) {
                header.input.set(input);
            }
        }
    }

    /// Runs the body on to the next element, if there is one.
    ///
    /// # Safety
    ///
    /// The header is that of a generator that is new or suspended.
    #[inline]
    unsafe fn run(header: NonNull<Header<T>>) -> Step {
        // SAFETY: by the contract the header is in place.
        let this = unsafe { header.as_ref() };
        let outer = chain::top();
        // SAFETY: the top is in place.
        unsafe { this.frame.put_inside(outer) };
        this.state.set(State::Running);
        this.panicking.set(thread::panicking());
        // SAFETY: set when the generator was made; by the contract.
        let step = unsafe { this.raw.get().assume_init().resume() };
        // SAFETY: this frame was the top before, and control is back there.
        unsafe { chain::set_top(outer) };
        this.state.set(State::Suspended);
        if step == Step::Returned {
            this.state.set(State::Over);
            this.kept.leave();
        }
        step
    }

    /// The body is over: frees header and stack, and raises the body's panic.
    #[cold]
    fn finish(&mut self) {
        let Some(header) = self.header.take() else { return };
        // SAFETY: the body is over, and nobody else has a handle: only this value frees it.
        let (panic, stack) = unsafe {
            let panic = header.as_ref().panic.take();
            (panic, Coroutine::from_header(header).into_stack())
        };
        thread_stacks::put(stack);
        if let Some(payload) = panic {
            resume_unwind(payload);
        }
    }

    /// Unwinds a suspended body; `false` if a leak was the only way.
    ///
    /// # Safety
    ///
    /// The body is suspended, and nobody runs it any more.
    #[cold]
    unsafe fn end(header: NonNull<Header<T>>) -> bool {
        // SAFETY: in place, as the body is not over.
        let this = unsafe { header.as_ref() };
        let advice = "ask for all of its elements, or let it borrow nothing (`generator`)";
        if !can_unwind("a generator", this.borrows, advice) {
            return false;
        }
        this.ending.set(true);
        // A body gives nothing any more, so that control does not come back before the end. SAFETY:
        // by the contract.
        while unsafe { Self::run(header) } == Step::Suspended {}
        let panic = this.panic.take();
        this.panic.set(panic.filter(|payload| !payload.is::<Dropped>()));
        true
    }

    /// `Kept::end`.
    ///
    /// # Safety
    ///
    /// `kept` is in the header of a generator in a list, of these elements, that nobody asks any
    /// more.
    unsafe fn end_kept(kept: *const Kept) -> bool {
        // SAFETY: by the contract; the entry was made with an address that is good for the whole.
        let header = unsafe {
            NonNull::new_unchecked(kept.byte_sub(offset_of!(Header<T>, kept)).cast_mut().cast::<Header<T>>())
        };
        // SAFETY: the entries of the list are in place.
        let this = unsafe { header.as_ref() };
        match this.state.get() {
            // Nothing relies on the end of a body that has not started. But such a body must not
            // start now, in a destructor that runs at the region's end: nobody would end that body.
            State::New => {
                this.state.set(State::Late);
                this.kept.leave();
            }
            // SAFETY: by the contract.
            State::Suspended => {
                // SAFETY: by the contract. Its value, if not forgotten, frees the block.
                unsafe { Self::end(header) };
                if let Some(payload) = this.panic.take() {
                    resume_unwind(payload);
                }
            }
            State::Running => return false,
            State::Over | State::Late => this.kept.leave(),
        }
        true
    }
}

/// The function on the stack.
struct Body<F>(F);

impl<T, F: FnOnce(&Yielder<T>)> Main<Header<T>> for Body<F> {
    type Boxed = Body<Box<F>>;

    fn boxed(self) -> Body<Box<F>> {
        Body(Box::new(self.0))
    }

    #[inline(always)]
    fn run(self, header: &Header<T>) {
        // SAFETY: the frame is in place while the body runs, and names the consumer's surroundings.
        unsafe { chain::set_top(ptr::from_ref(header).cast()) };
        let yielder = Yielder { header: NonNull::from(header) };
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| (self.0)(&yielder))) {
            header.panic.set(Some(payload));
        }
    }
}

impl<T> Iterator for Generator<'_, T> {
    type Item = T;

    /// The next element that the body gives, or `None` after its return, then and ever after.
    ///
    /// # Panics
    ///
    /// With the panic that leaves the body.
    // Not inlined, the return after the body's calls is predicted wrongly: twice the time.
    #[inline(always)]
    fn next(&mut self) -> Option<T> {
        let header = self.header?;
        // SAFETY: in place until this value frees the block.
        let state = unsafe { header.as_ref() }.state.get();
        match state {
            State::New | State::Suspended => {
                // SAFETY: the coroutine is new or suspended, and this value's, which is borrowed.
                if unsafe { Self::run(header) } == Step::Suspended {
                    // SAFETY: the body was suspended by `give`, which left the address and does not
                    // use the element any more.
                    return Some(unsafe { header.as_ref().element.get().read() });
                }
            }
            State::Over => {}
            State::Late => return None,
            State::Running => {
                panic!("a generator that runs was asked for another element, or a machine that runs was fed")
            }
        }
        self.finish();
        None
    }
}

impl<T> FusedIterator for Generator<'_, T> {}

impl<T> Drop for Generator<'_, T> {
    fn drop(&mut self) {
        let Some(header) = self.header else { return };
        // SAFETY: in place until this value frees the block.
        let this = unsafe { header.as_ref() };
        match this.state.get() {
            State::New | State::Late => {
                this.kept.leave();
                // SAFETY: the body was never run; this was the only handle.
                drop(unsafe { Coroutine::from_header(header) });
                return;
            }
            // SAFETY: nobody else runs the body.
            State::Suspended if !unsafe { Self::end(header) } => return,
            State::Suspended | State::Over => {}
            // The body itself can't drop this value, as it runs in a borrow of the value.
            State::Running => return count_leak(),
        }
        if thread::panicking() {
            // The panic was reported; to raise it again would end the process.
            std::mem::forget(this.panic.take());
        }
        self.finish();
    }
}

segue_core::impl_debug!([T] Generator<'_, T>, |it| over: it.header.is_none());

segue_core::impl_debug!([T] Yielder<T>);
