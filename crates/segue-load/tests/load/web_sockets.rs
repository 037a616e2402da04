//! `ws`: messages and their echoes; and the opening of connections, which is not a part of latency.

use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use segue_http::{Request, websocket};

use super::{Served, load, settled};

fn url(server: &Served) -> String {
    server.url().replace("http", "ws")
}

fn result(url: &str, options: &str) -> serde_json::Value {
    let output = load(url, &format!("{options} --json"));
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text} {}", String::from_utf8_lossy(&output.stderr)))
}

fn echo() -> Served {
    Served::new(|request: &mut Request<'_>| {
        websocket::accept(request, |socket| {
            while let Some(message) = socket.recv()? {
                socket.send(message)?;
            }
            Ok(())
        })
    })
}

#[test]
fn each_message_gets_its_echo() {
    let server = echo();
    let folder = std::env::temp_dir().join(format!("segue-load-messages-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for length in [0, 1, 125, 126, 5_000, 60_000] {
        let file = folder.join("message");
        std::fs::write(&file, (0..length).map(|n| n as u8).collect::<Vec<_>>()).unwrap();
        for pipeline in [1, 4] {
            let options =
                format!("--rate 200 --duration 300ms --connections 3 --pipeline {pipeline} --body {}", file.display());
            let result = result(&url(&server), &options);
            assert_eq!(settled(&result), 60, "{length}: {result}");
            assert_eq!(result["wrong"], 0, "{length}: {result}");
        }
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn an_echo_of_something_else_is_a_wrong_reply() {
    let server = Served::new(|request: &mut Request<'_>| {
        websocket::accept(request, |socket| {
            for count in 0.. {
                let Some(_) = socket.recv()? else { break };
                // The first exchange of each connection is right.
                socket.send(if count < 3 { vec![] } else { vec![1] })?;
            }
            Ok(())
        })
    });
    let result = result(&url(&server), "--rate 100 --duration 300ms --connections 1");
    assert!(result["wrong"].as_u64().unwrap() > 0, "{result}");
    assert!(result["replies"].as_u64().unwrap() > 0, "{result}");
}

#[test]
fn a_server_that_speaks_no_websocket_is_an_error_that_says_what_to_do() {
    let server = Served::new(|_| "hello");
    let output = load(&url(&server), "--rate 10");
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("does this server echo over WebSockets?") && text.contains("HTTP/1.1 200 OK"), "{text}");
}

#[test]
fn latencies_do_not_hold_the_opening_of_the_connections() {
    // One handshake after the other.
    let turn = Mutex::new(());
    let server = Served::new(move |request: &mut Request<'_>| {
        let one = turn.lock().unwrap();
        // A server whose handshakes take time is the subject.
        thread::sleep(Duration::from_millis(30));
        drop(one);
        websocket::accept(request, |socket| {
            while let Some(message) = socket.recv()? {
                socket.send(message)?;
            }
            Ok(())
        })
    });
    for threads in [1, 3] {
        let result =
            result(&url(&server), &format!("--rate 400 --duration 500ms --connections 16 --threads {threads}"));
        assert!(result["opening_ms"].as_f64().unwrap() >= 16.0 * 30.0, "{result}");
        // Of requests that wait for their connection three quarters would be.
        assert!(result["late_ms"]["100"].as_u64().unwrap() < 100, "{result}");
        assert_eq!(settled(&result), 200, "{result}");
    }
}
