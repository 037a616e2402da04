//! One table of cases, for each engine.
//!
//! Each case gets a way to make pools: a pool of the local engine runs its jobs itself, one of NATS
//! has a worker beside it, in this process.

use crate::{pools, seam};
use segue_remote::{Options, Pool};

/// Makes the pool of a case, with these settings.
pub type Make<'a> = &'a dyn Fn(Options) -> Made;

/// A pool whose jobs are run, until this is dropped.
pub struct Made {
    pub pool: Pool,
    /// The worker, if the pool has none of its own, and the fibers.
    _running: Vec<Box<dyn Send>>,
}

type Case = (&'static str, fn(Make));

const CASES: &[Case] = &[
    ("seam: a job goes through", seam::a_job_goes_through),
    ("seam: the first record counts", seam::the_first_record_counts),
    ("seam: a silent worker loses its job", seam::a_silent_worker_loses_its_job),
    ("seam: a lease that is extended stays", seam::a_lease_that_is_extended_stays),
    ("seam: what is put back comes again", seam::what_is_put_back_comes_again),
    ("seam: a job is given up once", seam::a_job_is_given_up_once),
    ("seam: one id is in the queue once", seam::one_id_is_in_the_queue_once),
    ("seam: versions share a key", seam::versions_share_a_key),
    ("seam: what is given back keeps its attempt", seam::what_is_given_back_keeps_its_attempt),
    ("seam: a withdrawn job is leased no more", seam::a_withdrawn_job_is_leased_no_more),
    ("seam: a kind is known once it is leased", seam::a_kind_is_known_once_it_is_leased),
    ("seam: a full queue says so", seam::a_full_queue_says_so),
    ("seam: a wait for a lease is cancelled", seam::a_wait_for_a_lease_is_cancelled),
    ("outputs and errors arrive", pools::outputs_and_errors_arrive),
    ("a panic takes an attempt", pools::a_panic_takes_an_attempt),
    ("the last panic makes a dead letter", pools::the_last_panic_makes_a_dead_letter),
    ("arguments that do not parse", pools::arguments_that_do_not_parse),
    ("a dropped promise cancels", pools::a_dropped_promise_cancels),
    ("a cancelled wait leaves the promise", pools::a_cancelled_wait_leaves_the_promise),
    ("cancellation at each step", pools::cancellation_at_each_step),
    ("a limit ends a job", pools::a_limit_ends_a_job),
    ("one key is one operation", pools::one_key_is_one_operation),
    ("a key can be cancelled", pools::a_key_can_be_cancelled),
    ("a key is free after its time", pools::a_key_is_free_after_its_time),
    ("each job of a key has a letter", pools::each_job_of_a_key_has_a_letter),
    ("an output that panics as it is read", pools::an_output_that_panics_as_it_is_read),
    ("an old result is too old", pools::an_old_result_is_too_old),
    ("submit waits for room", pools::submit_waits_for_room),
    ("map keeps its bound", pools::map_keeps_its_bound),
    ("two versions side by side", pools::two_versions_side_by_side),
    ("a span travels", pools::a_span_travels),
    ("promises are sources", pools::promises_are_sources),
    ("bad submissions are refused", pools::bad_submissions_are_refused),
];

fn run(make: Make) {
    for (name, case) in CASES {
        println!("-- {name}");
        case(make);
    }
}

/// Settings of which all times are short.
pub fn quick() -> Options {
    use std::time::Duration;
    Options::new(&crate::jobs::fresh("case"))
        .ack_wait(Duration::from_secs(2))
        .reread_every(Duration::from_millis(50))
        .retry_after(Duration::from_millis(1))
        .log(|line| println!("   {line}"))
}

#[test]
fn the_local_engine_passes_the_suite() {
    let make = |options: Options| {
        let fibers = segue::runtime().workers(2).pool().unwrap();
        let pool = Pool::local_with(&fibers, options);
        Made { pool, _running: vec![Box::new(fibers)] }
    };
    run(&make);
}

#[test]
fn a_job_of_a_local_pool_that_computes_keeps_its_lease() {
    use crate::jobs::{Spins, counted, fresh};
    let fibers = segue::runtime().workers(1).pool().unwrap();
    let pool = Pool::local_with(&fibers, quick().ack_wait(std::time::Duration::from_millis(50)));
    let tag = fresh("computes");
    let promise = pool.submit(Spins { ms: 300, tag: tag.clone() });
    crate::until("it runs", || counted(&tag) == 1);
    let mut leases = pool.engine().lease(&segue_remote::engine::Kind::new("spins", 1)).unwrap();
    let other = segue::timeout(std::time::Duration::from_millis(200), || leases.next(1));
    assert!(other.is_err(), "{other:?}");
    assert_eq!(promise.take(), Ok(Ok(300)));
    assert_eq!(counted(&tag), 1);
}

#[cfg(feature = "nats")]
mod on_nats {
    use super::*;
    use crate::jobs::with_all;
    use crate::server::{Server, Stop};
    use segue_remote::Worker;

    #[test]
    fn the_server_of_nats_passes_the_suite() {
        let Some(server) = Server::start() else { return };
        let make = |options: Options| {
            let pool = Pool::nats(&server.url(), options).unwrap();
            let worker = Stop::of(with_all(Worker::new(pool.clone())));
            Made { pool, _running: vec![Box::new(worker)] }
        };
        run(&make);
    }
}
