//! Cases of pools and workers.

use crate::jobs::{Add, Fails, Greet1, Greet2, Length, Letters, Nothing, PanicsBefore, RunsOn, Takes, Trace};
use crate::jobs::{count, counted, fresh};
use crate::suite::{Make, quick};
use crate::until;
use segue::{CancelToken, WaitError, select, timeout};
use segue_remote::engine::{Envelope, Kind, Outcome};
use segue_remote::{Job, Json, RemoteError, SubmitOptions};
use std::error::Error;
use std::time::Duration;

pub fn outputs_and_errors_arrive(make: Make) {
    let made = make(quick());
    let pool = &made.pool;
    assert_eq!(pool.submit(Add { a: 40, b: 2 }).take(), Ok(Ok(42)));
    assert_eq!(pool.submit(Nothing {}).take(), Ok(Ok(())));
    let failed = pool.submit(Fails { message: "no\nluck".to_owned() }).take();
    assert_eq!(failed, Ok(Err(RemoteError::Failed("no\nluck".to_owned()))));
    let many: Vec<_> = (0..100).map(|n| pool.submit(Add { a: n, b: 1 })).collect();
    for (n, promise) in (0..).zip(many) {
        assert_eq!(promise.take(), Ok(Ok(n + 1)));
    }
    until("nothing is left", || pool.engine().signals().counts() == (0, 0));
}

pub fn a_panic_takes_an_attempt(make: Make) {
    let (made, tag) = (make(quick()), fresh("flaky"));
    let job = PanicsBefore { attempt: 3, tag: tag.clone() };
    assert_eq!(made.pool.submit(job).take(), Ok(Ok(3)));
    assert_eq!(counted(&tag), 3);
    assert_eq!(made.pool.dead_letters(10), Ok(vec![]));
}

pub fn the_last_panic_makes_a_dead_letter(make: Make) {
    let (made, tag) = (make(quick()), fresh("hopeless"));
    let job = PanicsBefore { attempt: 9, tag: tag.clone() };
    let error = made.pool.submit_with(job, SubmitOptions::new().attempts(2)).take().unwrap().unwrap_err();
    let RemoteError::GaveUp { attempts: 2, reason } = error else { panic!("{error}") };
    assert!(reason.contains("planted"), "{reason}");
    assert_eq!(counted(&tag), 2);
    until("there is a letter", || !made.pool.dead_letters(10).unwrap().is_empty());
    let letters = made.pool.dead_letters(10).unwrap();
    assert_eq!(letters.len(), 1);
    assert_eq!((letters[0].attempts, letters[0].kind.clone()), (2, Kind::new("panics_before", 1)));
    assert!(letters[0].reason.contains("planted") && letters[0].arguments.starts_with(b"{\"attempt\":9"));
}

pub fn arguments_that_do_not_parse(make: Make) {
    let made = make(quick());
    let pool = &made.pool;
    // The local pool serves a type from its first submit on.
    assert_eq!(pool.submit(Add { a: 1, b: 1 }).take(), Ok(Ok(2)));
    for (format, arguments, part) in
        [("json", "{\"a\":1}", "missing field"), ("json", "\u{0}", "do not parse"), ("pickle", "{}", "pickle")]
    {
        let job = Envelope {
            id: format!("{}-{}", pool.engine().prefix(), fresh("bad")),
            kind: Kind::new("add", 1),
            format: format.to_owned(),
            attempts: 5,
            limit: None,
            trace: None,
            arguments: arguments.as_bytes().to_vec(),
        };
        pool.engine().enqueue(&job).unwrap();
        until("it is given up", || pool.engine().read(&job.id).unwrap().is_some());
        let record = pool.engine().read(&job.id).unwrap().unwrap();
        let Outcome::GaveUp(reason) = &record.outcome else { panic!("{record:?}") };
        assert!(reason.contains(part) && record.attempt == 1, "{record:?}");
        // The letter follows the record.
        let is_last = || pool.dead_letters(10).unwrap().last().is_some_and(|letter| letter.id == job.id);
        until("its letter is there", is_last);
    }
}

