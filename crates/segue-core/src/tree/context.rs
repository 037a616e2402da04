//! The cancellation tree: contexts that are cancelled from the outside, and their members' view.
//!
//! Used by scopes and runtimes, which own contexts, by `token.rs`, and by triggers, which ask
//! before they wait.
//!
//! # The idea
//!
//! Cancellation is a value. A context is a flag with a list of its members: the fibers that have
//! waited in it, and the contexts nested there. The canceller sets the flag of the context and of
//! everything below, and asks each member to look (an *interrupt*). The member's own thread does
//! the rest: a suspended fiber leaves its wait, a running one finds the flag at its next. Until
//! that thread has looked, a server that claims the fiber's wait finds the flag and is refused
//! (`contract/refusal.rs`).
//!
//! # States
//!
//! A context is open, then cancelled, for ever: the flag is set under the context's lock and never
//! cleared. A nested context that is made under a cancelled one is born cancelled. A context is
//! *walked* when all contexts below are cancelled too. A canceller may find a context cancelled and
//! not walked, because another canceller is at work; then the second one goes through the context
//! as well. So when any `cancel` has returned, all flags below are set. Each canceller that comes
//! before that walks the context again; later ones do not.
//!
//! `context/finishing.rs` has the request that comes before a cancellation, and its grace.
//!
//! # Other cancellers
//!
//! **A deadline** is a canceller that stands among the timers of the caller's scheduler (`token.rs`
//! puts the deadline there and takes it out again). A timer fires only when its worker looks at the
//! clock, and a fiber that computes prevents that. So each context also keeps the earliest deadline
//! of its own and those around it, with its clock. A fiber that checks for cancellation also checks
//! whether the context [is overdue](Context::is_cancelled_or_overdue), and cancels an overdue one,
//! as the timer would have. Timer and fiber may both do so; the first one sets the flag, and both
//! have the same reason. The deadline may have come from a context further out. Then the fiber
//! cancels only its own context, with everything below; the outer one is cancelled by its own
//! timer, or by a fiber that checks there.
//!
//! **A budget** is the deadline of a shield. The shield is a context in no tree, which the timers
//! cancel. Other deadlines end at a shield that is further in; a budget goes on, since each shield
//! inside has that budget, too, if not a smaller one. Each context inside knows the smallest, for
//! shields to come.
//!
//! **A follower** is the context of a closure that runs under a token: nested in the caller's, as
//! every other, and cancelled with the token's too. Its entry in the token's list lies in the frame
//! of [`run_following`](Context::run_following) and is taken out, under the token's lock, before
//! that frame ends. The canceller counts the context up under the same lock, so that the context
//! may outlive the frame and is cancelled with nothing inside. Like a fiber, a follower joins the
//! list first and looks at the flag second: so the walk finds the follower, or the follower sees
//! the flag.
//!
//! # A captured computation takes its contexts along
//!
//! A computation that an effect or a generator captures (see `chain/mod.rs`) is inside of its own
//! contexts: the body of a `timeout`, say. They belong to the computation, and not to the fiber of
//! the capture. So between the capture and the resume they are in no tree:
//!
//! ```text
//!   NESTED in the performer's context --leave: by the performer, before it suspends--> DETACHED
//!   DETACHED --come back: by the performer, when it goes on--> NESTED in the context of whatever resumes it
//! ```
//!
//! Only the outermost of them is nested in something else, so only that one moves; its
//! *surrounding*, a frame of the chain, has the context to go back to. A detached context is
//! cancelled only by its own deadline and tokens. The thread that the computation stays on does all
//! of this. Other threads go through the lists' locks: a canceller of the old surroundings may have
//! just taken note of a context that leaves, and cancels it, too, like a slightly earlier one. A
//! context that comes back joins the new surroundings' list first and looks at their flag second,
//! as a fiber does.
//!
//! A context inherits the deadline and the extent around at birth. That would be wrong for a
//! context that moves, and for those nested inside, on any thread. These look them up in a
//! [`Beyond`] instead: the moving context shares that with all contexts nested inside, and rewrites
//! it at each move.
//!
//! **The race to fear**: a fiber that looks at the flag just before the walk sets it, and suspends
//! just after the walk has passed. This can't happen: a fiber joins the member list before the
//! look. A fiber that joins before the walk is interrupted by the walk. For a later one, the lock
//! of its joining was released by the walk, which had set the flag.
//!
//! # Orderings
//!
//! The flag is stored under the lock (release by the unlock) and read after the lock was taken to
//! join (acquire). Plain reads elsewhere are hints; the next wait settles their truth; they
//! acquire, so that the canceller's earlier work is seen afterwards. `walked` is stored after all
//! flags below (release) and read by other cancellers (acquire), which may then return without a
//! look at these.
#![allow(unsafe_code)] // Members are reached by address: a fiber's header, a nested context.

