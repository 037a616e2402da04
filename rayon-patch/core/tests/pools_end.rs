//! The end of a pool: all of its threads end, after what was spawned in it.

use rayon_core::{ThreadPoolBuilder, join};
use std::cell::OnceCell;
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

/// The library's own variable is younger than the one whose destructor builds a pool, and gone.
#[test]
fn a_thread_that_ends_is_no_number_0_of_a_pool_and_says_so() {
    struct Builds(mpsc::Sender<Result<(), String>>);
    impl Drop for Builds {
        fn drop(&mut self) {
            let pool = ThreadPoolBuilder::new().num_threads(2).use_current_thread().build();
            self.0.send(pool.map(drop).map_err(|error| error.to_string())).unwrap();
        }
    }
    thread_local!(static BUILDS: OnceCell<Builds> = const { OnceCell::new() });
    let (send, receive) = mpsc::channel();
    let thread = std::thread::spawn(|| {
        BUILDS.with(|builds| builds.get_or_init(|| Builds(send)).0.send(Ok(())).unwrap());
        drop(ThreadPoolBuilder::new().num_threads(2).use_current_thread().build().unwrap());
    });
    thread.join().unwrap();
    let told: Vec<_> = receive.iter().collect();
    assert!(matches!(&told[..], [Ok(()), Err(error)] if error.contains("the thread ends")), "{told:?}");
}
