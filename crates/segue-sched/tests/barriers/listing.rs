//! What the tables have to cover: each public function that takes a closure, a trait object, a
//! future or a waker, and each public trait. The sources are read for them, so that one that is
//! added is missed here until it has a row, or a reason for none.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The crates with operations. The servers and clients of `segue-http` are written on these.
const CRATES: [&str; 7] =
    ["segue-core", "segue-fiber", "segue-sched", "segue-io", "segue-bridge", "segue", "segue-std"];

const TABLES: [&str; 8] = [
    "segue-sched/tests/barriers/bodies.rs",
    "segue-sched/tests/barriers/operations.rs",
    "segue-sched/tests/barriers/schedulers.rs",
    "segue-sched/tests/barriers/wakers.rs",
    "segue-io/tests/barriers.rs",
    "segue-bridge/tests/barriers.rs",
    "segue/tests/barriers.rs",
    "segue-std/tests/barriers.rs",
];

/// In which row it is.
struct In(&'static str, &'static str);

const ROWS: &[In] = &[
    In("segue-core: blocking", "blocking"),
    In("segue-core: Blocking::on_cancel", "the hook of Blocking::on_cancel"),
    In("segue-core: Blocking::run", "the hook of Blocking::on_cancel"),
    In("segue-core: Extent::run", "Extent::run"),
    In("segue-core: Cancelled::with_reason", "the drop of a token with its reason"),
    In("segue-core: shield", "shield"),
    In("segue-core: finally", "finally: the cleanup"),
    In("segue-core: timeout", "timeout"),
    In("segue-core: deadline", "deadline"),
    In("segue-core: CancelToken::run", "CancelToken::run"),
    In("segue-core: CancelToken::shield", "CancelToken::shield"),
    In("segue-core: CancelToken::cancel_with", "a waker, by CancelToken::cancel_with"),
    In("segue-core: trait Attribute", "Attribute::from_bits"),
    In("segue-core: barrier", "barrier"),
    In("segue-core: wake_after_interrupt", "what wakes a scheduler, by Scope::cancel"),
    In("segue-core: wake_task", "wake_task"),
    In("segue-core: with_current", "with_current"),
    In("segue-core: run_as_thread", "run_as_thread"),
    In("segue-core: trait Park", "Park::park, in a run"),
    In("segue-core: trait Unpark", "what wakes a driven scheduler, by Driven::spawn"),
    In("segue-core: contain", "contain"),
    In("segue-core: trait Spawn", "Spawn::spawn, by the waker of a task, on a thread"),
    In("segue-core: Family::async_job", "Spawn::spawn, by the waker of a task, on a thread"),
    In("segue-core: Family::enter_context", "the body of a scope"),
    In("segue-core: Family::job", "a fiber of a scope"),
    In("segue-core: JoinError::panicked", "the drop of a result that nobody takes"),
    In("segue-core: Panic::new", "the drop of a result that nobody takes"),
    In("segue-core: describe_panics", "describe_panics"),
    In("segue-core: JoinHandle::cancel_with", "a waker, by CancelToken::cancel_with"),
    In("segue-core: scope", "the body of a scope"),
    In("segue-core: Scope::spawn", "a fiber of a scope"),
    In("segue-core: Scope::spawn_daemon", "a daemon of a scope"),
    In("segue-core: Scope::spawn_local", "a local fiber of a scope"),
    In("segue-core: Scope::on_exit", "a hook of a scope"),
    In("segue-core: Scope::cancel_with", "a waker, by CancelToken::cancel_with"),
    In("segue-core: try_scope", "the body of a scope that may fail"),
    In("segue-core: TryScope::spawn_try", "a fiber of a scope"),
    In("segue-core: TryScope::fail_with", "a waker, by CancelToken::cancel_with"),
    In("segue-core: shield_for", "shield_for"),
    In("segue-core: Builder::spawn_try", "a fiber of a scope"),
    In("segue-core: Scope::spawn_task", "spawn_task: a poll"),
    In("segue-core: spawn", "spawn"),
    In("segue-core: spawn_task", "spawn_task: a poll"),
    In("segue-core: Builder::spawn", "spawn"),
    In("segue-core: Builder::spawn_task", "spawn_task: a poll"),
    In("segue-core: scope_over", "the body of a scope"),
    In("segue-core: try_scope_over", "the body of a scope that may fail"),
    In("segue-core: Guard::exchange_if", "Guard::exchange_if"),
    In("segue-core: WaitQueue::source", "WaitQueue::source: take, in a poll"),
    In("segue-core: WaitQueue::wait", "WaitQueue::wait: take"),
    In("segue-core: WaitQueue::wait_until", "WaitQueue::wait_until: take"),
    In("segue-core: trait Operation", "Operation::commit, in a choice"),
    In("segue-core: registered", "registered"),
    In("segue-core: no_suspend", "no_suspend"),
    In("segue-core: no_suspend_in_body", "no_suspend_in_body"),
    In("segue-core: unblocked", "unblocked"),
    In("segue-core: not_unblocked", "not_unblocked"),
    In("segue-core: trait TimeLimited", "TimeLimited::expire, by Timers::fire"),
    In("segue-core: Waitable::map", "Waitable::map, in a wait"),
    In("segue-core: Waitable::filter_map", "Waitable::filter_map, in a wait"),
    In("segue-core: guard", "guard, in a wait"),
    In("segue-core: from_kernel", "guard, in a wait"),
    In("segue-core: with_nack", "with_nack, in a wait"),
    In("segue-core: future_source", "future_source, in a wait: a poll"),
    In("segue-core: wait_future", "wait_future: a poll"),
    In("segue-core: wait_future_shielded", "wait_future_shielded: a poll"),
    In("segue-fiber: Handler::answer", "a clause that answers"),
    In("segue-fiber: Handler::answer_with", "a clause with the handler's state"),
    In("segue-fiber: Handler::value", "a handler's case for the value"),
    In("segue-fiber: Handler::value_with", "a handler's case for the value"),
    In("segue-fiber: Handler::panic", "a handler's case for panics"),
    In("segue-fiber: Handler::panic_with", "a handler's case for panics"),
    In("segue-fiber: Handler::on", "a clause that wants the continuation"),
    In("segue-fiber: Handler::on_tail", "a clause that wants the continuation"),
    In("segue-fiber: Handler::handle", "the body of a handler further in"),
    In("segue-fiber: trait Effect", "the body of a handler further in"),
    In("segue-fiber: outside", "outside"),
    In("segue-fiber: SharedHandler::answer", "a clause of a shared handler, asked in a fiber of a scope"),
    In("segue-fiber: SharedHandler::handle", "the body of a scope inside of a shared handler"),
    In("segue-fiber: generator", "the body of a generator further in"),
    In("segue-fiber: generator_with_stack", "the body of a generator further in"),
    In("segue-fiber: handle", "multi: the body"),
    In("segue-fiber: region", "region"),
    In("segue-fiber: push", "the body of a machine"),
    In("segue-fiber: push_with_stack", "the body of a machine"),
    In("segue-fiber: Region::push", "the body of a machine"),
    In("segue-fiber: Region::push_with_stack", "the body of a machine"),
    In("segue-fiber: Region::generator", "Region::generator"),
    In("segue-fiber: Region::generator_with_stack", "Region::generator"),
    In("segue-sched: blocking_here", "blocking_here"),
    In("segue-sched: Driven::spawn", "what wakes a driven scheduler, by Driven::spawn"),
    In("segue-sched: Driven::start", "the closure of Driven::start"),
    In("segue-sched: Explore::check", "Explore::run"),
    In("segue-sched: Explore::run", "Explore::run"),
    In("segue-sched: Explore::replay", "Explore::run"),
    In("segue-sched: trait Verdict", "Verdict::complaint"),
    In("segue-sched: join", "join: the second half"),
    In("segue-sched: try_join", "try_join: the first half"),
    In("segue-sched: join_context", "join_context: the second half"),
    In("segue-sched: try_join_context", "join_context: the second half"),
    In("segue-sched: trait ParallelIterator", "a closure of a parallel loop"),
    In("segue-sched: trait ParallelSliceMut", "a comparison of a parallel sort"),
    In("segue-sched: Runtime::pool_on", "what starts the threads of a pool"),
    In("segue-sched: Handle::spawn_at", "Handle::spawn"),
    In("segue-sched: Handle::spawn", "Handle::spawn"),
    In("segue-sched: move_to", "move_to"),
    In("segue-sched: Runtime::on_thread_start", "Runtime::on_thread_start"),
    In("segue-sched: Runtime::on_thread_stop", "Runtime::on_thread_stop"),
    In("segue-sched: Runtime::on_park", "Runtime::on_park"),
    In("segue-sched: Runtime::on_unpark", "Runtime::on_unpark"),
    In("segue-sched: Runtime::on_stuck", "the hook of a monitor"),
    In("segue-sched: Shutdown::on_survivors", "the hook of a shutdown"),
    In("segue-sched: hosted", "hosted"),
    In("segue-sched: hosted_as", "hosted"),
    In("segue-sched: ByDeadline::with_clock", "the clock of deadlines"),
    In("segue-sched: Fair::with_clock", "the clock of fair shares"),
    In("segue-sched: Hierarchical::with_clock", "the clock of a hierarchy"),
    In("segue-sched: Hierarchical::child", "Policy::push, in a run"),
    In("segue-sched: Sim::run", "Sim::run"),
    In("segue-sched: trait Policy", "Policy::push, in a run"),
    In("segue-sched: trait MakePark", "what makes the park of a run"),
    In("segue-sched: Runtime::run", "the first fiber of a run"),
    In("segue-sched: Runtime::run_with", "what makes the policy of a run"),
    In("segue-sched: Runtime::pool_with", "what makes the policy of a run"),
    In("segue-sched: Runtime::driven", "what wakes a driven scheduler, by Driven::spawn"),
    In("segue-sched: Runtime::driven_with", "Policy::push, in a poll of a driven scheduler"),
    In("segue-sched: Plain::run", "the first fiber of a run"),
    In("segue-sched: Pool::run", "Pool::run"),
    In("segue-sched: Pool::call", "Pool::call"),
    In("segue-sched: Pool::spawn", "Pool::spawn"),
    In("segue-sched: Pool::spawn_task", "spawn_task: a poll"),
    In("segue-io: Listener::bind", "TcpListener::bind: ToSocketAddrs"),
    In("segue-io: Packets::bind", "UdpSocket::bind: ToSocketAddrs"),
    In("segue-io: Packets::connect", "UdpSocket::connect: ToSocketAddrs"),
    In("segue-io: Packets::send_to", "UdpSocket::send_to: ToSocketAddrs"),
    In("segue-io: Stream::connect", "TcpStream::connect: ToSocketAddrs"),
    In("segue-io: lookup", "lookup: ToSocketAddrs"),
    In("segue-io: set_resolver", "a name is looked up: Resolve"),
    In("segue-io: trait Resolve", "a name is looked up: Resolve"),
    In("segue-io: trait ToSocketAddrs", "lookup: ToSocketAddrs"),
    In("segue-bridge: direct", "direct"),
    In("segue-bridge: direct_as", "direct_as"),
    In("segue-bridge: direct_on", "direct_on"),
    In("segue-bridge: run", "rayon::run"),
    In("segue-bridge: run_on", "rayon::run_on"),
    In("segue-bridge: wait_yielding", "rayon::wait_yielding: another job, on top of the wait"),
    In("segue-bridge: wait", "tokio::wait: a poll"),
    In("segue-bridge: with", "tokio::with: a poll"),
    In("segue-bridge: decoder", "spawn"),
    In("segue-sched: run", "segue::run"),
    In("segue: spawn", "segue::spawn"),
    In("segue: spawn_task", "spawn_task: a poll"),
    In("segue: join_all", "join_all: a closure"),
    In("segue: race", "race: a closure"),
    In("segue: first_ok", "first_ok: a closure"),
    In("segue: AtMost::map", "AtMost::map, by the caller"),
    In("segue: AtMost::for_each", "AtMost::for_each, by the caller"),
    In("segue: AtMost::any", "AtMost::any, by the caller"),
    In("segue: Retry::run", "Retry::run"),
    In("segue: Retry::run_while", "Retry::run_while: whether it is worth it"),
    In("segue: scope", "segue::scope: the body"),
    In("segue: try_scope", "the body of a scope that may fail"),
    In("segue: join", "segue::join"),
    In("segue: join_context", "segue::join"),
    In("segue: Options::on_undelivered", "the hook of a channel, by the last receiver"),
    In("segue: Resolver::on_close", "the hook of a resolver, by the drop of the promise"),
    In("segue: Sender::on_close", "the hook of a resolver, by the drop of the promise"),
    In("segue: Receiver::wait_for", "watch::Receiver::wait_for"),
    In("segue: Sender::update", "watch::Sender::update"),
    In("segue: Condvar::wait_while", "Condvar::wait_while, again"),
    In("segue: MVar::modify", "MVar::modify"),
    In("segue: Once::call_once", "Once::call_once"),
    In("segue: Once::call_once_source", "Once::call_once_source, in a poll"),
    In("segue: OnceCell::get_or_init", "OnceCell::get_or_init"),
    In("segue: OnceCell::get_or_try_init", "OnceCell::get_or_try_init"),
    In("segue: OnceCell::get_or_init_source", "OnceCell::get_or_init_source, in a poll"),
    In("segue: OnceCell::get_or_try_init_source", "OnceCell::get_or_try_init_source, in a poll"),
    In("segue-std: Builder::spawn", "std: spawn"),
    In("segue-std: Builder::spawn_scoped", "std: a fiber of a scope"),
    In("segue-std: Condvar::wait_timeout_while", "std: Condvar::wait_timeout_while"),
    In("segue-std: Condvar::wait_while", "std: Condvar::wait_while"),
    In("segue-std: Once::call_once", "std: Once::call_once_force"),
    In("segue-std: Once::call_once_force", "std: Once::call_once_force"),
    In("segue-std: OnceLock::get_or_init", "std: OnceLock::get_or_init"),
    In("segue-std: Scope::spawn", "std: a fiber of a scope"),
    In("segue-std: scope", "std: the body of a scope"),
    In("segue-std: spawn", "std: spawn"),
];