mod finishing;
mod listing;
mod surrounding;

use crate::chain::deferred_wakers::Batch;
use crate::chain::top;
use crate::contract::current;
use crate::contract::fiber::{Fiber, Wake};
use crate::contract::slots::{ContextHead, FamilyId};
use crate::primitives::at_end::at_end;
use crate::primitives::atomic::{AtomicBool, AtomicPtr, Ordering};
use crate::primitives::impl_debug::impl_debug;
use crate::primitives::list::{Linked, Links, List};
use crate::primitives::lock::Lock;
use crate::timers::Timers;
use crate::timers::expiry::{Expires, Expiry};
use crate::tree::cancelled::{Cancelled, Overran, Reason, TimedOut};
use crate::tree::extent::{Extent, Extents};
use crate::tree::membership::leave_context;
use std::cell::Cell;
use std::mem::{MaybeUninit, offset_of};
use std::ptr::{self, NonNull};
use std::sync::{Arc, OnceLock};
use std::time::Instant;
use surrounding::Entered;

/// The context is cancelled.
const CANCELLED: u8 = ContextHead::CANCELLED;
/// There may be a deadline, its own or one around.
const HURRIES: u8 = 2;
/// Those inside are asked to finish.
const ASKED: u8 = 4;
/// There is, or was, an entry among the timers that ends its grace.
const GRACE: u8 = 8;

/// One node of the tree.
#[repr(C)] // The head comes first.
pub(crate) struct Context {
    /// Its flags are [`CANCELLED`], [`HURRIES`], [`ASKED`], [`GRACE`]. Every operation that can
    /// wait reads them.
    head: ContextHead,
    /// Set after the flag, when the flags of all below are set too.
    walked: AtomicBool,
    /// Whether made inside of a shield.
    shielded: bool,
    /// Whether this is a shield: in no tree then, and a stand-in for its surroundings.
    is_shield: bool,
    /// Whether this is a token's own: in no tree, and inside of nothing.
    stands_alone: bool,
    /// The inheritance of those inside, its own deadline and extent included.
    around: Around,
    /// Set before the flag, if ever.
    reason: OnceLock<Arc<Reason>>,
    members: Lock<Members>,
    /// Of a scope's context: the fiber or thread that runs the body. Else null.
    owner: AtomicPtr<()>,
    /// Set at birth, cleared when the context ends; the parent outlives this context.
    parent: Cell<*const Context>,
    /// Belongs to the parent's lock.
    links: Links<Context>,
    /// For the timers, when its deadline has come.
    expiry: Expiry,
}

// None has the address 1, which says that a claim was refused (`contract/refusal.rs`).
const _: () = assert!(align_of::<Context>() > 1);

/// A point in time, and its clock.
type Due = (Instant, Timers);

/// The end of a shield, and its giver.
pub(crate) struct Budget {
    due: Due,
    overran: Arc<Reason>,
}

/// The deadlines and extents that something is inside of.
#[derive(Clone, Default)]
struct Around {
    /// The earliest, up to the next context that may move.
    deadline: Option<Due>,
    /// The smallest of the shields around, however far out.
    budget: Option<Arc<Budget>>,
    /// Up to the same one; see `extent.rs`.
    extents: Option<Arc<Extents>>,
    /// The surroundings of that one.
    further: Option<Arc<Beyond>>,
}

/// The surroundings of a context that may move, or of a shield.
struct Beyond {
    around: Lock<Around>,
    /// Whether this is a shield: then the deadlines do not count.
    shield: bool,
}

impl Beyond {
    fn around(around: Around, shield: bool) -> Around {
        let budget = around.budget.clone();
        Around { budget, further: Some(Arc::new(Self { around: Lock::new(around), shield })), ..Around::default() }
    }
}

struct Members {
    fibers: List<Fiber>,
    nested: List<Context>,
    followers: List<Follower>,
}

