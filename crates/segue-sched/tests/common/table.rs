//! The harness of the tables of callbacks: what a callback that performs an effect, or gives to a
//! generator, in the middle of whatever has called it may bring about.
//!
//! A *row* is a callback that the public API takes, in an operation that calls it. Its program
//! calls [`act`] from there, and answers [`RIGHT`] if the operation was right all the same. A
//! *column* is what `act` does, and what becomes of the rest: everything that it was captured in
//! ends, memory is used for other things, and then the rest goes on elsewhere, or never does.
//!
//! A cell must be as its row says: *captured* (the callback is a body, and the rest is right
//! wherever it goes on), *refused* (an operation is in progress, which the message names, and goes
//! on by itself), or *apart* (the callback runs on a stack or thread of its own, where nothing is
//! around).
#![allow(unsafe_code, reason = "callbacks that borrow nothing reach a yielder through a thread-local variable")]
#![allow(dead_code, reason = "each table uses its part")]

use segue_core::scheduling::{Job, Park, PreemptionPoints, Unpark, WaitPark};
use segue_core::{CancelToken, Fiber, spawn, timeout};
use segue_sched::fiber::effect::{Continuation, Effect, Handler, Unhandled, perform, try_perform};
use segue_sched::fiber::{Generator, Yielder, generator};
use segue_sched::{Fifo, Goes, Idle, Policy, Runtime, Seat, Started, Task, Why, hosted};
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::hint::black_box;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

/// What a row answers.
pub const RIGHT: u64 = 7;

/// What a perform answers.
const ANSWER: u64 = 41;

pub const LONG: Duration = Duration::from_secs(1000);

struct Ask;

impl Effect for Ask {
    type Output = u64;
}

/// What must be seen in every cell of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Must {
    /// It is a body: captured with what it is in, it goes on wherever it is resumed.
    Captured,
    /// It is called in the middle of an operation, whose name contains this.
    Refused(&'static str),
    /// It has a stack or thread of its own, where no handler is around.
    Apart,
}

/// Where a row runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// In a fiber. Not on the host with a thread for each, where a handled computation is on a
    /// thread that does not know its fiber.
    Fiber,
    /// In a fiber of a scheduler whose policy says that it simulates.
    Simulated,
    /// In a hosted fiber, whose polls have wakers that act by turns when they are cloned and when
    /// they are dropped.
    Hosted,
    Thread,
}

pub struct Row {
    name: &'static str,
    at: At,
    must: Must,
    run: fn() -> u64,
}

/// A row in a fiber.
pub const fn fiber(name: &'static str, must: Must, run: fn() -> u64) -> Row {
    Row { name, at: At::Fiber, must, run }
}

/// A row on a plain thread.
pub const fn thread(name: &'static str, must: Must, run: fn() -> u64) -> Row {
    Row { name, at: At::Thread, must, run }
}

/// A row in a fiber that is simulated.
pub const fn simulated(name: &'static str, must: Must, run: fn() -> u64) -> Row {
    Row { name, at: At::Simulated, must, run }
}

/// A row in a hosted fiber. It [arms](arm) the callback itself.
pub const fn in_hosted(name: &'static str, must: Must, run: fn() -> u64) -> Row {
    Row { name, at: At::Hosted, must, run }
}

/// What `act` does, and what becomes of the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    /// It performs; its fiber and contexts end; the rest goes on in another fiber of the same
    /// scheduler.
    NextFiber,
    /// It performs; its scheduler ends, too; the rest goes on in a fiber of another one.
    NextScheduler,
    /// It performs, and the rest goes on on the plain thread.
    OnThread,
    /// It performs, and the rest is dropped later.
    Dropped,
    /// It performs, and the rest is forgotten.
    Forgotten,
    /// It gives to a generator, which goes on in another scheduler.
    Given,
    /// It gives to a generator, which is dropped later.
    GivenAndDropped,
    /// It tries to perform.
    Tried,
}

const COLUMNS: [Column; 8] = [
    Column::NextFiber,
    Column::NextScheduler,
    Column::OnThread,
    Column::Dropped,
    Column::Forgotten,
    Column::Given,
    Column::GivenAndDropped,
    Column::Tried,
];

