//! The search for the handler of an effect, along the chain of the performer's surroundings.
//!
//! Used by `perform`, and by the message of a perform without a handler.
//!
//! # Far handlers
//!
//! A handler that is passed costs some nanoseconds. So after a few of them the search looks for a
//! remembered answer: a few clauses that were found last are kept, each by the effect and by the
//! frame that was the top. They are good as long as no frame of the thread is put elsewhere, taken
//! out of use, or numbered, which the first search from there does; the chain counts these
//! [changes](chain::changes). So a program pays for the way once that performs again and again from
//! inside of the same handlers. A program that installs its innermost handler anew for each far
//! perform pays each time, and so do all performers on its thread.

#![allow(unsafe_code)] // Frames of the chain are reached by address.

use std::any::TypeId;
use std::cell::Cell;
use std::hash::{Hash, Hasher};
use std::ptr;

use super::Effect;
use super::request::Fail;
use segue_core::WaitsFor;
use segue_core::chain::{self, Clauses, Frame, Heritage, Kind, Surrounding};

/// The compile-time part of a clause; the entries of a handler are linked.
#[repr(C)] // What the chain knows comes first.
pub(crate) struct Entry {
    /// Whether this clause or one behind wants the continuation.
    pub all: Clauses,
    /// The type of the effect.
    pub effect: TypeId,
    /// The same. Two that are at the same place are equal, and to see that the entry's line is
    /// enough: compilers and linkers put most constants that are equal at the same place.
    pub place: &'static TypeId,
    pub name: fn() -> &'static str,
    /// Whether the clause wants the continuation. Otherwise a perform is a call of the clause.
    pub captures: bool,
    /// The function behind the clause; its type follows from the effect's and from `captures`.
    pub call: *const (),
    /// Of the requests for this clause.
    pub fail: Fail,
    /// The place of the clause in the list that starts there.
    pub head: usize,
    /// Where the rest of the list lies.
    pub tail: usize,
    pub next: Option<&'static Entry>,
}

/// A clause of a handler in place.
#[derive(Clone, Copy)]
pub(super) struct Found {
    pub frame: *const Frame,
    pub clause: *const (),
    pub entry: &'static Entry,
}

/// The result of a search along handlers and generators.
pub(super) enum Search {
    Found(Found),
    /// To a frame of another kind, past which [`find_past`] looks.
    Past(*const Frame),
    Nothing,
}

/// The frame between a performer and a handler.
pub(super) enum Between {
    Nothing,
    /// Contexts, of which this is the outermost.
    Contexts(Surrounding<'static>),
    /// It was inherited, and this with it, from further out.
    Border(Heritage),
}

/// The first entry of a frame's clauses.
///
/// # Safety
///
/// The frame is one of the chain.
#[inline(always)]
unsafe fn entries(frame: &Frame) -> Option<&'static Entry> {
    // SAFETY: handlers alone have clauses, and theirs are entries.
    unsafe { frame.clauses().cast::<Entry>().as_ref() }
}

/// The clause for an effect among the entries of a handler, if usable.
///
/// # Safety
///
/// `frame` is in the chain, and has these entries.
#[inline(always)]
unsafe fn clause_of(frame: *const Frame, first: &'static Entry, effect: TypeId) -> Option<Found> {
    // SAFETY: the entry is in place, as the caller promises.
    let (mut list, mut next) = (unsafe { (*frame).list.get() }, Some(first));
    while let Some(entry) = next {
        if entry.effect == effect && (!entry.captures || !std::thread::panicking()) {
            return Some(Found { frame, clause: list.wrapping_byte_add(entry.head), entry });
        }
        list = list.wrapping_byte_add(entry.tail);
        next = entry.next;
    }
    None
}

/// The number of frames that a search passes before looking at the remembered clauses.
const NEAR: usize = 4;

