//! On fibers whose worker has a driver, the shared one is not even started. Alone in its process,
//! which must not have started it.
#![cfg(target_os = "linux")]

mod common;

use common::{BACKENDS, enlist, on_one_worker, pair};

fn shared_driver_runs() -> bool {
    let names = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    names
        .filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok())
        .any(|name| name.trim() == "segue-io")
}

#[test]
fn a_fibers_socket_is_watched_by_its_workers_driver() {
    for backend in BACKENDS {
        on_one_worker(backend, || {
            let (_client, server) = pair();
            enlist(&server);
        });
        assert!(!shared_driver_runs(), "{backend:?}");
    }
    let (_client, server) = pair();
    enlist(&server);
    assert!(shared_driver_runs(), "the thread can't be seen: nothing was tested");
}