#[derive(Clone, Debug, PartialEq, Eq)]
enum Seen {
    Nothing,
    Captured,
    Refused(String),
    Apart,
    /// What a try is told in either of these cases.
    NoHandler,
}

enum Kept {
    Performed(Continuation<'static, u64, Option<u64>>),
    Given(Generator<'static, u64>),
}

thread_local! {
    static KEPT: RefCell<Option<Kept>> = const { RefCell::new(None) };
    static YIELDER: Cell<*const Yielder<u64>> = const { Cell::new(ptr::null()) };
}

static ARMED: AtomicBool = AtomicBool::new(false);
static COLUMN: Mutex<Column> = Mutex::new(Column::Tried);
static SEEN: Mutex<Seen> = Mutex::new(Seen::Nothing);
/// How many bodies of cells have ended, with their value or unwound.
static ENDED: AtomicUsize = AtomicUsize::new(0);

fn see(seen: Seen) {
    *SEEN.lock().unwrap() = seen;
}

/// What a callback of a row does. The first time in each cell: many are called again and again.
pub fn act() {
    if !ARMED.swap(false, SeqCst) {
        return;
    }
    let column = *COLUMN.lock().unwrap();
    match column {
        Column::Given | Column::GivenAndDropped => give_here(),
        Column::Tried => try_here(),
        _ => perform_here(),
    }
}

/// For rows whose callback is also called before the one that counts.
pub fn disarm() {
    ARMED.store(false, SeqCst);
}

pub fn arm() {
    ARMED.store(true, SeqCst);
}

/// Whether the callback that counts was not called yet.
pub fn is_armed() -> bool {
    ARMED.load(SeqCst)
}

/// Whether the callback that counts was called on another thread.
pub fn was_apart() -> bool {
    *SEEN.lock().unwrap() == Seen::Apart
}

fn refused_by(message: &str) -> Seen {
    match message.split_once("in the middle of an operation, ") {
        Some((_, by)) => Seen::Refused(by.to_owned()),
        None => Seen::Apart,
    }
}

fn perform_here() {
    // Where it is captured, the clause says so.
    match catch_unwind(|| perform(Ask)) {
        Ok(answer) => assert_eq!(answer, ANSWER),
        Err(payload) => match payload.downcast::<Unhandled>() {
            Ok(unhandled) => see(refused_by(&unhandled.to_string())),
            Err(payload) => resume_unwind(payload),
        },
    }
}

fn try_here() {
    see(Seen::NoHandler);
    if let Ok(answer) = try_perform(Ask) {
        assert_eq!(answer, ANSWER);
    }
}

fn give_here() {
    // SAFETY: set by a generator's body on this thread, and null again when that has ended.
    let Some(yielder) = (unsafe { YIELDER.get().as_ref() }) else { return see(Seen::Apart) };
    // Where it is captured, the consumer says so. In a panic nothing is given.
    see(Seen::NoHandler);
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| yielder.give(1))) {
        match message(&*payload) {
            Some(message) if message.starts_with("an element was given") => see(refused_by(message)),
            _ => resume_unwind(payload),
        }
    }
}

fn message(payload: &(dyn Any + Send)) -> Option<&str> {
    payload.downcast_ref::<String>().map(String::as_str).or_else(|| payload.downcast_ref::<&str>().copied())
}

/// Counts the end of a cell's body.
struct Ends;

impl Drop for Ends {
    fn drop(&mut self) {
        ENDED.fetch_add(1, SeqCst);
    }
}

struct Gives;

impl Gives {
    fn to(yielder: &Yielder<u64>) -> Self {
        YIELDER.set(yielder);
        Self
    }
}

impl Drop for Gives {
    fn drop(&mut self) {
        YIELDER.set(ptr::null());
    }
}