/// What no safe program can have act, and why. What `unsafe` code gives in keeps a contract, which
/// says that it captures nothing.
const NONE: &[In] = &[
    In("segue-core: Trigger::wait_published", "for the suite of schedulers, which vouches that nothing performs there"),
    In("segue-core: Surrounding::detour", "of the crate of effects: a call to a clause"),
    In("segue-core: look_at", "for drivers: a thread of its own calls the look"),
    In("segue-core: trait Look", "for drivers: a thread of its own calls the look"),
    In("segue-io: apart", "a thread of its own makes the call"),
    In("segue-core: share", "of the crate of effects: SharedHandler"),
    In("segue-core: inherit", "for what starts fibers and halves of joins"),
    In("segue-core: afresh", "for worker loops"),
    In("segue-core: retire", "for implementers of Work"),
    In("segue-core: Fiber::carried_over", "for schedulers, whose writers sign a contract"),
    In("segue-core: PerProcess::new", "its function takes nothing, and is of the crates alone"),
    In("segue-core: set_carrier", "called behind a barrier: carrier.rs of segue-sched tries it"),
    In("segue-core: Fiber::for_job", "for schedulers, whose writers sign a contract"),
    In("segue-core: Fiber::under", "for schedulers, whose writers sign a contract"),
    In("segue-core: Builder::on", "what it calls is of a scheduler, whose writer signs a contract"),
    In("segue-core: while_registered", "its caller signs a contract"),
    In("segue-core: trait Host", "its implementer signs a contract"),
    In("segue-core: trait DefaultRuntime", "for crates with a runtime; called when nothing is in progress"),
    In("segue-core: trait Begin", "sealed: it has three implementations"),
    In("segue-core: trait Ending", "private to spawns"),
    In("segue-core: trait Owner", "sealed: a scope, or one that may fail"),
    In("segue-core: trait Place", "sealed: its implementations are the places of a builder"),
    In("segue-core: trait Sealed", "private to builders; it has no method"),
    In("segue-core: Fiber::set_scheduler", "for schedulers, whose writers sign a contract"),
    In("segue-core: AsTask::new", "for executors, whose writers sign a contract"),
    In("segue-core: AsTask::has_waker", "for executors, whose writers sign a contract; it calls nothing"),
    In("segue-core: set_preemption", "for simulators; called as a part of what comes to the point"),
    In("segue-core: set_stack_trimmer", "for crates that make stacks; nothing is in progress in trim_stack"),
    In("segue-core: Timers::call_without_outside_work", "for schedulers; called behind a barrier"),
    In("segue-core: __rust_begin_short_backtrace", "calls the closure of what calls it"),
    In("segue-core: trait IsNoPanic", "has no method, and nothing implements it"),
    In("segue-core: trait Clock", "has no method, and its one implementation is in the crate"),
    In("segue-core: trait Work", "its implementer signs a contract"),
    In("segue-core: trait Scheduler", "its implementer signs a contract"),
    In("segue-core: trait Source", "its implementer signs a contract"),
    In("segue-core: trait Arms", "its implementer signs a contract"),
    In("segue-core: trait Brings", "called by whoever has the source, when nothing is in progress"),
    In("segue-core: trait Executor", "its implementer signs a contract"),
    In("segue-core: FiberLocal::new", "called behind a barrier: fiber_locals.rs of segue tries it"),
    In("segue-core: FiberLocal::inherited", "called behind a barrier: fiber_locals.rs of segue tries it"),
    In("segue-core: FiberLocal::with", "called behind a barrier: fiber_locals.rs of segue tries it"),
    In("segue-core: FiberLocal::try_with", "called behind a barrier: fiber_locals.rs of segue tries it"),
    In("segue-core: FiberLocal::with_borrow", "called behind a barrier: fiber_locals.rs of segue tries it"),
    In("segue-core: FiberLocal::with_borrow_mut", "called behind a barrier: fiber_locals.rs of segue tries it"),
    In("segue-core: with", "a cell of the model checker's"),
    In("segue-core: with_mut", "a cell of the model checker's"),
    In("segue-sched: trait IntoParallelIterator", "a conversion, when nothing is in progress"),
    In("segue-sched: trait IntoParallelRefIterator", "sealed: it has one implementation"),
    In("segue-sched: trait IntoParallelRefMutIterator", "sealed: it has one implementation"),
    In("segue-sched: trait FromParallelIterator", "a call of a loop, when nothing is in progress"),
    In("segue-sched: trait IndexedParallelIterator", "sealed: its closures are those of ParallelIterator"),
    In("segue-sched: trait ParallelSlice", "sealed: it has one implementation"),
    In("segue-sched: trait Producer", "sealed: private to parallel loops"),
    In("segue-sched: trait Consumer", "sealed: private to parallel loops"),
    In("segue-sched: trait Folder", "sealed: private to parallel loops"),
    In("segue-sched: trait Adds", "sealed: private to parallel loops"),
    In("segue-sched: trait Countable", "sealed: private to parallel loops"),
    In("segue-fiber: Watched::visit", "for dumps; called in a signal handler, by a contract"),
    In("segue-fiber: Coroutine::new", "the main function of a stack, for schedulers"),
    In("segue-std: trait CommandExt", "sealed: it has one implementation"),
    In("segue-std: trait Sealed", "seals the trait CommandExt"),
    In("segue-io: trait Protocol", "sealed: there are five"),
    In("segue-io: trait Listens", "sealed: there are five protocols"),
    In("segue-io: trait Connectionless", "sealed: there are five protocols"),
    In("segue-io: trait Local", "sealed: there are five protocols"),
    In("segue-io: trait Wire", "sealed: there are five protocols"),
    In("segue-io: trait Family", "sealed: there are two"),
    In("segue-fiber: trait Clauses", "sealed: Handler's methods make them"),
    In("segue-fiber: trait Clause", "sealed: Handler's methods make them"),
    In("segue-fiber: trait ValueCase", "sealed: Handler's methods make them"),
    In("segue-fiber: trait PanicCase", "sealed: Handler's methods make them"),
];

