//! Mistakes that users make, each with a sentence that the compiler has to say of the line below
//! it; and what must compile. Used by the step `mistakes`.

use segue::channel::Receiver;
use segue::incremental::{Fed, Feed, Machine, push};
use segue::sync::{MVar, Mutex};
use segue::{Cancelled, Waitable, after, select};
use std::error::Error;
use std::io::BufRead;
use std::time::{Duration, Instant};

/// What waits at once, where something to wait for is asked for.
pub fn an_operation_is_chosen(first: &MVar<u32>, second: &MVar<u32>) {
    //~ `Result<u32, segue::Cancelled>` is nothing that can be waited for
    //~ an operation `x` waits at once and yields its result
    //~ to choose or await it write `x_source`: `recv_source()` instead of `recv()`
    let _ = first.take_source().or(second.take());
}

pub fn a_lock_is_chosen(mutex: &Mutex<u32>) {
    //~ is nothing that can be waited for
    //~ `lock_source()` instead of `lock()`
    let _ = after(Duration::ZERO).or_else(mutex.lock());
}

pub fn a_result_is_waited_for(place: &MVar<u32>) {
    //~ not a source
    //~ to choose or await it write `x_source`
    let _ = segue::core::wait(&mut place.take());
}

/// The sentence is of std's `Future`, which knows no `lock_source`.
pub async fn a_lock_is_awaited(mutex: &Mutex<u32>) {
    //~ is not a future
    //~ remove the `.await`
    let _ = mutex.lock().await;
}

/// It is said of the expression itself first, and then of what has become of it.
pub fn an_operation_is_an_arm(inbox: &Receiver<u32>) {
    //~ `any_of`
    let _ = select! {
        //~ `Result<u32, WaitError>` is nothing that can be waited for
        //~ to choose or await it write `x_source`: `recv_source()` instead of `recv()`
        word = inbox.recv() => word.is_ok(),
        () = after(Duration::ZERO) => false,
    };
}

pub fn a_pattern_takes_some_outputs_only(inbox: &Receiver<u32>) {
    let _ = select! {
        //~ refutable pattern in local binding
        //~ pattern `Err(_)` not covered
        Ok(word) = inbox.recv_source() => word,
        () = after(Duration::ZERO) => 0,
    };
}

pub fn bodies_yield_different_types(inbox: &Receiver<u32>) {
    let _ = select! {
        word = inbox.recv_source() => word.is_ok(),
        //~ expected `bool`, found `&str`
        () = after(Duration::ZERO) => "late",
    };
}

pub fn a_comma_is_missing(inbox: &Receiver<u32>) {
    //~ `select!` expected `pattern = source => body,`
    //~ (the comma may be left away behind a block)
    //~ and found `word = inbox.recv_source() => word.is_ok() () =
    let _ = select! {
        word = inbox.recv_source() => word.is_ok()
        () = after(Duration::ZERO) => false,
    };
}

pub fn an_arm_has_no_pattern(inbox: &Receiver<u32>) {
    //~ `select!` expected `pattern = source => body,`
    let _ = select! { inbox.recv_source() => true, default => false };
}

pub fn a_condition_has_no_comma(inbox: &Receiver<u32>) {
    //~ `pattern = source, if condition => body,`
    let _ = select! { word = inbox.recv_source() if true => word.is_ok(), default => false };
}

pub fn thirteen_arms() {
    let now = after(Duration::ZERO);
    //~ `select!` takes up to twelve arms; for more, `any_of` takes a `Vec` of sources
    let _ = select! {
        () = now => 1, () = now => 2, () = now => 3, () = now => 4, () = now => 5, () = now => 6, () = now => 7,
        () = now => 8, () = now => 9, () = now => 10, () = now => 11, () = now => 12, () = now => 13,
    };
}

pub fn no_arm() {
    //~ `select!` without an arm `pattern = source => body` has nothing to choose from
    let _ = select! {};
}