/// The clause for an effect of the innermost frame, if that has a usable one; and whether the
/// clause captures. Not one that does and has the effect's type at another place than the
/// performer.
///
/// To be asked before [`find`], at the perform: there the result stays in registers, and more code
/// would keep the function that performs from being inlined itself.
///
/// # Safety
///
/// `top` is the chain's.
#[inline(always)]
pub(super) unsafe fn find_innermost<E: Effect>(top: *const Frame) -> Option<(Found, bool)> {
    // SAFETY: the innermost frame is in place, and has these entries.
    let (mut list, mut next) = unsafe {
        let frame = top.as_ref()?;
        let first = frame.clauses().cast::<Entry>().as_ref()?;
        (frame.list.get(), Some(first))
    };
    let found = |list: *const (), entry: &'static Entry| Found {
        frame: top,
        clause: list.wrapping_byte_add(entry.head),
        entry,
    };
    loop {
        let entry = next?;
        if entry.captures {
            if ptr::eq(entry.place, const { &TypeId::of::<E>() }) {
                return (!std::thread::panicking()).then(|| (found(list, entry), true));
            }
        // The compiler knows the second with a known handler.
        } else if entry.effect == TypeId::of::<E>() {
            return Some((found(list, entry), false));
        }
        // The first one is looked at in a straight line.
        std::hint::cold_path();
        if entry.captures && entry.effect == TypeId::of::<E>() {
            // This one comes before those behind, and `find` sees that.
            return None;
        }
        list = list.wrapping_byte_add(entry.tail);
        next = entry.next;
    }
}

/// The innermost clause for an effect that is usable, unless something else than handlers and
/// generators is in front.
///
/// Knows the effect by its type: `TypeId`s are passed by address, so that each perform would write
/// one down.
#[inline(never)]
pub(super) fn find<E: Effect>() -> Search {
    let effect = TypeId::of::<E>();
    match pass(chain::top(), NEAR, effect) {
        Ok(search) => search,
        Err(frame) => find_far(frame, effect),
    }
}

/// Looks at so many frames, from one on to which the top leads, or null. The frame behind them, if
/// nothing was found.
#[inline(always)]
fn pass(mut frame: *const Frame, most: usize, effect: TypeId) -> Result<Search, *const Frame> {
    for _ in 0..most {
        // SAFETY: the frames from the top outwards are in place.
        let Some(this) = (unsafe { frame.as_ref() }) else { return Ok(Search::Nothing) };
        // SAFETY: the frame is one of the chain.
        if let Some(search) = unsafe { look_at(frame, this, effect) } {
            return Ok(search);
        }
        frame = this.parent();
    }
    Err(frame)
}

/// The result of a search that ends at a frame.
///
/// # Safety
///
/// The frame is one of the chain, and `this` a reference to it: that is good for the frame alone,
/// and not for the structure that begins with the frame.
#[inline(always)]
unsafe fn look_at(frame: *const Frame, this: &Frame, effect: TypeId) -> Option<Search> {
    // SAFETY: by the contract.
    if let Some(first) = unsafe { entries(this) } {
        // SAFETY: as above.
        return unsafe { clause_of(frame, first, effect) }.map(Search::Found);
    }
    // Else each handler that is passed costs one jump more.
    std::hint::cold_path();
    if this.list.get().is_null() { None } else { Some(Search::Past(frame)) }
}

/// A clause that was found, and the condition for its use.
#[derive(Clone, Copy)]
struct Known {
    changes: u64,
    /// The top of the chain at the search.
    top: u64,
    effect: TypeId,
    frame: *const Frame,
    clause: *const (),
    entry: Option<&'static Entry>,
}

impl Known {
    const NOTHING: Self =
        Self { changes: 0, top: 0, effect: TypeId::of::<()>(), frame: ptr::null(), clause: ptr::null(), entry: None };
}

/// How many clauses a thread remembers. Two that fall on the same place displace each other.
const PLACES: usize = 8;

segue_core::plain_thread_local! {
    static KNOWN: [Cell<Known>; PLACES] = [const { Cell::new(Known::NOTHING) }; PLACES];
}

/// Where a clause is remembered.
fn place(top: u64, effect: TypeId) -> usize {
    /// Takes a type's hash input, which is a hash already.
    struct Last(u64);
    impl Hasher for Last {
        fn write(&mut self, bytes: &[u8]) {
            self.0 = bytes.iter().fold(self.0, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)));
        }

        fn write_u64(&mut self, hash: u64) {
            self.0 = hash;
        }

        fn finish(&self) -> u64 {
            self.0
        }
    }
    let mut last = Last(0);
    effect.hash(&mut last);
    (last.finish() ^ top) as usize % PLACES
}

