//! WebSockets over real sockets: one fiber with two sources, cancelled sends, the shutdown.

use super::cases::code_of;
use super::frames::*;
use super::serving::*;
use super::{ASK, echo};
use segue_core::{CancelToken, Either, WaitQueue, WaitsFor, after};
use segue_http::websocket::Options;
use segue_http::{Request, Server};
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

fn ask(address: SocketAddr) -> TcpStream {
    let mut stream = connect(address);
    stream.write_all(ASK.as_bytes()).unwrap();
    assert!(read_until(&stream, b"\r\n\r\n").starts_with(b"HTTP/1.1 101 "));
    stream
}

/// Reads one frame.
fn read_frame(mut stream: &TcpStream) -> (u8, Vec<u8>) {
    let mut head = [0; 2];
    stream.read_exact(&mut head).unwrap();
    let length = match head[1] {
        126 => {
            let mut length = [0; 2];
            stream.read_exact(&mut length).unwrap();
            u16::from_be_bytes(length).into()
        }
        127 => {
            let mut length = [0; 8];
            stream.read_exact(&mut length).unwrap();
            u64::from_be_bytes(length)
        }
        short => short.into(),
    };
    let mut payload = vec![0; length as usize];
    stream.read_exact(&mut payload).unwrap();
    (head[0] & 15, payload)
}

type Outbox = Arc<WaitQueue<VecDeque<String>, Option<String>>>;

#[test]
fn one_fiber_serves_its_client_and_its_outbox() {
    for place in PLACES {
        let clients: Arc<Mutex<Vec<Outbox>>> = Arc::default();
        let server = Server::new(|request: &mut Request<'_>| {
            let (clients, outbox) = (Arc::clone(&clients), Outbox::new(WaitQueue::new(VecDeque::new())));
            clients.lock().unwrap().push(Arc::clone(&outbox));
            Options::new().accept(request, move |socket| {
                loop {
                    let line = outbox.source(WaitsFor::new("a line"), |lines| !lines.is_empty(), VecDeque::pop_front);
                    match socket.recv_or(line)? {
                        Either::Left(None) => return Ok(()),
                        Either::Left(Some(message)) => {
                            for other in clients.lock().unwrap().iter() {
                                let mut lines = other.lock();
                                lines.state().push_back(message.as_text().unwrap().to_string());
                                lines.notify_one(0);
                            }
                        }
                        Either::Right(line) => socket.send(line.unwrap())?,
                    }
                }
            })
        });
        with_server(place, server, |address, _| {
            let streams: Vec<_> = (0..5).map(|_| ask(address)).collect();
            for round in 0..20 {
                for (at, mut speaker) in streams.iter().enumerate() {
                    let line = format!("{round} {at}");
                    // In pieces: half a frame does not hold up the others.
                    let frame = last(TEXT, &line);
                    speaker.write_all(&frame[..3]).unwrap();
                    let mut other = &streams[(at + 1) % 5];
                    other.write_all(&last(TEXT, "meanwhile")).unwrap();
                    streams.iter().for_each(|stream| assert_eq!(read_frame(stream), (TEXT, b"meanwhile".to_vec())));
                    speaker.write_all(&frame[3..]).unwrap();
                    streams.iter().for_each(|stream| assert_eq!(read_frame(stream), (TEXT, line.clone().into_bytes())));
                }
            }
            for mut stream in &streams {
                stream.write_all(&[last(PING, "p"), close(1000)].concat()).unwrap();
                assert_eq!(read_frame(stream), (PONG, b"p".to_vec()));
                assert_eq!(code_of(&read_frame(stream).1), 1000);
                assert_eq!(read_all(stream), b"");
            }
        });
    }
}