pub fn a_choice_without_a_wait_has_a_deadline(inbox: &Receiver<u32>) {
    //~ `select!` with `default` never waits, so it can't have a `deadline`
    let _ = select! { word = inbox.recv_source() => word.ok(), default => None, deadline(Instant::now()) => None };
}

pub async fn it_is_biased_before_it_is_awaited(inbox: &Receiver<u32>) {
    //~ in `select!` the order is `await; biased;`
    let _ = select! { biased; await; word = inbox.recv_source() => word };
}

pub async fn a_choice_is_awaited_from_outside(inbox: &Receiver<u32>) {
    //~ is not a future
    //~ remove the `.await`
    let _ = select! { word = inbox.recv_source() => word, }.await;
}

pub fn a_choice_is_awaited_in_a_fiber(inbox: &Receiver<u32>) {
    //~ `await` is only allowed inside `async` functions and blocks
    let _ = select! { await; word = inbox.recv_source() => word };
}

/// What is borrowed has to live as long as the scope, whatever runs in it.
pub fn a_fiber_borrows_what_the_body_owns() {
    segue::scope(|s| {
        let word = String::from("short");
        //~ closure may outlive the current function, but it borrows `word`
        s.spawn(|| word.len());
        //~ closure may outlive the current function, but it borrows `word`
        s.spawn_daemon(|| word.len());
        //~ closure may outlive the current function, but it borrows `word`
        s.spawn_local(|| word.len());
        //~ closure may outlive the current function, but it borrows `word`
        s.on_exit(Duration::MAX, || drop(word.len()));
        //~ closure may outlive the current function, but it borrows `word`
        segue::Builder::new().after(Duration::ZERO).within(s).spawn(|| word.len());
        //~ closure may outlive the current function, but it borrows `word`
        segue::Builder::new().within(s).spawn(|| word.len());
        //~ closure may outlive the current function, but it borrows `word`
        segue::Builder::new().within(s).local().spawn(|| word.len());
        //~ async block may outlive the current function, but it borrows `word`
        s.spawn_task(async { word.len() });
    });
}

/// A handle may leave the scope, and the borrow in its result may not.
pub fn a_result_borrows_what_the_scope_outlives() {
    let kept;
    {
        let word = String::from("short");
        //~ `word` does not live long enough
        kept = segue::scope(|s| Some(s.spawn(|| &word[..])));
    }
    drop(kept);
}

/// The promise may be dropped anywhere, and whenever.
pub fn a_hook_borrows() {
    let (resolver, _promise) = segue::sync::promise::<u32>();
    let word = String::from("short");
    //~ closure may outlive the current function, but it borrows `word`
    resolver.on_close(|| drop(word.len()));
}

pub fn a_hook_is_not_send() {
    let (resolver, _promise) = segue::sync::promise::<u32>();
    let count = std::rc::Rc::new(1);
    //~ `Rc<i32>` cannot be sent between threads safely
    resolver.on_close(move || drop(count));
}

pub fn a_fiber_takes_what_is_not_send() {
    let count = std::rc::Rc::new(1);
    segue::try_scope(|s| {
        let own = count.clone();
        //~ `Rc<i32>` cannot be sent between threads safely
        s.spawn_try(move || Ok::<_, Cancelled>(*own));
        // This one stays on its worker.
        s.spawn_local(move || *count);
        Ok::<_, Cancelled>(())
    })
    .unwrap();
}

pub fn a_detached_fiber_borrows() {
    let word = String::from("short");
    //~ closure may outlive the current function, but it borrows `word`
    segue::Builder::new().name("counts").spawn(|| word.len());
    //~ closure may outlive the current function, but it borrows `word`
    segue::Builder::new().on(segue::sched::default_pool()).spawn(|| word.len());
}