pub fn a_dropped_promise_cancels(make: Make) {
    let (made, tag) = (make(quick()), fresh("dropped"));
    let promise = made.pool.submit(RunsOn { tag: tag.clone() });
    until("it runs", || counted(&format!("{tag} begun")) == 1);
    drop(promise);
    until("it is cancelled", || counted(&format!("{tag} ended")) == 1);
    until("nothing is left", || made.pool.engine().signals().counts() == (0, 0));
}

pub fn a_cancelled_wait_leaves_the_promise(make: Make) {
    let made = make(quick());
    let promise = made.pool.submit(Takes { ms: 30, tag: fresh("slow") });
    let token = CancelToken::new();
    token.cancel();
    assert!(matches!(token.run(|| promise.wait().map(drop)), Err(WaitError::Cancelled(_))));
    assert_eq!(promise.wait(), Ok(&Ok(30)));
}

/// The drop comes after so many ms, which for some jobs is before their start, for others later.
pub fn cancellation_at_each_step(make: Make) {
    let made = make(quick());
    let (pool, mut outcomes) = (&made.pool, [0, 0]);
    for n in 0..60_u64 {
        let tag = fresh("step");
        let promise = pool.submit(Takes { ms: 3, tag: tag.clone() });
        let result = timeout(Duration::from_micros(n * 150), || promise.take());
        outcomes[usize::from(result.is_ok())] += 1;
        assert!(counted(&tag) <= 1);
    }
    // A limit is another end.
    for n in 0..30_u64 {
        let limit = SubmitOptions::new().limit(Duration::from_micros(n * 300));
        match pool.submit_with(Takes { ms: 3, tag: fresh("step") }, limit).take().unwrap() {
            Ok(3) => outcomes[1] += 1,
            Err(RemoteError::TimedOut) => outcomes[0] += 1,
            other => panic!("{other:?}"),
        }
    }
    assert!(outcomes[0] > 0, "{outcomes:?}");
    // A submit of a cancelled caller.
    let token = CancelToken::new();
    token.cancel();
    let promise = token.run(|| pool.submit(Takes { ms: 3, tag: fresh("step") }));
    assert_eq!(promise.take(), Ok(Err(RemoteError::Cancelled)));
    until("nothing is left", || pool.engine().signals().counts() == (0, 0));
    assert_eq!(pool.dead_letters(10), Ok(vec![]));
}

pub fn a_limit_ends_a_job(make: Make) {
    let (made, tag) = (make(quick()), fresh("limited"));
    let limit = SubmitOptions::new().limit(Duration::from_millis(200));
    let promise = made.pool.submit_with(RunsOn { tag: tag.clone() }, limit);
    assert_eq!(promise.take(), Ok(Err(RemoteError::TimedOut)));
    let begun = counted(&format!("{tag} begun"));
    until("it is cancelled", || counted(&format!("{tag} ended")) == begun);
}

pub fn one_key_is_one_operation(make: Make) {
    let made = make(quick());
    let (pool, key, tag) = (&made.pool, fresh("order 17 of ä/b"), fresh("keyed"));
    let submit = |ms| pool.submit_with(Takes { ms, tag: tag.clone() }, SubmitOptions::new().key(&key));
    let (one, other) = (submit(40), submit(50));
    // One that is dropped is not the last of its submitters.
    drop(submit(60));
    let (one, other) = (one.take().unwrap().unwrap(), other.take().unwrap().unwrap());
    assert!(one == other, "{one} {other}");
    assert_eq!(counted(&tag), 1);
    assert_eq!(submit(70).take(), Ok(Ok(one)));
    // A program that has restarted asks.
    assert_eq!(pool.result::<Takes>(&key).take(), Ok(Ok(one)));
    assert_eq!(counted(&tag), 1);
    // The key of another job is another operation.
    let add = pool.submit_with(Add { a: 1, b: 1 }, SubmitOptions::new().key(&key));
    assert_eq!(add.take(), Ok(Ok(2)));
}