#[test]
fn a_client_that_floods_does_not_starve_the_outbox() {
    for place in PLACES {
        let server = Server::new(|request: &mut Request<'_>| {
            Options::new().accept(request, |socket| {
                // Both are ready each time.
                let mut counts = [0; 2];
                while counts.iter().sum::<u32>() < 200 {
                    match socket.recv_or(after(Duration::ZERO))? {
                        Either::Left(None) => return Ok(()),
                        Either::Left(Some(_)) => counts[0] += 1,
                        Either::Right(()) => counts[1] += 1,
                    }
                }
                socket.send(format!("{counts:?}"))
            })
        });
        with_server(place, server, |address, _| {
            let mut stream = connect(address);
            stream.write_all(&[ASK.as_bytes(), &last(TEXT, "flood").repeat(1_000)].concat()).unwrap();
            read_until(&stream, b"\r\n\r\n");
            let (_, counts) = read_frame(&stream);
            assert_eq!(String::from_utf8(counts).unwrap(), "[100, 100]");
        });
    }
}

#[test]
fn a_cancelled_send_leaves_no_half_frame() {
    for place in PLACES {
        const LENGTH: usize = 20_000_000;
        let (tell, told) = mpsc::channel();
        let (tell, cancel) = (Mutex::new(tell), CancelToken::new());
        let server = Server::new(|request: &mut Request<'_>| {
            let (tell, token) = (tell.lock().unwrap().clone(), cancel.clone());
            Options::new().accept(request, move |socket| {
                let sent = token.run(|| socket.send(vec![7; LENGTH]));
                tell.send(sent.is_err()).unwrap();
                // A pong, and a message, behind the rest of the frame.
                let message = socket.recv()?;
                socket.send(message.unwrap())
            })
        });
        with_server(place, server, |address, _| {
            let mut stream = ask(address);
            // A part of the frame is sent, and the rest has no room.
            stream.peek(&mut [0]).unwrap();
            cancel.cancel();
            assert_eq!(told.recv_timeout(PATIENCE), Ok(true));
            stream.write_all(&[last(PING, "p"), last(TEXT, "x")].concat()).unwrap();
            let (opcode, payload) = read_frame(&stream);
            let other = payload.iter().position(|byte| *byte != 7);
            assert_eq!((opcode, payload.len(), other), (BINARY, LENGTH, None));
            assert_eq!(read_frame(&stream), (PONG, b"p".to_vec()));
            assert_eq!(read_frame(&stream), (TEXT, b"x".to_vec()));
            assert_eq!(code_of(&read_frame(&stream).1), 1000);
        });
    }
}

#[test]
fn a_client_that_never_reads_ends_by_the_write_timeout() {
    for place in PLACES {
        let (tell, told) = mpsc::channel();
        let tell = Mutex::new(tell);
        let server = Server::new(|request: &mut Request<'_>| {
            let tell = tell.lock().unwrap().clone();
            Options::new().accept(request, move |socket| {
                let sent = (0..1_000).try_for_each(|_| socket.send(vec![0; 100_000]));
                tell.send(sent.as_ref().unwrap_err().kind()).unwrap();
                sent
            })
        });
        let config = super::common::plain().write_timeout(Duration::from_millis(50));
        with_server(place, server.config(config), |address, _| {
            let stream = ask(address);
            assert_eq!(told.recv_timeout(PATIENCE), Ok(io::ErrorKind::TimedOut));
            drop(stream);
        });
    }
}