/// A context that is cancelled with another one without being nested there. The follower lies in
/// the frame that runs inside.
struct Follower {
    context: Arc<Context>,
    /// Belongs to the lock of the one that is followed.
    links: Links<Follower>,
}

impl Linked for Follower {
    fn links(&self) -> &Links<Self> {
        &self.links
    }
}

impl Linked for Context {
    fn links(&self) -> &Links<Self> {
        &self.links
    }
}

// SAFETY: `parent` is read and written by the thread that makes and ends the context alone; `links`
// belongs to the parent's lock; the rest is atomic or locked.
unsafe impl Sync for Context {}
// SAFETY: as above; the last owner of an ended context only frees the memory.
unsafe impl Send for Context {}

impl Context {
    /// A context that nothing above can cancel.
    pub(crate) fn root() -> Arc<Self> {
        Self::new(Around::default(), false).share()
    }

    /// As [`root`](Context::root), of a token: code that enters is shielded from all others.
    pub(crate) fn alone() -> Arc<Self> {
        let mut context = Self::new(Around::default(), true);
        context.stands_alone = true;
        context.share()
    }

    /// The stand-in for the caller's context in a shield, inside of an extent or a budget: nothing
    /// above can cancel that.
    #[inline]
    pub(crate) fn shield() -> Option<Arc<Self>> {
        let may_be_inside = |Self { around, .. }: &Self| {
            around.extents.is_some() || around.further.is_some() || around.budget.is_some()
        };
        if innermost(may_be_inside).unwrap_or(false) { Self::shield_inside(None) } else { None }
    }

    /// As [`shield`](Self::shield), with a budget of its own, if that is smaller.
    #[cold]
    fn shield_inside(own: Option<Budget>) -> Option<Arc<Self>> {
        let mut around = innermost(|context| {
            let budget = context.around.budget.clone();
            if context.has_extents() {
                Beyond::around(context.around.clone(), true)
            } else {
                Around { budget, ..Around::default() }
            }
        })
        .unwrap_or_default();
        let is_smaller = |own: &Budget| around.budget.as_ref().is_none_or(|budget| own.due.0 < budget.due.0);
        if let Some(own) = own.filter(is_smaller) {
            around.budget = Some(Arc::new(own));
        }
        around.deadline = around.budget.as_ref().map(|budget| budget.due.clone());
        let is_needed = around.budget.is_some() || around.further.is_some();
        is_needed.then(|| {
            let mut shield = Self::new(around, true);
            shield.is_shield = true;
            shield.share()
        })
    }

    /// Has the timers cancel this shield when its budget is used up, until the answer is dropped.
    #[inline]
    fn limit(self: &Arc<Self>) -> Option<impl Drop> {
        self.around.budget.as_ref().map(|budget| self.limit_by(budget))
    }

    #[cold]
    #[inline(never)]
    fn limit_by(self: &Arc<Self>, budget: &Budget) -> impl Drop + use<> {
        let (at, timers) = budget.due.clone();
        let is_past = at <= timers.now();
        if is_past {
            self.cancel_as_due();
        }
        let key = (!is_past).then(|| timers.expire_at(at, Arc::clone(self)));
        at_end(move || {
            if let Some(key) = key {
                timers.remove(key);
            }
        })
    }

    /// Shares a new context. Where no memory is left the process ends, and so nothing is dropped
    /// here: the one drop of contexts is that of their last owner, and is inlined there.
    #[inline(always)]
    fn share(self) -> Arc<Self> {
        let context = Arc::new(MaybeUninit::new(self));
        // SAFETY: it was written as a whole, just now.
        unsafe { context.assume_init() }
    }

    #[inline(always)] // Else a context is put together elsewhere, and copied.
    fn new(around: Around, shielded: bool) -> Self {
        Self {
            head: ContextHead::new(if around.deadline.is_some() || around.further.is_some() { HURRIES } else { 0 }),
            walked: AtomicBool::new(false),
            expiry: Expiry::of::<Self>(),
            owner: AtomicPtr::new(ptr::null_mut()),
            reason: OnceLock::new(),
            around,
            shielded,
            is_shield: false,
            stands_alone: false,
            members: Lock::new(Members { fibers: List::new(), nested: List::new(), followers: List::new() }),
            parent: Cell::new(ptr::null()),
            links: Links::new(),
        }
    }