pub fn a_key_can_be_cancelled(make: Make) {
    let made = make(quick());
    let (pool, key, tag) = (&made.pool, fresh("key"), fresh("stopped"));
    let promise = pool.submit_with(RunsOn { tag: tag.clone() }, SubmitOptions::new().key(&key));
    until("it runs", || counted(&format!("{tag} begun")) == 1);
    assert_eq!(pool.cancel::<RunsOn>(&key), Ok(true));
    assert_eq!(promise.take(), Ok(Err(RemoteError::Cancelled)));
    until("it is cancelled", || counted(&format!("{tag} ended")) == 1);
    // It is its result still; a result that there was before is not.
    assert_eq!(pool.cancel::<RunsOn>(&key), Ok(true));
    assert_eq!(pool.submit_with(Add { a: 1, b: 1 }, SubmitOptions::new().key(&key)).take(), Ok(Ok(2)));
    assert_eq!(pool.cancel::<Add>(&key), Ok(false));
}

pub fn a_key_is_free_after_its_time(make: Make) {
    let made = make(quick().keep_results(Duration::from_millis(300)));
    let (pool, key, tag) = (&made.pool, fresh("key"), fresh("free"));
    for run in 1..=2 {
        let submitted = pool.submit_with(Takes { ms: 0, tag: tag.clone() }, SubmitOptions::new().key(&key));
        assert_eq!(submitted.take(), Ok(Ok(0)));
        assert_eq!(counted(&tag), run);
        until("it is too old", || pool.result::<Takes>(&key).take() == Ok(Err(RemoteError::TooOld)));
    }
}

pub fn each_job_of_a_key_has_a_letter(make: Make) {
    let made = make(quick().keep_results(Duration::from_millis(300)));
    let (pool, key, tag) = (&made.pool, fresh("key"), fresh("letters"));
    for letters in 1..=2 {
        let job = PanicsBefore { attempt: 9, tag: tag.clone() };
        let ended = pool.submit_with(job, SubmitOptions::new().key(&key).attempts(1)).take().unwrap();
        assert!(matches!(ended, Err(RemoteError::GaveUp { .. })), "{ended:?}");
        until("the letters are there", || pool.dead_letters(10).unwrap().len() == letters);
        until("it is too old", || pool.result::<PanicsBefore>(&key).take() == Ok(Err(RemoteError::TooOld)));
    }
}

#[derive(serde::Serialize)]
pub struct Unreadable;

impl<'de> serde::Deserialize<'de> for Unreadable {
    fn deserialize<D: serde::Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        panic!("planted")
    }
}

#[segue_remote::job(name = "makes_unreadable")]
pub fn makes_unreadable() -> Unreadable {
    Unreadable
}

pub fn an_output_that_panics_as_it_is_read(make: Make) {
    let made = make(quick());
    let promises = made.pool.map([MakesUnreadable {}], 1);
    let results: Vec<_> = promises.map(|result| result.map(drop)).collect();
    let [Err(RemoteError::Refused(why))] = results.as_slice() else { panic!("{results:?}") };
    assert!(why.contains("panicked"), "{why}");
}

pub fn an_old_result_is_too_old(make: Make) {
    let made = make(quick().keep_results(Duration::from_millis(300)));
    let (pool, key) = (&made.pool, fresh("key"));
    let submitted = pool.submit_with(Add { a: 1, b: 2 }, SubmitOptions::new().key(&key));
    assert_eq!(submitted.take(), Ok(Ok(3)));
    until("it is too old", || pool.result::<Add>(&key).take() == Ok(Err(RemoteError::TooOld)));
    assert_eq!(pool.result::<Add>("never").take(), Ok(Err(RemoteError::TooOld)));
}

pub fn submit_waits_for_room(make: Make) {
    let (made, tag) = (make(quick().max_jobs(2)), fresh("full"));
    let pool = &made.pool;
    let two = [(); 2].map(|()| pool.submit(RunsOn { tag: tag.clone() }));
    let begun = format!("{tag} begun");
    until("both run", || counted(&begun) == 2);
    let third = timeout(Duration::from_millis(100), || pool.submit(Add { a: 1, b: 2 }));
    assert_eq!(third.take(), Ok(Err(RemoteError::Cancelled)));
    drop(two);
    assert_eq!(pool.submit(Add { a: 1, b: 2 }).take(), Ok(Ok(3)));
}

