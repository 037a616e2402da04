//! Mistakes that users make, each with a sentence that the compiler has to say of the line below
//! it; and what must compile. Used by the step `mistakes`.

use segue::sync::{MVar, Mutex};
use segue::{Waitable, after};
use std::error::Error;
use std::time::Duration;

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

pub fn a_test_that_returns_a_number() {
    //~ a program under test returns nothing, or a `Result` with an error that has a `Debug`
    segue::Explore::random(1).check(|| 42);
}

/// An error of a join, and a cancellation, are returned as any other.
pub fn a_join_error_is_returned() -> Result<u32, Box<dyn Error + Send + Sync>> {
    after(Duration::ZERO).wait()?;
    Ok(segue::spawn(|| 42).join()?)
}

/// What the hint of the first mistake asks for.
pub async fn sources_are_chosen_and_awaited(place: &MVar<u32>, mutex: &Mutex<u32>) {
    let _: Waitable<_> = place.take_source().or(mutex.lock_source());
    drop(mutex.lock_source().await);
}
