//! Files over sockets: on plain threads, and in fibers over each driver.

use crate::common::{plain, replies};
use crate::{Scratch, bytes, one_file};
use segue_core::{scope, shield};
use segue_http::{Files, Payload, Request, Response, Server};
use segue_io::net::{TcpListener, UnixStream};
use segue_io::{Backend, DriverPark};
use segue_sched::Runtime;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::thread;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);

/// Runs a test in a fiber over readiness, and over the best that there is: on Linux a ring, unless
/// the environment names another driver.
fn over_each_driver(test: impl Fn() + Sync) {
    for backend in [Backend::Native, Backend::Auto] {
        Runtime::new().workers(2).park(move || DriverPark::with(backend)).run(&test).unwrap();
    }
}

/// Serves while the client, a thread, talks.
fn with_client(server: &Server<'_>, client: impl FnOnce(SocketAddr) + Send) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let shutdown = server.shutdown_handle();
    thread::scope(|threads| {
        let client = threads.spawn(move || {
            // However the client ends.
            struct End(segue_http::Shutdown);
            impl Drop for End {
                fn drop(&mut self) {
                    self.0.shutdown();
                }
            }
            let _end = End(shutdown);
            client(address);
        });
        server.serve(listener).unwrap();
        client.join().unwrap();
    });
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn pages(dir: &Scratch) -> impl Fn(&mut Request<'_>) -> Response + Send + Sync {
    let files = Files::new(&dir.0).unwrap();
    move |request| match request.uri().path() {
        "/hello" => Response::new(Payload::from("hello")),
        _ => files.respond(request),
    }
}

#[test]
fn a_large_file_a_range_and_requests_behind_them_come_by_one_connection() {
    let dir = Scratch::new();
    let content = bytes(5_000_000);
    dir.file("large", &content);
    dir.file("small", b"small");
    over_each_driver(|| {
        let server = Server::new(pages(&dir)).config(plain());
        with_client(&server, |address| {
            for _ in 0..3 {
                let mut stream = connect(address);
                let get = |path: &str, lines: &str| format!("GET {path} HTTP/1.1\r\nHost: h\r\n{lines}\r\n");
                let requests = [
                    get("/hello", ""),
                    get("/large", ""),
                    get("/small", ""),
                    get("/large", "Range: bytes=1000000-2999999\r\n"),
                    get("/hello", ""),
                    get("/large", "Range: bytes=0-99999,200000-299999\r\n"),
                    get("/none", "Connection: close\r\n"),
                ];
                stream.write_all(requests.concat().as_bytes()).unwrap();
                let mut output = Vec::new();
                stream.read_to_end(&mut output).unwrap();
                let replies = replies(&output, &[]);
                let statuses: Vec<_> = replies.iter().map(|reply| reply.status).collect();
                assert_eq!(statuses, [200, 200, 200, 206, 200, 206, 404]);
                assert!(replies.iter().all(|reply| reply.complete));
                assert!(replies[1].body == content && replies[3].body == content[1_000_000..3_000_000]);
                assert!((&*replies[2].body, &*replies[4].body) == (b"small", b"hello"));
                assert!(replies[5].body.windows(100_000).any(|part| part == &content[200_000..300_000]));
            }
        });
    });
}

#[test]
fn an_older_client_gets_the_whole_file_and_the_end() {
    let dir = Scratch::new();
    let content = bytes(1_000_000);
    dir.file("large", &content);
    over_each_driver(|| {
        let server = Server::new(pages(&dir)).config(plain());
        with_client(&server, |address| {
            let mut stream = connect(address);
            stream.write_all(b"GET /large HTTP/1.0\r\n\r\n").unwrap();
            let mut output = Vec::new();
            stream.read_to_end(&mut output).unwrap();
            let replies = replies(&output, &[]);
            assert!(replies.len() == 1 && replies[0].complete && replies[0].body == content);
        });
    });
}

#[test]
fn a_client_that_goes_away_ends_its_connection_alone() {
    let dir = Scratch::new();
    dir.file("large", bytes(20_000_000));
    over_each_driver(|| {
        let server = Server::new(pages(&dir)).config(plain());
        with_client(&server, |address| {
            let gone: Vec<_> = (0..20)
                .map(|_| {
                    let mut stream = connect(address);
                    stream.write_all(b"GET /large HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
                    stream.read_exact(&mut [0; 1000]).unwrap();
                    stream
                })
                .collect();
            drop(gone);
            let mut stream = connect(address);
            stream.write_all(b"GET /hello HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).unwrap();
            assert!(text.ends_with("hello"));
        });
    });
}

#[test]
fn a_client_that_takes_nothing_or_a_byte_at_a_time_is_given_up() {
    let dir = Scratch::new();
    let path = dir.file("large", bytes(5_000_000));
    over_each_driver(|| {
        for takes in [false, true] {
            let config = plain().write_timeout(Duration::from_millis(50)).linger_timeout(Duration::ZERO);
            let server = Server::new(one_file(&path)).config(config);
            let (mut client, stream) = UnixStream::pair().unwrap();
            client.write_all(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
            scope(|s| {
                let serving = s.spawn(|| server.serve_connection(stream));
                while takes && !serving.is_finished() {
                    client.read_exact(&mut [0]).unwrap();
                    segue_core::sleep(Duration::from_millis(1)).unwrap();
                }
                assert_eq!(shield(|| serving.join()).unwrap().unwrap_err().kind(), ErrorKind::TimedOut, "{takes}");
            });
        }
    });
}

#[test]
fn a_plain_thread_serves_files_over_streams_of_std() {
    let dir = Scratch::new();
    let content = bytes(1_000_000);
    dir.file("large", &content);
    let server = Server::new(pages(&dir)).config(plain());
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = connect(listener.local_addr().unwrap());
    let (stream, _) = listener.accept().unwrap();
    thread::scope(|threads| {
        threads.spawn(|| server.serve_connection(stream).unwrap());
        client.write_all(b"GET /large HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
        let mut output = Vec::new();
        client.read_to_end(&mut output).unwrap();
        assert!(replies(&output, &[])[0].body == content);
    });
}

#[test]
fn curl_gets_ranges_and_resumes() {
    if Command::new("curl").arg("--version").output().is_err() {
        return;
    }
    let dir = Scratch::new();
    let content = bytes(1_000_000);
    dir.file("large", &content);
    over_each_driver(|| {
        let server = Server::new(pages(&dir)).config(plain());
        with_client(&server, |address| {
            let url = format!("http://{address}/large");
            let curl = |arguments: &[&str]| {
                let run =
                    Command::new("curl").args(["-sS", "--noproxy", "*", "--max-time", "20"]).args(arguments).output();
                let run = run.unwrap();
                assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
                run.stdout
            };
            assert!(curl(&[&url]) == content);
            assert!(curl(&["-r", "500-999", &url]) == content[500..1000]);
            assert!(curl(&["-r", "-7", &url]) == content[999_993..]);
            assert!(curl(&["-C", "600000", &url]) == content[600_000..]);
            assert!(
                curl(&["--path-as-is", "-o", "/dev/null", "-w", "%{http_code}", &format!("http://{address}/../x")])
                    == b"404"
            );
        });
    });
}