/// What a parameter is that may call back.
const CALLS: [&str; 10] =
    ["Fn(", "FnOnce(", "FnMut(", "fn(", "dyn ", "Policy", "Future", "IntoFuture", "ToSocketAddrs", "Waker"];

/// The type that an `impl` is for, without its path and parameters.
fn implemented(header: &str) -> String {
    let mut depth = 0;
    let outer = |&c: &char| {
        depth += i32::from(c == '<') - i32::from(c == '>');
        depth == 0 && c != '>'
    };
    let plain: String = header.trim_start_matches("impl").chars().filter(outer).collect();
    let plain = plain.split(" where ").next().unwrap_or_default();
    let of = plain.rsplit(" for ").next().unwrap_or_default().trim();
    of.rsplit("::").next().unwrap_or_default().to_owned()
}

/// A signature without what it returns.
fn parameters(signature: &str) -> String {
    let mut depth = 0;
    for (at, c) in signature.char_indices() {
        depth += i32::from("([<".contains(c)) - i32::from(")]>".contains(c));
        if c == '\u{2192}' && depth == 0 {
            let bounds = signature[at..].find(" where ").map_or("", |bounds| &signature[at + bounds..]);
            return format!("{}{bounds}", &signature[..at]);
        }
    }
    signature.to_owned()
}

