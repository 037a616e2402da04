//! The set of threads for calls that may be left, at its limit and behind a caller who has gone.
//! Part of `apart/calls.rs`.

use super::*;
use segue_core::CancelToken;

fn cancelled() -> Cancelled {
    let token = CancelToken::new();
    token.cancel();
    token.run(segue_core::check).unwrap_err()
}

fn some_set() -> &'static Set {
    Box::leak(Box::new(Set { process: 0, state: Mutex::default(), work: Condvar::new() }))
}

#[test]
fn what_is_queued_at_the_limit_has_its_turn_when_a_thread_counts_no_more() {
    let (set, (begins, has_begun)) = (some_set(), std::sync::mpsc::channel());
    set.lock().threads = LIMIT;
    set.submit(Box::new(move || begins.send(()).unwrap())).unwrap();
    set.without_this_thread(|| has_begun.recv_timeout(Duration::from_secs(20)).expect("no thread comes"));
}

#[test]
fn a_call_that_is_left_before_its_thread_has_begun_it_is_not_made_and_counts_no_more() {
    let set = some_set();
    let apart = Apart::new(Asked::default());
    apart.end(set, Patience::Server, cancelled()).unwrap_err();
    assert_eq!(set.lock().left, 1);
    apart.make(set, Box::new(|_| panic!("the call is made")));
    assert_eq!(set.lock().left, 0, "it counts as left for ever");
}
