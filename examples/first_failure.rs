//! The first failure stops the rest: three downloads, of which one fails, and what the scope says.
//!
//! In a simulation, so that it takes no time.

use segue::testing::Sim;
use segue::{Builder, Cancelled, now, sleep, try_scope};
use std::time::Duration;

/// Takes so many seconds, and fails at the end if it is to.
fn download(seconds: u64, fails: bool) -> Result<u64, Box<dyn std::error::Error + Send + Sync>> {
    sleep(Duration::from_secs(seconds))?;
    if fails { Err("404: no such page".into()) } else { Ok(seconds) }
}

fn main() {
    let (error, took) = Sim::new(7)
        .run(|| {
            let before = now();
            let error = try_scope(|s| {
                Builder::new().name("news").within(s).spawn_try(|| download(60, false));
                Builder::new().name("weather").within(s).spawn_try(|| download(2, true));
                Builder::new().name("sports").within(s).spawn_try(|| {
                    // What it has begun it finishes, and it says why it ends.
                    download(60, false).map_err(|error| format!("half of the sports: {error}"))
                });
                Ok::<_, Cancelled>(())
            });
            (error.unwrap_err(), now() - before)
        })
        .unwrap();
    println!("after {took:?}: {error}");
    assert_eq!(took, Duration::from_secs(2), "nobody waits for the others");
    assert_eq!(error.first().fiber(), Some("weather"));
    // The news has only been cancelled; the sports has an error of its own.
    let later: Vec<_> = error.later().iter().map(ToString::to_string).collect();
    assert_eq!(later, ["fiber `sports` failed: half of the sports: cancelled: 404: no such page"]);
}