/// Whether a word, or the start of one, stands there by itself.
fn mentions(text: &str, word: &str) -> bool {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let whole = |at: usize| {
        let rest = &text[at + word.len()..];
        !(text[..at].ends_with(is_name) || word.ends_with(is_name) && rest.starts_with(is_name))
    };
    text.match_indices(word).any(|(at, _)| whole(at))
}

/// The public functions of a source file that take something to call, and its public traits.
fn listed(source: &str) -> Vec<String> {
    let code: String =
        source.lines().map(|line| line.split("//").next().unwrap_or_default().to_owned() + "\n").collect();
    let code = code.split("#[cfg(test)]").next().unwrap_or_default().replace("->", "\u{2192}");
    let lines: Vec<&str> = code.lines().collect();
    let until_brace = |at: usize| {
        let joined = lines[at..].join(" ");
        joined[..joined.find(['{', ';']).unwrap_or(joined.len())].to_owned()
    };
    let (mut of, mut names) = (String::new(), Vec::new());
    for (at, line) in lines.iter().enumerate() {
        if line.starts_with("impl ") || line.starts_with("impl<") {
            of = implemented(&until_brace(at)) + "::";
        } else if *line == "}" {
            of.clear();
        }
        let Some(item) = line.trim_start().strip_prefix("pub ") else { continue };
        let name = |from: &str| {
            let is_name = |c: char| c.is_alphanumeric() || c == '_';
            from.split(|c: char| !is_name(c)).next().unwrap_or_default().to_owned()
        };
        if let Some((_, rest)) = item.split_once("trait ") {
            names.push(format!("trait {}", name(rest)));
        } else if let Some((_, rest)) = item.split_once("fn ")
            && CALLS
                .iter()
                .any(|call| mentions(&parameters(until_brace(at).split_once("fn ").expect("just seen").1), call))
        {
            names.push(of.clone() + &name(rest));
        }
    }
    names
}