    /// A context inside of the caller's. This must [`end`](Context::end) before that does.
    pub(crate) fn nested() -> Arc<Self> {
        Self::nest(None, None)
    }

    /// As [`nested`](Context::nested), with an extent, or a deadline, which checks for cancellation
    /// [notice](Context::is_cancelled_or_overdue); the caller arranges its cancellation at that
    /// time.
    pub(crate) fn nest(deadline: Option<Due>, extent: Option<Extent>) -> Arc<Self> {
        // SAFETY: the running fiber is inside of the parent, which is alive therefore.
        let parent = unsafe { Self::of_head(current::context()).as_ref() };
        let mut around = parent.map(|parent| parent.around.clone()).unwrap_or_default();
        if !top().is_null() {
            // The caller may be captured along.
            around = Beyond::around(around, false);
        }
        if let Some(extent) = extent {
            around.extents = Some(Arc::new(Extents { innermost: extent, around: around.extents }));
        }
        // By the clock of the one that is new, if there are two.
        around.deadline = match (deadline, around.deadline) {
            (Some(new), Some(around)) => Some(if around.0 < new.0 { around } else { new }),
            (new, around) => new.or(around),
        };
        let context = Self::new(around, is_shielded()).share();
        if let Some(parent) = parent {
            // SAFETY: the context is alive, and outlives all that is made inside, or is left
            // before.
            if let Some(reason) = unsafe { context.hang_in(parent) } {
                context.mark(reason);
            }
        }
        context
    }

    fn has_extents(&self) -> bool {
        self.any_around(|around| around.extents.is_some())
    }

    /// Whether those inside are inside of this, too.
    pub(crate) fn is_inside(&self, extent: Extent) -> bool {
        self.any_around(|around| around.extents.as_ref().is_some_and(|extents| extents.contain(extent)))
    }

    /// Asks the surroundings, and then those further out.
    fn any_around(&self, mut is_it: impl FnMut(&Around) -> bool) -> bool {
        let mut around = self.around.clone();
        loop {
            if is_it(&around) {
                return true;
            }
            let Some(beyond) = around.further else { return false };
            around = beyond.around.lock().clone();
        }
    }

    /// Becomes nested in `parent`. Answers with its reason if that was cancelled before.
    ///
    /// # Safety
    /// The context is nested in nothing, and [`end`](Context::end)s or is detached before the
    /// parent ends. This is the creator's thread.
    unsafe fn hang_in(self: &Arc<Self>, parent: &Context) -> Option<Option<Arc<Reason>>> {
        self.parent.set(parent);
        let mut members = parent.members.lock();
        // SAFETY: the context is kept alive and linked until `end`, which takes it out. Its address
        // comes from the `Arc` and not from a reference: `cancel` makes another `Arc` of that.
        unsafe { members.nested.push_back(NonNull::new_unchecked(Arc::as_ptr(self).cast_mut())) };
        let flags = parent.head.flags.load(Ordering::Acquire);
        if flags & ASKED != 0 {
            self.head.flags.fetch_or(ASKED, Ordering::Relaxed);
        }
        (flags & CANCELLED != 0).then(|| parent.reason.get().cloned())
    }

    /// Leaves the tree. Called by its maker, when nothing is inside any more or at a move; again
    /// has no effect.
    pub(crate) fn end(&self) {
        // SAFETY: the parent outlives its nested contexts.
        if let Some(parent) = unsafe { self.parent.replace(ptr::null()).as_ref() } {
            let mut members = parent.members.lock();
            // SAFETY: this context is in the parent's list since `nested`.
            unsafe { members.nested.remove(NonNull::from(self)) };
        }
    }

    /// What the slots of fibers and jobs have of it.
    #[inline]
    pub(crate) fn head_of(this: &Arc<Self>) -> *const ContextHead {
        Arc::as_ptr(this).cast()
    }

    /// The opposite of [`head_of`](Self::head_of), to be followed while the context is alive. Null
    /// stays null.
    #[inline]
    pub(crate) fn of_head(head: *const ContextHead) -> *const Self {
        head.cast()
    }

    /// The context at this address, which came from one that has an owner; `None` for null.
    ///
    /// # Safety
    /// The context is alive.
    pub(crate) unsafe fn from_raw(context: *const Self) -> Option<Arc<Self>> {
        // SAFETY: as the caller promises; every context is made inside of an `Arc`.
        (!context.is_null()).then(|| unsafe {
            Arc::increment_strong_count(context);
            Arc::from_raw(context)
        })
    }

