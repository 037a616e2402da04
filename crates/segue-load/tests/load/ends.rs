//! Servers that are not there, go, or do not answer; and Ctrl-C.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::{Served, command, load, settled};

#[test]
fn an_unreachable_server_is_an_error_that_says_what_to_do() {
    // Nobody listens at the port of a listener that is gone.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let output = load(&format!("http://{address}/"), "--rate 10");
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("is the server running, and is this its address?"), "{text}");
    assert!(text.contains(&address.to_string()), "{text}");
}

#[test]
fn wrong_options_are_errors_that_say_what_to_do() {
    let cases = [
        ("http://localhost/", "", "--rate is missing"),
        ("http://localhost/", "--rate 0", "not a number of requests a second"),
        ("http://localhost/", "--rate 1 --duration 5x", "not a time"),
        ("http://localhost/", "--rate 1 --connections 0", "not a number from 1"),
        ("http://localhost/", "--rate 1 --connections 1 --threads 2", "more --connections"),
        ("http://localhost/", "--rate 1 --header x", "NAME: VALUE"),
        ("http://localhost/", "--rate 1 --body /nowhere/at/all", "can't read /nowhere/at/all"),
        ("localhost", "--rate 1", "not a URL"),
        ("https://localhost/", "--rate 1", "--insecure"),
        ("http://localhost/", "--rate 1 --unknown", "--unknown"),
    ];
    for (url, options, expected) in cases {
        let output = load(url, options);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(expected), "{options}: {text}");
    }
    assert!(String::from_utf8(load("--help", "").stdout).unwrap().contains("Usage: segue-load"));
}

/// Answers so many requests on each connection by hand, and then does as `end` says.
fn by_hand(replies: usize, silent: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // The thread ends with the process: the listener's clients do so before.
    thread::spawn(move || {
        for stream in listener.incoming() {
            thread::spawn(move || {
                let mut stream = stream.unwrap();
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                for _ in 0..replies {
                    while !lines.next()?.ok()?.is_empty() {}
                    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").ok()?;
                }
                if silent {
                    while lines.next().is_some_and(|line| line.is_ok()) {}
                }
                Some(())
            });
        }
    });
    format!("http://{address}/")
}

#[test]
fn a_server_that_ends_each_connection_is_counted_and_asked_again() {
    let output = load(&by_hand(5, false), "--rate 200 --duration 500ms --connections 1 --json");
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let (replies, closed) = (result["replies"].as_u64().unwrap(), result["errors"]["closed"].as_u64().unwrap());
    assert_eq!(settled(&result) + closed, 100, "{result}");
    assert!(closed > 0 && replies >= 5 * closed, "{result}");
}

#[test]
fn a_server_that_does_not_answer_is_counted() {
    let options = "--rate 100 --duration 1s --connections 2 --timeout 100ms --json";
    let result: serde_json::Value = serde_json::from_slice(&load(&by_hand(3, true), options).stdout).unwrap();
    assert!(result["errors"]["timeout"].as_u64().unwrap() >= 1, "{result}");
    // By then the program is over.
    let options = "--rate 100 --duration 300ms --connections 2 --json";
    let start = Instant::now();
    let result: serde_json::Value = serde_json::from_slice(&load(&by_hand(3, true), options).stdout).unwrap();
    assert!(start.elapsed() < Duration::from_secs(8), "the grace is two seconds, the time-out ten");
    assert_eq!(result["errors"]["unanswered"], 2, "{result}");
    let sum = [&result["replies"], &result["errors"]["unanswered"], &result["errors"]["unsent"]];
    assert_eq!(sum.map(|count| count.as_u64().unwrap()).iter().sum::<u64>(), 30, "{result}");
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_early_and_prints_the_table() {
    let server = Served::new(|_| "hello");
    let mut child = command(&server.url(), "--rate 100 --duration 1h --progress")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut progress = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    progress.read_line(&mut line).unwrap();
    assert!(line.contains("1 s") && line.contains("replies"), "{line}");
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let mut table = String::new();
    child.stdout.take().unwrap().read_to_string(&mut table).unwrap();
    assert!(child.wait().unwrap().success());
    assert!(table.contains("achieved/s") && table.contains("p99.9"), "{table}");
}
