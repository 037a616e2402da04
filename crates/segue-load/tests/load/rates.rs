//! The schedule: each request is due at its instant, and waits count.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use super::{Served, settled};

#[test]
fn each_request_of_the_schedule_is_sent_over_any_threads_and_connections() {
    let server = Served::new(|_| "hello");
    for options in ["", "--connections 1 --threads 1", "--connections 5 --threads 3", "--connections 2 --pipeline 8"] {
        let (status, result) = server.load(&format!("--rate 400 --duration 500ms {options}"));
        assert_eq!(status, Some(0), "{options}");
        assert_eq!(settled(&result), 200, "{options}: {result}");
    }
}

/// A server that answers everything at once, but for one request, and its one connection.
fn stalls_once(time: Duration) -> Served {
    let count = AtomicUsize::new(0);
    Served::new(move |_| {
        if count.fetch_add(1, Ordering::Relaxed) == 50 {
            // The stall is the subject.
            thread::sleep(time);
        }
        "hello"
    })
}

#[test]
fn a_stall_shows_in_all_requests_that_were_due_meanwhile() {
    let server = stalls_once(Duration::from_millis(200));
    let (_, result) = server.load("--rate 500 --duration 1s --connections 1");
    assert_eq!(settled(&result), 500, "{result}");
    // Of 100 that were due in the stall, those of its first 100 ms have waited for as long.
    let late = result["late_ms"]["100"].as_u64().unwrap();
    assert!(late >= 45, "{result}");
    assert!(result["latency_us"]["p99"].as_f64().unwrap() > 100_000.0, "{result}");
}

#[test]
fn a_closed_loop_sees_one_late_request_in_the_same_stall() {
    let server = stalls_once(Duration::from_millis(200));
    let (_, result) = server.load("--rate max --duration 1s --connections 1");
    let late = result["late_ms"]["100"].as_u64().unwrap();
    assert!((1..45).contains(&late), "{result}");
    assert!(result["replies"].as_u64().unwrap() > 50, "{result}");
}

#[test]
fn requests_that_find_no_connection_before_the_end_are_counted() {
    let server = Served::new(|_| {
        // A server that answers at most 20 requests a second is the subject.
        thread::sleep(Duration::from_millis(50));
        "hello"
    });
    let (status, result) = server.load("--rate 200 --duration 500ms --connections 1");
    let (replies, unsent) = (result["replies"].as_u64().unwrap(), result["errors"]["unsent"].as_u64().unwrap());
    assert_eq!(status, Some(0));
    assert!(replies <= 11, "{result}");
    assert_eq!(replies + unsent, 100, "{result}");
}