    /// Runs `f` inside of this context.
    pub(crate) fn enter<R>(self: &Arc<Self>, f: impl FnOnce() -> R) -> R {
        enter(Some(self), f)
    }

    /// The caller is the owner of the scope that this is the context of. Before anybody else is
    /// inside.
    pub(crate) fn set_owner(&self) {
        self.owner.store(caller().cast_mut(), Ordering::Relaxed);
    }

    /// Whether the caller has called [`set_owner`](Context::set_owner). A body that was captured,
    /// and goes on elsewhere, is not its scope's owner any more.
    pub(crate) fn is_owned_by_caller(&self) -> bool {
        ptr::eq(self.owner.load(Ordering::Relaxed), caller())
    }

    #[inline]
    pub(crate) fn is_cancelled(&self) -> bool {
        self.head.is_cancelled()
    }

    /// Whether cancelled, or past its deadline, or one around. Then the context is cancelled, if
    /// its timer has not fired yet: a fiber that computes keeps its own worker from firing.
    #[inline]
    fn is_cancelled_or_overdue(&self) -> bool {
        self.head.flags.load(Ordering::Acquire) != 0 && (self.is_cancelled() || self.cancel_if_overdue())
    }

    fn cancel_if_overdue(&self) -> bool {
        match self.around.further {
            None => self.around.deadline.as_ref().is_some_and(|due| self.cancel_if_past(due)),
            Some(_) => self.cancel_if_any_past(),
        }
    }

    #[cold]
    fn cancel_if_any_past(&self) -> bool {
        let mut is_past = false;
        self.any_around(|around| {
            is_past = around.deadline.as_ref().is_some_and(|due| self.cancel_if_past(due));
            is_past || around.further.as_ref().is_some_and(|beyond| beyond.shield)
        });
        is_past
    }

    #[cold]
    fn cancel_if_past(&self, (at, timers): &Due) -> bool {
        let past = *at <= timers.now();
        if past {
            self.cancel_as_due();
        }
        past
    }

    /// Cancels the context because its deadline has come, or one around.
    #[cold]
    #[inline(never)]
    pub(crate) fn cancel_as_due(&self) {
        let Around { deadline, budget, .. } = &self.around;
        self.cancel(Some(match (deadline, budget) {
            (Some(deadline), Some(budget)) if deadline.0 >= budget.due.0 => Arc::clone(&budget.overran),
            _ => Reason::new(TimedOut),
        }));
    }

    /// The error of a wait in this context.
    pub(crate) fn error(&self) -> Cancelled {
        Cancelled::because(self.reason.get().cloned())
    }

    /// Sets the flag, and the reason first. Answers whether the flag was set already.
    fn mark(&self, reason: Option<Arc<Reason>>) -> bool {
        if self.is_cancelled() {
            return true;
        }
        if let Some(reason) = reason {
            // The caller holds the lock, or is alone: this is the first to mark.
            let _ = self.reason.set(reason);
        }
        self.head.flags.fetch_or(CANCELLED, Ordering::Release);
        false
    }

    /// Cancels this context and all below, for `reason`. Again has no effect. Never waits.
    ///
    /// After the call all of them are marked, also if somebody else has begun to cancel them and is
    /// not done yet.
    pub(crate) fn cancel(&self, reason: Option<Arc<Reason>>) {
        // Foreign code runs when this is dropped, after all are marked.
        let _batch = Batch::new();
        self.walk(|context, below| context.cancel_members(reason.clone(), below))
            .iter()
            .map(|context| &**context)
            .chain([self])
            .for_each(|context| context.walked.store(true, Ordering::Release));
    }

    /// Sets the flag, interrupts the fibers inside, and notes the other contexts to cancel.
    fn cancel_members(&self, reason: Option<Arc<Reason>>, below: &mut Vec<Arc<Self>>) {
        let members = self.members.lock();
        let again = self.mark(reason);
        if again && self.walked.load(Ordering::Acquire) {
            return;
        }
        if !again {
            members.fibers.iter().for_each(|fiber| {
                // SAFETY: the fiber is a member, and this is its context's lock.
                unsafe { Fiber::wake(fiber, Wake::Interrupt) };
            });
        }
        self.list_below(&members, below);
    }