/// Runs the row to its end or up to where it is captured; inside of contexts that end then.
fn begin(row: &Row, column: Column) {
    let run = row.run;
    CancelToken::new().run(|| {
        timeout(LONG, || match column {
            Column::Given | Column::GivenAndDropped => {
                let elements = generator(move |y| {
                    let _ends = Ends;
                    let _gives = Gives::to(y);
                    let value = run();
                    // Elements of the end are marked, as a generator has no value.
                    y.give(value + 100);
                });
                go_on_with(Kept::Given(elements));
            }
            _ => {
                let clause = |_: Ask, k| {
                    see(Seen::Captured);
                    KEPT.set(Some(Kept::Performed(k)));
                    None
                };
                let value = Handler::stored().on(clause).value(Some).handle(move || {
                    let _ends = Ends;
                    run()
                });
                if let Some(value) = value {
                    assert_eq!(value, RIGHT);
                }
            }
        });
    });
}

fn go_on_with(kept: Kept) {
    match kept {
        Kept::Performed(k) => {
            if let Some(value) = k.resume(ANSWER) {
                assert_eq!(value, RIGHT);
            }
        }
        Kept::Given(mut elements) => match elements.next() {
            Some(1) => {
                see(Seen::Captured);
                KEPT.set(Some(Kept::Given(elements)));
            }
            Some(value) => {
                assert_eq!(value, RIGHT + 100);
                assert_eq!(elements.next(), None);
            }
            None => panic!("the body has given its value"),
        },
    }
}

/// Goes on with what was kept, if anything was.
fn go_on() {
    if let Some(kept) = KEPT.take() {
        go_on_with(kept);
    }
}

/// Uses the memory of what has ended for something else: heap blocks, stacks of fibers, of
/// generators and of handlers.
pub fn use_memory_again() {
    fn fill(byte: u8) -> usize {
        black_box(&mut [byte; 24 << 10]).iter().map(|&byte| usize::from(byte)).sum()
    }
    let sizes = || (4..14).map(|bits| 1 << bits);
    let blocks: Vec<Vec<u8>> = sizes().chain(sizes()).chain(sizes()).map(|size| vec![0xa5; size]).collect();
    if cfg!(not(feature = "threads")) {
        let fill_stacks = || {
            let fibers: Vec<_> = (0..8).map(|_| spawn(|| fill(0xa5))).collect();
            fibers.into_iter().for_each(|fiber| assert!(fiber.join().unwrap() > 0));
        };
        scheduler::<false, _>(fill_stacks);
    }
    let generators: Vec<_> = (0..8)
        .map(|_| {
            let mut elements = generator(|y| y.give(fill(0x5a)));
            elements.next();
            elements
        })
        .collect();
    drop(generators);
    drop(blocks);
}

/// Goes on where the column says.
fn end(column: Column) {
    match column {
        Column::NextFiber | Column::OnThread | Column::Tried => go_on(),
        Column::NextScheduler | Column::Given if cfg!(feature = "threads") => go_on(),
        Column::NextScheduler | Column::Given => {
            // Continuations stay on their thread, whose worker this is.
            scheduler::<false, _>(|| spawn(go_on).join().unwrap());
        }
        Column::Dropped | Column::GivenAndDropped => drop(KEPT.take()),
        Column::Forgotten => std::mem::forget(KEPT.take()),
    }
}

fn in_a_fiber(row: &'static Row, column: Column) {
    spawn(move || begin(row, column)).join().unwrap();
    if matches!(column, Column::NextFiber | Column::Tried) {
        use_memory_again();
        spawn(go_on).join().unwrap();
    }
}

fn cell(row: &'static Row, column: Column) -> Seen {
    *COLUMN.lock().unwrap() = column;
    see(Seen::Nothing);
    ENDED.store(0, SeqCst);
    arm();
    match row.at {
        At::Thread => begin(row, column),
        At::Fiber => scheduler::<false, _>(|| in_a_fiber(row, column)),
        At::Simulated => {
            let _points = PreemptionPoints::enable();
            scheduler::<true, _>(|| in_a_fiber(row, column));
        }
        At::Hosted => {
            disarm();
            let mut fiber = hosted(move || begin(row, column));
            let mut wakers = (0..).map(|turn| waker_with(turn % 2 == 0));
            loop {
                // Its own end is none of the row's.
                let waker = ManuallyDrop::new(wakers.next().expect("it has no end"));
                if let Some(ended) = poll(Pin::new(&mut fiber), &waker) {
                    break ended.unwrap();
                }
            }
        }
    }
    acts_in(Foreign::Nothing);
    use_memory_again();
    end(column);
    let ends = usize::from(column != Column::Forgotten || *SEEN.lock().unwrap() != Seen::Captured);
    assert_eq!(ENDED.load(SeqCst), ends, "{}: the rest ends once, unless it is forgotten", row.name);
    assert!(KEPT.take().is_none());
    std::mem::replace(&mut *SEEN.lock().unwrap(), Seen::Nothing)
}