#[test]
fn idle_websockets_do_not_hold_a_shutdown_up() {
    for place in PLACES {
        let options = Options::new().close_timeout(PATIENCE);
        let server = Server::new(|request: &mut Request<'_>| echo(&options, request));
        with_server(place, server, |address, shutdown| {
            let mut streams: Vec<_> = (0..200).map(|_| ask(address)).collect();
            for mut stream in &streams[..100] {
                stream.write_all(&last(TEXT, "x")).unwrap();
                assert_eq!(read_frame(stream), (TEXT, b"x".to_vec()));
            }
            // Half a frame is idle, too.
            (&streams[0]).write_all(&last(TEXT, "never all")[..5]).unwrap();
            let begun = Instant::now();
            shutdown.shutdown();
            // A client that can't answer any more, and leaves.
            assert_eq!(code_of(&read_frame(&streams[0]).1), 1001);
            streams.remove(0);
            for mut stream in &streams {
                let (opcode, payload) = read_frame(stream);
                assert_eq!((opcode, code_of(&payload)), (CLOSE, 1001));
                stream.write_all(&close(1001)).unwrap();
            }
            for stream in &streams {
                assert_eq!(read_all(stream), b"");
            }
            assert!(begun.elapsed() < PATIENCE);
        });
    }
}

#[test]
fn a_client_that_never_stops_sending_does_not_hold_a_shutdown_up() {
    for place in PLACES {
        for flood in [last(PING, "p"), last(TEXT, "t"), part(CONTINUE, "")] {
            let options = Options::new().close_timeout(Duration::from_millis(50));
            let server = Server::new(|request: &mut Request<'_>| {
                options.accept(request, |socket| {
                    while socket.recv()?.is_some() {}
                    Ok(())
                })
            });
            with_server(place, server, |address, shutdown| {
                let mut stream = ask(address);
                let begins = if flood == part(CONTINUE, "") { part(TEXT, "") } else { Vec::new() };
                stream.write_all(&begins).unwrap();
                let much = flood.repeat(5_000);
                let begun = Instant::now();
                let mut rounds = 0;
                // Until the server has ended the connection. It answers pings: these are read.
                let reader = stream.try_clone().unwrap();
                let reads = thread::spawn(move || io::copy(&mut &reader, &mut io::sink()));
                while stream.write_all(&much).is_ok() {
                    rounds += 1;
                    if rounds == 3 {
                        shutdown.shutdown();
                    }
                    assert!(begun.elapsed() < PATIENCE, "{place:?}");
                }
                let _ = reads.join().unwrap();
            });
        }
    }
}

#[test]
fn a_send_that_waits_is_cancelled_when_the_grace_is_over() {
    for place in PLACES {
        let server = Server::new(|request: &mut Request<'_>| {
            Options::new().accept(request, |socket| {
                loop {
                    socket.send(vec![0; 100_000])?;
                }
            })
        });
        with_server(place, server, |address, shutdown| {
            let stream = ask(address);
            stream.peek(&mut [0]).unwrap();
            let begun = Instant::now();
            shutdown.shutdown_within(Duration::from_millis(20));
            read_until_end(&stream);
            assert!(begun.elapsed() < PATIENCE);
        });
    }
}

/// Reads to the end, which may be a reset: the client has not read all.
fn read_until_end(mut stream: &TcpStream) {
    let _ = io::copy(&mut stream, &mut io::sink());
}

#[test]
fn a_dead_client_is_found_by_pings() {
    for place in PLACES {
        let (tell, told) = mpsc::channel();
        let tell = Mutex::new(tell);
        let options = Options::new().ping_interval(Duration::from_millis(50));
        let server = Server::new(|request: &mut Request<'_>| {
            let tell = tell.lock().unwrap().clone();
            options.accept(request, move |socket| {
                let ended = socket.recv_or(after(Duration::MAX));
                tell.send(ended.as_ref().err().map(io::Error::kind)).unwrap();
                ended.map(drop)
            })
        });
        with_server(place, server, |address, _| {
            let dead = ask(address);
            assert_eq!(told.recv_timeout(PATIENCE), Ok(Some(io::ErrorKind::TimedOut)));
            assert_eq!(of_server(&read_all(&dead)), [(PING, vec![])]);
        });
    }
}

#[test]
fn a_large_message_goes_through_both_ways() {
    for place in PLACES {
        let options = Options::new().max_frame_bytes(8 << 20).max_message_bytes(8 << 20);
        let server = Server::new(|request: &mut Request<'_>| echo(&options, request));
        with_server(place, server, |address, _| {
            let mut stream = ask(address);
            let payload: Vec<u8> = (0..5_000_000u32).map(|n| (n * 31 % 251) as u8).collect();
            for _ in 0..3 {
                stream.write_all(&last(BINARY, &payload)).unwrap();
                assert!(read_frame(&stream) == (BINARY, payload.clone()));
                stream.write_all(&last(TEXT, "small")).unwrap();
                assert_eq!(read_frame(&stream), (TEXT, b"small".to_vec()));
            }
        });
    }
}