    /// Has each context looked at, this one first, and answers with those that the looks have noted
    /// as below. With a list and not by recursion: nesting has no bound.
    fn walk(&self, mut look: impl FnMut(&Self, &mut Vec<Arc<Self>>)) -> Vec<Arc<Self>> {
        let mut below = Vec::new();
        look(self, &mut below);
        let mut walked = 0;
        while let Some(context) = below.get(walked).cloned() {
            look(&context, &mut below);
            walked += 1;
        }
        below
    }

    /// Notes the contexts to walk after this one.
    #[inline(always)]
    fn list_below(&self, members: &Members, below: &mut Vec<Arc<Self>>) {
        members.nested.iter().for_each(|nested| {
            // SAFETY: one that is linked is alive.
            below.extend(unsafe { Self::from_raw(nested.as_ptr()) });
        });
        members.followers.iter().for_each(|follower| {
            // SAFETY: a follower that is linked is in place.
            below.push(Arc::clone(&unsafe { follower.as_ref() }.context));
        });
    }

    /// Runs `f` in a context of its own, inside of the caller's, that is cancelled with this one
    /// too.
    pub(crate) fn run_following<T>(&self, f: impl FnOnce() -> T) -> T {
        let follower = Follower { context: Self::nested(), links: Links::new() };
        let mut members = self.members.lock();
        // SAFETY: the follower lies in this frame, and is taken out before that ends.
        unsafe { members.followers.push_back(NonNull::from(&follower)) };
        let late = self.is_finishing();
        drop(members);
        let _unfollow = at_end(|| {
            let mut members = self.members.lock();
            // SAFETY: the follower is in this list since its making.
            unsafe { members.followers.remove(NonNull::from(&follower)) };
            drop(members);
            follower.context.end();
        });
        if late {
            self.pass_on_to(&follower.context);
        }
        follower.context.enter(f)
    }

    /// Runs `f` where nothing but this context cancels its waits. Mostly nothing around shows in a
    /// shield, and a context that stands alone is entered directly: that costs as little.
    #[inline]
    pub(crate) fn run_shielded<R>(self: &Arc<Self>, f: impl FnOnce() -> R) -> R {
        match Self::shield() {
            None if self.stands_alone && top().is_null() => self.enter(f),
            shield => run_in_shield(shield, || self.run_following(f)),
        }
    }

    /// Treats a late follower as this context was treated.
    #[cold]
    fn pass_on_to(&self, follower: &Self) {
        if self.is_cancelled() {
            follower.cancel(self.reason.get().cloned());
        } else {
            follower.ask_to_finish();
        }
    }

    /// # Safety
    /// The fiber is in no list, stays in place until its removal, and calls this itself.
    pub(crate) unsafe fn add_member(&self, fiber: NonNull<Fiber>) {
        // SAFETY: as the caller promises.
        unsafe { self.members.lock().fibers.push_back(fiber) };
        if self.head.flags.load(Ordering::Relaxed) & HURRIES != 0 {
            // SAFETY: the fiber is the running one, which calls this.
            self.hurry(unsafe { fiber.as_ref() });
        }
    }

    /// A member that goes by other timers than those of a deadline around is to be cancelled in
    /// time although the worker that has set the deadline is away.
    fn hurry(&self, member: &Fiber) {
        let watch = |around: &Around| {
            if let Some((at, timers)) = &around.deadline
                && timers.has_looks()
                && timers.address() != member.scheduler().timers().address()
            {
                timers.watch(*at);
            }
            false
        };
        if self.around.further.is_some() {
            self.any_around(watch);
        } else {
            watch(&self.around);
        }
    }

    /// As [`add_member`](Context::add_member), unless the context is cancelled, or asked, if that
    /// is the subject; answers whether the fiber was added.
    ///
    /// # Safety
    /// As for `add_member`.
    pub(crate) unsafe fn add_member_unless(&self, is_soft: bool, fiber: NonNull<Fiber>) -> bool {
        let mut members = self.members.lock();
        let open = if is_soft { !self.is_finishing() } else { !self.is_cancelled() };
        if open {
            // SAFETY: as the caller promises.
            unsafe { members.fibers.push_back(fiber) };
        }
        open
    }

