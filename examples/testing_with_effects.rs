//! A program whose clock, network and files are effects runs in the world, and in a test in which
//! time jumps, the network fails when it is told to, and no file is written.

use segue::effect::{Effect, Handler, perform};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Declares effects: what is asked, and the type of the answer.
macro_rules! effects {
    ($($name:ident($($field:ty),*) -> $output:ty;)*) => {
        $(struct $name($($field),*); impl Effect for $name { type Output = $output; })*
    };
}
effects! {
    Now() -> Duration;
    Sleep(Duration) -> ();
    Fetch(&'static str) -> Option<String>;
    Load(&'static str) -> Option<String>;
    Store(&'static str, String) -> ();
}

/// What is to be tested: fetches a page, three times if need be with longer and longer pauses, and
/// stores it. If all fail, what was stored earlier has to do.
fn page(url: &'static str) -> Option<String> {
    for pause in [1, 2, 4].map(Duration::from_secs) {
        if let Some(text) = perform(Fetch(url)) {
            perform(Store(url, text.clone()));
            return Some(text);
        }
        perform(Sleep(pause));
    }
    perform(Load(url)).map(|text| format!("{text} (stored earlier; tried until {:?})", perform(Now())))
}

/// The world: std's clock and files. The network is not there today, and who waits for it waits in
/// milliseconds.
fn in_the_world<T>(directory: &std::path::Path, body: impl FnOnce() -> T) -> T {
    let started = Instant::now();
    Handler::new()
        .answer(|Now()| started.elapsed())
        .answer(|Sleep(pause)| std::thread::sleep(pause / 1000))
        .answer(|Fetch(_)| None)
        .answer(|Load(name)| std::fs::read_to_string(directory.join(name)).ok())
        .answer(|Store(name, text)| std::fs::write(directory.join(name), text).expect("a writable directory"))
        .handle(body)
}

/// The test's world.
#[derive(Default)]
struct World {
    now: Duration,
    files: HashMap<&'static str, String>,
    /// How many attempts will fail.
    failures: u32,
}

fn in_a_test<T>(world: World, body: impl FnOnce() -> T) -> (World, T) {
    Handler::with_state(world)
        .answer_with(|world: &mut World, Now()| world.now)
        .answer_with(|world: &mut World, Sleep(pause)| world.now += pause)
        .answer_with(|world: &mut World, Load(name)| world.files.get(name).cloned())
        .answer_with(|world: &mut World, Store(name, text)| drop(world.files.insert(name, text)))
        .answer_with(|world: &mut World, Fetch(url)| {
            let fails = world.failures > 0;
            world.failures -= u32::from(fails);
            (!fails).then(|| format!("the page {url}"))
        })
        .value_with(|world, result: T| (world, result))
        .handle(body)
}

fn main() {
    // Two attempts fail: three seconds pass, none of which anybody waits for.
    let (world, found) = in_a_test(World { failures: 2, ..World::default() }, || page("index"));
    assert_eq!((found.as_deref(), world.now), (Some("the page index"), Duration::from_secs(3)));
    // All fail: what was stored has to do.
    let (_, found) = in_a_test(World { failures: 9, ..world }, || page("index"));
    assert_eq!(found.as_deref(), Some("the page index (stored earlier; tried until 10s)"));
    let (world, found) = in_a_test(World { failures: 9, ..World::default() }, || page("index"));
    assert_eq!((found, world.failures), (None, 6));
    assert_eq!(in_the_world(&std::env::temp_dir(), || page("no such page")), None);
}
