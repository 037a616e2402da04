//! The search for the handler of an effect, along the chain of what surrounds the performer.
//!
//! Used by `perform`, and by what a perform without a handler says.

#![allow(unsafe_code)] // Frames of the chain are reached by address.

use std::any::TypeId;

use segue_core::WaitsFor;
use segue_core::chain::{self, Clauses, Frame, Heritage, Kind, Surrounding};

/// What is known of a clause when the program is compiled; the entries of a handler are linked.
#[repr(C)] // What the chain knows comes first.
pub(crate) struct Entry {
    /// Whether this clause or one after it wants the continuation.
    pub all: Clauses,
    /// The type of the effect.
    pub effect: TypeId,
    pub name: fn() -> &'static str,
    /// Whether the clause wants the continuation. Otherwise to perform is to call it.
    pub captures: bool,
    /// The function behind it; its type follows from the effect's and from `captures`.
    pub call: *const (),
    /// Where the clause lies in the list that starts with it.
    pub head: usize,
    /// Where the rest of the list lies.
    pub tail: usize,
    pub next: Option<&'static Entry>,
}

/// A clause of a handler in place.
pub(super) struct Found {
    pub frame: *const Frame,
    pub clause: *const (),
    pub entry: &'static Entry,
}

/// What a search along handlers and generators comes to.
pub(super) enum Search {
    Found(Found),
    /// To a frame of another kind, past which [`find_past`] looks.
    Past(*const Frame),
    Nothing,
}

/// What lies between a performer and a handler.
pub(super) enum Between {
    Nothing,
    /// Contexts, of which this is the outermost.
    Contexts(*const Surrounding),
    /// It was inherited, and this with it, from further out.
    Border(Heritage),
}

/// The first entry of what a frame handles.
///
/// # Safety
///
/// The frame is one of the chain.
#[inline(always)]
unsafe fn entries(frame: &Frame) -> Option<&'static Entry> {
    // SAFETY: handlers alone have clauses, and theirs are entries.
    unsafe { frame.clauses.get().cast::<Entry>().as_ref() }
}

/// The clause for an effect among the entries of a handler, if it can be used.
///
/// # Safety
///
/// `frame` is in the chain, and has these entries.
#[inline(always)]
unsafe fn clause_of(frame: *const Frame, first: &'static Entry, effect: TypeId) -> Option<Found> {
    // SAFETY: it is in place, as the caller promises.
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

/// The innermost clause for an effect that can be used, unless something else than handlers and
/// generators is in front of it. All of it is inlined into the perform: what is rare is elsewhere.
#[inline(always)]
pub(super) fn find(effect: TypeId) -> Search {
    let mut frame = chain::top();
    // SAFETY: the frames from the top outwards are in place.
    while let Some(this) = unsafe { frame.as_ref() } {
        // SAFETY: it is one of the chain.
        if let Some(first) = unsafe { entries(this) } {
            // SAFETY: as above.
            if let Some(found) = unsafe { clause_of(frame, first, effect) } {
                return Search::Found(found);
            }
        } else {
            // Else each handler that is passed costs one jump more.
            std::hint::cold_path();
            if !this.list.get().is_null() {
                return Search::Past(frame);
            }
        }
        frame = this.parent.get();
    }
    Search::Nothing
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
            // SAFETY: it has been come to with its entries.
            clause_of(frame, first, effect).map(|found| (found, between))
        })
    };
    found.ok()
}

/// Goes along the handlers from a frame outwards, those that were inherited last, until `visit` has
/// something. Else what stands in front of the others, if anything does.
///
/// # Safety
///
/// The frame is one of the chain, to which the caller's top leads; there is no switch in `visit`.
unsafe fn outwards<T>(
    mut frame: *const Frame,
    mut visit: impl FnMut(*const Frame, &'static Entry, Between) -> Option<T>,
) -> Result<T, Option<WaitsFor>> {
    let (mut contexts, mut is_border_passed) = (None, false);
    // SAFETY: the frames from the top outwards are in place. Each is one of the chain. What was
    // inherited outlives its heir, which runs here, and was one of a chain.
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
            frame = this.parent.get();
        }
    }
    Err(None)
}

/// The effects of each handler in place, innermost first; and what stands in front of the others,
/// if anything does.
pub(super) fn surroundings() -> (Vec<Vec<&'static str>>, Option<WaitsFor>) {
    let mut handlers = Vec::new();
    let mut add = |first| {
        handlers.push(std::iter::successors(Some(first), |entry: &&Entry| entry.next).map(|it| (it.name)()).collect());
        None::<()>
    };
    // SAFETY: it is the caller's top, and there is no switch.
    let barrier = unsafe { outwards(chain::top(), |_, first, _| add(first)) }.err().flatten();
    (handlers, barrier)
}