/// A local fiber begins on its worker at once, and has that worker's scheduler.
pub fn a_local_fiber_begins_later_or_elsewhere() {
    segue::scope(|s| {
        //~ method cannot be called due to unsatisfied trait bounds
        segue::Builder::new().within(s).local().after(Duration::ZERO).spawn(|| ());
        //~ no method named `on` found
        segue::Builder::new().within(s).local().on(segue::sched::default_pool()).spawn(|| ());
    });
}

/// Only the fibers of a `try_scope` fail it by an error.
pub fn a_fiber_of_a_scope_fails_it() {
    segue::scope(|s| {
        //~ no method named `spawn_try` found
        segue::Builder::new().within(s).spawn_try(|| Ok::<_, Cancelled>(()));
    });
}

pub fn what_begins_later_takes_what_is_not_send() {
    let count = std::rc::Rc::new(1);
    //~ `Rc<i32>` cannot be sent between threads safely
    segue::Builder::new().after(Duration::ZERO).spawn(move || *count);
}

pub fn a_test_that_returns_a_number() {
    //~ a program under test returns nothing, or a `Result` with an error that has a `Debug`
    segue::testing::Explore::random(1).check(|| 42);
}

pub fn a_join_error_is_returned_as_a_cancellation() -> Result<u32, Cancelled> {
    //~ `?` couldn't convert the error
    //~ its fiber may have panicked: `.map_err(segue::JoinError::into_cancelled)?`
    //~ raises such a panic here and returns the cancellation
    //~ or return a `JoinError`, or a boxed error
    Ok(segue::spawn(|| 42).join()?)
}

pub async fn an_awaited_one_is_as_well() -> Result<u32, Cancelled> {
    //~ its fiber may have panicked: `.map_err(segue::JoinError::into_cancelled)?`
    Ok(segue::spawn(|| 42).await?)
}

/// As that says.
pub fn its_cancellation_is_returned_and_its_panic_raised() -> Result<u32, Cancelled> {
    segue::spawn(|| 42).join().map_err(segue::JoinError::into_cancelled)
}

/// An error of a join, and a cancellation, are returned as any other.
pub fn a_join_error_is_returned() -> Result<u32, Box<dyn Error + Send + Sync>> {
    after(Duration::ZERO).wait()?;
    Ok(segue::spawn(|| 42).join()?)
}

pub fn a_machine_goes_to_another_thread(mut machine: Machine<'static, u32>) {
    //~ cannot be sent between threads safely
    std::thread::spawn(move || machine.feed(b"more") == Fed::NeedMore);
}

pub fn a_slice_outlives_its_feed() {
    let mut kept: &[u8] = &[];
    segue::effect::region(|region| {
        //~ borrowed data escapes outside of closure
        let mut machine = region.push(|input: &mut Feed| kept = input.fill_buf().unwrap());
        _ = machine.feed(b"lent");
    });
    _ = kept;
}

pub fn a_body_feeds_itself() {
    segue::effect::region(|region| {
        let mut machine = region.push(|_: &mut Feed| 0);
        //~ cannot assign to `machine` because it is borrowed
        machine = region.push(|_: &mut Feed| if machine.feed(b"more") == Fed::NeedMore { 1 } else { 2 });
        _ = machine.feed(b"");
    });
}

pub fn a_machine_is_finished_twice() {
    let machine = push(|input: &mut Feed| input.lines().count());
    machine.finish();
    //~ use of moved value: `machine`
    machine.finish();
}

/// A channel that was closed is an error as any other, and so is a value that came back.
pub fn an_end_is_returned(inbox: &Receiver<u32>, place: &MVar<u32>) -> Result<u32, Cancelled> {
    let word = select! {
        word = inbox.recv_source() => word?,
        deadline(Instant::now()) => { 0 }
    }?;
    place.put(word)?;
    Ok(inbox.recv()?)
}

/// What the hint of the first mistake asks for.
pub async fn sources_are_chosen_and_awaited(place: &MVar<u32>, mutex: &Mutex<u32>) {
    let _: Waitable<_> = place.take_source().or(mutex.lock_source());
    drop(mutex.lock_source().await);
}