/// As [`find`], from a frame behind some without a clause for the effect.
fn find_far(frame: *const Frame, effect: TypeId) -> Search {
    // SAFETY: the innermost frame is in place.
    let Some(top) = (unsafe { chain::top().as_ref() }) else { return Search::Nothing };
    // In this order, as the first number that a frame is given counts as a change.
    let (top, changes) = (top.id(), chain::changes());
    // With a thread for each coroutine, other threads change frames of this chain. A model's
    // threads share one of the system's.
    let remembers = cfg!(not(any(threads, loom)));
    KNOWN.with(|known| {
        let remembered = &known[place(top, effect)];
        let it = remembered.get();
        if remembers
            && it.changes == changes
            && it.top == top
            && it.effect == effect
            && let Some(entry) = it.entry
            && (!entry.captures || !std::thread::panicking())
        {
            // The top is the same frame as then, and so leads to the same frame, which is in use.
            return Search::Found(Found { frame: it.frame, clause: it.clause, entry });
        }
        let search = pass(frame, usize::MAX, effect).unwrap_or(Search::Nothing);
        // A thread that panics passes clauses that can be used again later.
        if let Search::Found(Found { frame, clause, entry }) = search
            && !std::thread::panicking()
        {
            remembered.set(Known { changes, top, effect, frame, clause, entry: Some(entry) });
        }
        search
    })
}

/// As [`find`], from a frame on, past whatever is there.
///
/// # Safety
///
/// The frame is one of the chain, to which the caller's top leads.
#[cold]
pub(super) unsafe fn find_past(frame: *const Frame, effect: TypeId) -> Option<(Found, Between)> {
    // SAFETY: by the contract.
    let found = unsafe {
        outwards(frame, |frame, first, between| {
            // SAFETY: the search has come to this frame with its entries.
            clause_of(frame, first, effect).map(|found| (found, between))
        })
    };
    found.ok()
}

/// Goes along the handlers from a frame outwards, those that were inherited last, until `visit` has
/// something. Else the obstacle in front of the others, if there is one.
///
/// # Safety
///
/// The frame is one of the chain, to which the caller's top leads; there is no switch in `visit`.
unsafe fn outwards<T>(
    mut frame: *const Frame,
    mut visit: impl FnMut(*const Frame, &'static Entry, Between) -> Option<T>,
) -> Result<T, Option<WaitsFor>> {
    let (mut contexts, mut is_border_passed) = (None, false);
    // SAFETY: the frames from the top outwards are in place. Each is one of the chain. An inherited
    // handler outlives its heir, which runs here, and was one of a chain.
    unsafe {
        while let Some(this) = frame.as_ref() {
            match entries(this) {
                // Not inherited.
                Some(_) if is_border_passed => {}
                Some(first) => {
                    let between = contexts.map_or(Between::Nothing, Between::Contexts);
                    if let Some(found) = visit(frame, first, between) {
                        return Ok(found);
                    }
                }
                None => match Frame::kind(frame) {
                    Kind::Passive | Kind::Shared(_) => {}
                    Kind::Context(context) => contexts = Some(context),
                    Kind::Barrier(barrier) => return Err(Some(barrier.what())),
                    Kind::Inherited(inherited) => {
                        is_border_passed = true;
                        let mut heritage = inherited.heritage();
                        while let Some((frame, further)) = heritage.split() {
                            // One without clauses is possible, and of no use.
                            let found = entries(&*frame).and_then(|it| visit(frame, it, Between::Border(further)));
                            if let Some(found) = found {
                                return Ok(found);
                            }
                            heritage = further;
                        }
                    }
                },
            }
            frame = this.parent();
        }
    }
    Err(None)
}

/// The effects of each handler in place, innermost first; and the obstacle in front of the others,
/// if there is one.
pub(super) fn surroundings() -> (Vec<Vec<&'static str>>, Option<WaitsFor>) {
    let mut handlers = Vec::new();
    let mut add = |first| {
        handlers.push(std::iter::successors(Some(first), |entry: &&Entry| entry.next).map(|it| (it.name)()).collect());
        None::<()>
    };
    // SAFETY: it is the top of the running computation, and there is no switch.
    let barrier = unsafe { outwards(chain::top(), |_, first, _| add(first)) }.err().flatten();
    (handlers, barrier)
}