    /// # Safety
    /// The fiber is a member of this context.
    pub(crate) unsafe fn remove_member(&self, fiber: NonNull<Fiber>) {
        // SAFETY: as the caller promises.
        unsafe { self.members.lock().fibers.remove(fiber) };
    }
}

/// An address that the running fiber, or the plain thread, has alone during its run.
fn caller() -> *const () {
    let fiber = current::current();
    if fiber.is_null() { current::CONTEXT.with(|here| ptr::from_ref(here).cast()) } else { fiber.cast() }
}

/// Whether the caller, in a runtime's context, is inside of a shield.
pub(crate) fn is_shielded() -> bool {
    innermost(|context| context.shielded).unwrap_or(current::family() != FamilyId::NONE)
}

/// Calls `f` with the context that the caller is in, if any.
#[inline]
pub(crate) fn innermost<R>(f: impl FnOnce(&Context) -> R) -> Option<R> {
    // SAFETY: the running fiber is inside of the context, which is alive therefore.
    unsafe { Context::of_head(current::context()).as_ref() }.map(f)
}

/// Whether the caller is inside of something that can be cancelled, has a deadline, or is shielded.
/// Never waits.
#[must_use]
#[inline]
pub fn can_be_cancelled() -> bool {
    innermost(|_| ()).is_some()
}

/// Whether the caller's cancellation was requested. Never waits.
#[must_use]
#[inline]
pub fn is_cancelled() -> bool {
    innermost(Context::is_cancelled_or_overdue).unwrap_or(false)
}

/// As [`check`], without the preemption point: for a fiber that has just been chosen to begin.
#[inline]
pub(crate) fn look() -> Result<(), Cancelled> {
    let asked = |context: &Context| if context.is_cancelled_or_overdue() { Err(context.error()) } else { Ok(()) };
    innermost(asked).unwrap_or(Ok(()))
}

/// Runs `f` where the caller's cancellation does not show.
#[inline]
pub(crate) fn shielded<R>(f: impl FnOnce() -> R) -> R {
    run_in_shield(Context::shield(), f)
}

/// As [`shielded`], until `at` by these timers.
pub(crate) fn shielded_until<R>(at: Instant, timers: Timers, overran: Overran, f: impl FnOnce() -> R) -> R {
    let own = Budget { due: (at, timers), overran: Reason::new(overran) };
    run_in_shield(Context::shield_inside(Some(own)), f)
}

fn run_in_shield<R>(shield: Option<Arc<Context>>, f: impl FnOnce() -> R) -> R {
    let _limit = shield.as_ref().and_then(Context::limit);
    enter(shield.as_ref(), f)
}

/// Runs `f` inside of `context`, or shielded without one, and outside again after any end of `f`.
#[inline]
pub(crate) fn enter<R>(context: Option<&Arc<Context>>, f: impl FnOnce() -> R) -> R {
    if !top().is_null() {
        let mut room = MaybeUninit::uninit();
        // SAFETY: room and context are in place until the guard is dropped, on the next line.
        let _leave = unsafe { Entered::enter(context, &mut room) };
        return f();
    }
    let context = context.map_or(ptr::null(), Context::head_of);
    // SAFETY: `context` is borrowed until `_leave` has entered the one before.
    let around = unsafe { current::enter_context(context) };
    let _leave = Leave { context, around };
    f()
}

/// The drop goes back to the context around.
struct Leave {
    context: *const ContextHead,
    around: *const ContextHead,
}

impl Drop for Leave {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: the running fiber was inside of `around`, which ends later.
        unsafe { leave(self.context, self.around) };
    }
}

/// Goes from `context`, which may end next, to the one around.
///
/// # Safety
/// That one is in place, and so are its surroundings, until the caller leaves.
unsafe fn leave(context: *const ContextHead, around: *const ContextHead) {
    if !context.is_null() {
        leave_context(context);
    }
    // SAFETY: as the caller promises.
    unsafe { current::enter_context(around) };
}

// SAFETY: the field is made in `new`, for this type.
unsafe impl Expires for Context {
    const OFFSET: usize = offset_of!(Self, expiry);

    fn expire(self: Arc<Self>) {
        self.cancel_as_due();
    }
}

impl Drop for Context {
    #[inline]
    fn drop(&mut self) {
        if self.head.flags.load(Ordering::Relaxed) & GRACE != 0 {
            self.end_grace();
        }
    }
}

impl_debug!([] Context, |it| cancelled: it.is_cancelled());