fn files(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            files(&entry, into);
        } else if entry.extension().is_some_and(|it| it == "rs") {
            into.push(entry);
        }
    }
}

#[test]
fn every_callback_of_the_public_api_is_in_a_row() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut found = BTreeSet::new();
    for name in CRATES {
        let mut sources = Vec::new();
        files(&crates.join(name).join("src"), &mut sources);
        let all = sources.iter().flat_map(|path| listed(&fs::read_to_string(path).unwrap()));
        found.extend(all.map(|item| format!("{name}: {item}")));
    }
    let known: BTreeSet<String> = ROWS.iter().chain(NONE).map(|In(item, _)| (*item).to_owned()).collect();
    let missing: Vec<_> = found.difference(&known).collect();
    assert!(missing.is_empty(), "these have no row, and no reason for none: {missing:#?}");
    let gone: Vec<_> = known.difference(&found).collect();
    assert!(gone.is_empty(), "these are not there any more: {gone:#?}");
    let tables: String = TABLES.iter().map(|path| fs::read_to_string(crates.join(path)).unwrap()).collect();
    for In(item, row) in ROWS {
        assert!(
            tables.contains(&format!("(\"{row}\",")) || tables.contains(&format!("\n        \"{row}\",")),
            "{item}: there is no row `{row}`"
        );
    }
}

#[test]
fn a_planted_callback_is_found() {
    let source = "
        /// pub fn commented(f: impl Fn()) {}
        pub fn plain(n: u64) -> Box<dyn Fn()> {}
        fn private(f: impl FnOnce()) {}
        pub(crate) fn inner(f: impl FnOnce()) {}
        pub fn called<F>(
            f: F,
        ) -> u64
        where
            F: FnOnce() -> u64,
        {
        }
        pub trait Planted {}
"
    .replace("\n        ", "\n");
    let method = "impl<T: Fn() -> u64> fmt::Debug for some::Thing<T> {\n    pub const fn hook(self, it: Box<dyn Hook>) -> Self {\n";
    assert_eq!(listed(&source), ["called", "trait Planted"]);
    assert_eq!(listed(method), ["Thing::hook"]);
}
