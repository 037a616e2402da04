//! Items worked on by a few fibers at a time, with the results in order; what is cut short loses
//! neither results nor items. It runs in simulated time: the times are exact.

use segue::concurrent::{Retry, at_most};
use segue::testing::Sim;
use segue::{now, sleep, timeout};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

const PAGE: Duration = Duration::from_millis(10);

fn main() {
    let run = Sim::new(1).run(|| {
        let pages = ["index", "news", "prices", "jobs", "contact", "map", "legal"];
        let start = now();
        // Three at a time, so seven take three rounds. The closure borrows what it likes.
        let fetched = AtomicU32::new(0);
        let lengths = at_most(3).map(pages, |page| {
            sleep(PAGE)?;
            fetched.fetch_add(1, Relaxed);
            Ok::<_, segue::Cancelled>(page.len())
        });
        let lengths: Result<Vec<usize>, _> = lengths.unwrap().into_iter().collect();
        assert_eq!((lengths.unwrap(), fetched.into_inner()), (vec![5, 4, 6, 4, 7, 3, 5], 7));
        assert_eq!(now() - start, 3 * PAGE);

        // A page that is busy now and then is asked again; the others go on meanwhile.
        let retry = Retry::new(4).first_pause(PAGE).jitter(0.0);
        let patient = at_most(3).map(pages.iter().enumerate(), |(number, page)| {
            retry.run(|attempt| if number == 1 && attempt < 3 { Err("busy") } else { Ok((page, attempt)) })
        });
        assert_eq!(patient.unwrap()[1], Ok((&"news", 3)));

        // Time is up after two rounds: six results are there, and the seventh page is still to do.
        let mut left = pages.into_iter();
        let limit = 2 * PAGE + PAGE / 2;
        let late = timeout(limit, || at_most(3).map(left.by_ref(), |page| sleep(PAGE).map(|()| page))).unwrap();
        assert_eq!(late.iter().filter(|result| result.is_ok()).count(), 6);
        let late = timeout(limit, || at_most(1).map(pages, |page| sleep(PAGE).map(|()| page))).unwrap_err();
        assert_eq!((late.results.len(), late.error.timed_out()), (3, true));

        // A question ends with the first that answers it.
        let start = now();
        assert!(at_most(2).any(pages, |page| sleep(PAGE).is_ok() && page == "prices").unwrap());
        assert_eq!(now() - start, 2 * PAGE);
    });
    run.expect("no deadlock");
    println!("seven pages, three at a time");
}
