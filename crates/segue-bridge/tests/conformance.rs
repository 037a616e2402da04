//! The contract's suite on the bridges: fibers that executors host, and fibers that tasks await.

use segue_bridge::{direct, direct_local};
use segue_conformance::Suite;

/// The children of a hosted fiber run in the default runtime.
#[test]
fn a_fiber_in_a_futures_executor() {
    Suite::new("hosted by block_on", |main| futures::executor::block_on(direct_local(main)).unwrap()).hosted().check();
}

#[test]
fn a_fiber_in_the_local_set_of_tokio() {
    Suite::new("hosted by tokio's LocalSet", |main| {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let tasks = tokio::task::LocalSet::new();
        runtime.block_on(tasks.run_until(async {
            tokio::task::spawn_local(direct_local(main)).await.unwrap().unwrap();
        }));
    })
    .hosted()
    .check();
}

#[test]
fn a_fiber_that_a_task_of_smol_awaits() {
    Suite::new("direct in smol", |main| smol::block_on(direct(main)).unwrap()).workers(2).detaches().check();
}
