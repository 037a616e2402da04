//! The end of a pool: all of its threads end, after what was spawned in it.

use rayon_core::{ThreadPoolBuilder, join};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};

fn join_a_lot(n: usize) {
    if n > 0 {
        join(|| join_a_lot(n - 1), || join_a_lot(n - 1));
    }
}

#[test]
fn pools_end() {
    let (send, ended) = mpsc::channel();
    let pool = ThreadPoolBuilder::new().num_threads(5).exit_handler(move |index| send.send(index).unwrap());
    let pool = pool.build().unwrap();
    pool.install(|| join_a_lot(10));
    let ran = Arc::new(AtomicUsize::new(0));
    for _ in 0..100 {
        let ran = Arc::clone(&ran);
        pool.spawn(move || drop(ran.fetch_add(1, SeqCst)));
    }
    drop(pool);
    // Until the last thread has dropped the handler.
    let mut ended: Vec<usize> = ended.into_iter().collect();
    ended.sort_unstable();
    assert_eq!(ended, [0, 1, 2, 3, 4]);
    assert_eq!(ran.load(SeqCst), 100);
}