fn is_right(must: Must, seen: &Seen) -> bool {
    match (must, seen) {
        (Must::Captured, Seen::Captured) | (Must::Apart, Seen::Apart) => true,
        (Must::Refused(_) | Must::Apart, Seen::NoHandler) => true,
        (Must::Refused(by), Seen::Refused(seen)) => seen.contains(by),
        _ => false,
    }
}

/// Messages of performs and elements that are refused are what this is about: the hook does not
/// print them.
fn quieten() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let expected = ["the effect ", "an element was given", "expected"];
            let is_expected = message_of(info).is_some_and(|message| expected.iter().any(|it| message.starts_with(it)));
            if !is_expected {
                before(info);
            }
        }));
    });
}

fn message_of<'a>(info: &'a std::panic::PanicHookInfo<'_>) -> Option<&'a str> {
    info.payload()
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| info.payload().downcast_ref::<&str>().copied())
}

/// Makes every cell of the table, prints it, and fails if one is not as it must be. The rows named
/// in `doors` have to be there.
pub fn check(rows: &'static [Row], doors: &[&str]) {
    // One table at a time: what acts is the process's.
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    quieten();
    for door in doors {
        assert!(rows.iter().any(|row| row.name == *door), "there is no row `{door}`");
    }
    let mut wrong = Vec::new();
    println!("{:64}{:24}columns: {COLUMNS:?}", "callback", "must be");
    for row in rows.iter().filter(|row| row.at == At::Thread || cfg!(not(feature = "threads"))) {
        print!("{:64}{:24}", row.name, format!("{:?}", row.must));
        let _ = std::io::Write::flush(&mut std::io::stdout());
        for column in COLUMNS {
            let seen = cell(row, column);
            let right = is_right(row.must, &seen);
            print!("{}", if right { " ok" } else { " WRONG" });
            if !right {
                wrong.push(format!("{} / {column:?}: must be {:?}, is {seen:?}", row.name, row.must));
            }
        }
        println!();
    }
    assert!(wrong.is_empty(), "{} cells are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// A waker that acts when it is called.
pub fn waker() -> Waker {
    struct Acts;
    impl Wake for Acts {
        fn wake(self: Arc<Self>) {
            act();
        }
    }
    Waker::from(Arc::new(Acts))
}

/// Counts its calls.
#[derive(Default)]
pub struct Counts(pub AtomicUsize);

impl Counts {
    pub fn waker(self: &Arc<Self>) -> Waker {
        Waker::from(Arc::clone(self))
    }

    pub fn get(&self) -> usize {
        self.0.load(SeqCst)
    }
}

impl Wake for Counts {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// Acts when it is dropped.
pub struct ActsAtDrop;

impl Drop for ActsAtDrop {
    fn drop(&mut self) {
        act();
    }
}

/// A waker whose clone acts, or else whose drop does.
pub fn waker_with(at_clone: bool) -> Waker {
    use std::task::{RawWaker, RawWakerVTable};
    static AT_CLONE: RawWakerVTable = RawWakerVTable::new(
        |data| {
            act();
            RawWaker::new(data, &AT_CLONE)
        },
        |_| (),
        |_| (),
        |_| (),
    );
    static AT_DROP: RawWakerVTable =
        RawWakerVTable::new(|data| RawWaker::new(data, &AT_DROP), |_| act(), |_| (), |_| act());
    let table = if at_clone { &AT_CLONE } else { &AT_DROP };
    // SAFETY: the functions of the tables use no data, and may be called from anywhere.
    unsafe { Waker::new(ptr::null(), table) }
}

/// Polls a future once.
pub fn poll<F: Future + ?Sized>(future: Pin<&mut F>, waker: &Waker) -> Option<F::Output> {
    match future.poll(&mut Context::from_waker(waker)) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

/// What acts in the schedulers of the table: a method of the policy's, or of the park's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foreign {
    Nothing,
    Seated,
    Push,
    Pop,
    Spare,
    TakesArrivals,
    Idle,
    Upcoming,
    Begins,
    MayPreempt,
    Preempts,
    EndOfPolicy,
    Unparker,
    Park,
    IsClosed,
    Poll,
    Enter,
    Leave,
    Unpark,
    EndOfPark,
}

static FOREIGN: Mutex<Foreign> = Mutex::new(Foreign::Nothing);

/// Says what is to act from now on.
pub fn acts_in(foreign: Foreign) {
    *FOREIGN.lock().unwrap() = foreign;
}

fn called(foreign: Foreign) {
    if *FOREIGN.lock().unwrap() == foreign {
        act();
    }
}

/// First in first out, and each method acts if it is asked to. It simulates, or it does not.
#[derive(Default)]
pub struct Acting<const SIMULATES: bool>(Fifo);

impl<const SIMULATES: bool> Policy for Acting<SIMULATES> {
    fn seated(&mut self, seat: Seat) {
        called(Foreign::Seated);
        self.0.seated(seat);
    }

    fn push(&mut self, task: Task, why: Why) -> Goes {
        called(Foreign::Push);
        self.0.push(task, why)
    }

    fn pop(&mut self) -> Option<Task> {
        called(Foreign::Pop);
        self.0.pop()
    }

    fn spare(&mut self) -> Option<Job> {
        called(Foreign::Spare);
        self.0.spare()
    }

    fn takes_arrivals(&self) -> bool {
        called(Foreign::TakesArrivals);
        self.0.takes_arrivals()
    }

    fn idle(&mut self) -> Idle {
        called(Foreign::Idle);
        self.0.idle()
    }

    fn upcoming(&self, turns: usize) -> Option<&Started> {
        called(Foreign::Upcoming);
        self.0.upcoming(turns)
    }

    fn simulates() -> bool {
        SIMULATES
    }

    fn begins(&mut self, _fiber: &Fiber) {
        called(Foreign::Begins);
    }

    fn may_preempt(&self) -> bool {
        called(Foreign::MayPreempt);
        SIMULATES
    }

    fn preempts(&mut self) -> bool {
        called(Foreign::Preempts);
        false
    }
}

impl<const SIMULATES: bool> Drop for Acting<SIMULATES> {
    fn drop(&mut self) {
        called(Foreign::EndOfPolicy);
    }
}

/// A park each of whose methods acts if it is asked to.
#[derive(Default)]
pub struct ActingPark(WaitPark);

struct ActingUnpark(Arc<dyn Unpark>);

impl Unpark for ActingUnpark {
    fn unpark(&self) {
        called(Foreign::Unpark);
        self.0.unpark();
    }
}

impl Park for ActingPark {
    fn unparker(&self) -> Arc<dyn Unpark> {
        called(Foreign::Unparker);
        Arc::new(ActingUnpark(self.0.unparker()))
    }

    fn park(&mut self, timeout: Option<Duration>) {
        called(Foreign::Park);
        self.0.park(timeout);
    }

    fn is_closed(&self) -> bool {
        called(Foreign::IsClosed);
        self.0.is_closed()
    }

    fn poll(&mut self) {
        called(Foreign::Poll);
        self.0.poll();
    }

    fn enter(&mut self) {
        called(Foreign::Enter);
        self.0.enter();
    }

    fn leave(&mut self) {
        called(Foreign::Leave);
        self.0.leave();
    }
}

impl Drop for ActingPark {
    fn drop(&mut self) {
        called(Foreign::EndOfPark);
    }
}

/// Runs `f` as the first fiber of a scheduler with one worker, which is the calling thread.
pub fn scheduler<const SIMULATES: bool, T>(f: impl FnOnce() -> T) -> T {
    let builder = Runtime::new().workers(1).park(|| Ok(ActingPark::default()));
    builder.run_with(Acting::<SIMULATES>::default, f).unwrap()
}
