//! What a destructor calls while its thread panics.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

/// Broadcasts when it is dropped.
struct Tells<'a>(&'a Mutex<Vec<usize>>);

impl Drop for Tells<'_> {
    fn drop(&mut self) {
        let indices = rayon_core::broadcast(|context| context.index());
        self.0.lock().unwrap().extend(indices);
    }
}

#[test]
fn a_broadcast_of_a_worker_that_panics_runs_on_all_workers() {
    for threads in [1, 2] {
        let pool = rayon_core::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let told = Mutex::new(Vec::new());
        let ended = pool.install(|| {
            catch_unwind(AssertUnwindSafe(|| {
                let _tells = Tells(&told);
                std::panic::resume_unwind(Box::new("told"));
            }))
        });
        assert_eq!(*ended.unwrap_err().downcast::<&str>().unwrap(), "told");
        assert_eq!(*told.lock().unwrap(), (0..threads).collect::<Vec<_>>());
    }
}