pub fn map_keeps_its_bound(make: Make) {
    let (made, tag) = (make(quick()), fresh("map"));
    let jobs = (0..20).map(|n| {
        count(&tag);
        Takes { ms: n % 3, tag: String::new() }
    });
    let mut results = made.pool.map(jobs, 4);
    for n in 0..20 {
        assert_eq!(results.next(), Some(Ok(n % 3)));
        assert!(counted(&tag) <= n + 4, "{} were submitted before the result of {n}", counted(&tag));
    }
    assert_eq!(results.next(), None);
}

pub fn two_versions_side_by_side(make: Make) {
    let made = make(quick());
    let (old, new) = (Greet1 { name: "Ada".to_owned() }, Greet2 { name: "Ada".to_owned(), times: 2 });
    assert_eq!(made.pool.submit(old).take(), Ok(Ok("hello Ada".to_owned())));
    assert_eq!(made.pool.submit(new).take(), Ok(Ok(vec!["hello Ada".to_owned(); 2])));
}

pub fn a_span_travels(make: Make) {
    let made = make(quick());
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let promise = made.pool.submit_with(Trace {}, SubmitOptions::new().trace(parent));
    assert_eq!(promise.take(), Ok(Ok(Some(parent.to_owned()))));
    assert_eq!(made.pool.submit(Trace {}).take(), Ok(Ok(None)));
}

pub fn promises_are_sources(make: Make) {
    let made = make(quick());
    let (mut never, mut soon) =
        (made.pool.submit(RunsOn { tag: fresh("never") }), made.pool.submit(Add { a: 2, b: 2 }));
    let first = select! {
        _ = never.take_source() => None,
        sum = soon.take_source() => Some(sum),
    };
    assert_eq!(first, Ok(Some(Ok(Ok(4)))));
    // A thread, and a task.
    let promise = made.pool.submit(Add { a: 2, b: 3 });
    assert_eq!(std::thread::spawn(move || promise.take()).join().unwrap(), Ok(Ok(5)));
    let promise = made.pool.submit(Add { a: 3, b: 3 });
    let task = segue::spawn_task(async move { promise.wait_source().await.cloned() });
    assert_eq!(task.join().unwrap(), Ok(Ok(6)));
}

#[derive(serde::Serialize, serde::Deserialize)]
struct Misnamed;

impl Job for Misnamed {
    const NAME: &'static str = "two words";
    const VERSION: u32 = 1;
    type Output = ();
    type Format = Json;

    fn run(self) -> Result<(), Box<dyn Error + Send + Sync>> {
        Ok(())
    }
}

pub fn bad_submissions_are_refused(make: Make) {
    let made = make(quick());
    let pool = &made.pool;
    let add = || Add { a: 1, b: 1 };
    let said = |promise: segue::sync::Promise<Result<u64, RemoteError>>| match promise.take().unwrap() {
        Err(RemoteError::Refused(why)) => why,
        other => panic!("{other:?}"),
    };
    assert!(matches!(pool.submit(Misnamed).take(), Ok(Err(RemoteError::Refused(_)))));
    let long = "k".repeat(129);
    assert!(said(pool.submit_with(add(), SubmitOptions::new().key(&long))).contains("129 bytes"));
    assert!(said(pool.result::<Add>(&long)).contains("129 bytes"));
    assert!(matches!(pool.cancel::<Add>(&long), Err(RemoteError::Refused(_))));
    assert!(matches!(pool.cancel::<Misnamed>("k"), Err(RemoteError::Refused(_))));
    assert!(matches!(pool.result::<Misnamed>("k").take(), Ok(Err(RemoteError::Refused(_)))));
    for trace in ["two\nlines", "ä", &"t".repeat(1025)] {
        assert!(said(pool.submit_with(add(), SubmitOptions::new().trace(trace))).contains("printable"));
    }
    // The longest key is fine, also of bytes that are written as three.
    let key = SubmitOptions::new().key(&" ".repeat(128));
    assert_eq!(pool.submit_with(add(), key).take(), Ok(Ok(2)));
    assert_eq!(pool.submit(Letters { number: 0 }).take(), Ok(Ok(String::new())));
    assert_eq!(pool.submit(Length { text: "ä\u{0}".to_owned() }).take(), Ok(Ok(3)));
}
