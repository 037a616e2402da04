//! Upgraded connections of a server: its shutdown, and its limit of connections.

use super::serving::*;
use super::{ASK, HEAD, echo_all, handler, upgrade};
use segue_core::{Cancelled, Either, finishing_source};
use segue_http::{Config, Server};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Mutex, mpsc};
use std::time::{Duration, Instant};

fn no_date() -> Config {
    super::plain()
}

fn ask(address: SocketAddr) -> TcpStream {
    let mut stream = connect(address);
    stream.write_all(ASK.as_bytes()).unwrap();
    assert_eq!(read_until(&stream, b"\r\n\r\n"), HEAD.as_bytes());
    stream
}

#[test]
fn a_stream_is_chosen_among_others_and_learns_of_the_shutdown() {
    for place in PLACES {
        let server = Server::new(|_| {
            upgrade(|mut stream| {
                loop {
                    let readable = stream.readable_source().unwrap();
                    match readable.or(finishing_source()).wait()? {
                        Either::Left(ready) => ready?,
                        Either::Right(()) => return stream.write_all(b"bye"),
                    }
                    let mut bytes = [0; 5];
                    let count = stream.read(&mut bytes)?;
                    stream.write_all(&bytes[..count])?;
                }
            })
        });
        with_server(place, server.config(no_date()), |address, shutdown| {
            let streams: Vec<_> = (0..50).map(|_| ask(address)).collect();
            for mut stream in &streams {
                stream.write_all(b"hello, you").unwrap();
                read_until(stream, b"hello, you");
            }
            let begun = Instant::now();
            shutdown.shutdown();
            streams.iter().for_each(|stream| assert_eq!(read_all(stream), b"bye"));
            assert!(begun.elapsed() < PATIENCE);
        });
    }
}

#[test]
fn bytes_behind_the_head_make_the_source_ready() {
    for place in PLACES {
        let server = Server::new(|_| {
            upgrade(|mut stream| {
                let mut bytes = [0; 4];
                for _ in 0..2 {
                    stream.readable_source().unwrap().wait()??;
                    stream.read_exact(&mut bytes)?;
                    stream.write_all(&bytes)?;
                }
                Ok(())
            })
        });
        with_server(place, server.config(no_date()), |address, _| {
            let mut stream = connect(address);
            stream.write_all(format!("{ASK}onetwo").as_bytes()).unwrap();
            read_until(&stream, b"onet");
            stream.write_all(b"wo").unwrap();
            assert_eq!(read_all(&stream), b"wowo");
        });
    }
}

#[test]
fn a_stream_that_does_not_finish_is_cancelled_when_the_grace_is_over() {
    for place in PLACES {
        let (tell, told) = mpsc::channel();
        let tell = Mutex::new(tell);
        let server = Server::new(|_| {
            let tell = tell.lock().unwrap().clone();
            upgrade(move |mut stream| {
                let error = stream.read(&mut [0]).unwrap_err();
                tell.send(Cancelled::caused(&error)).unwrap();
                Err(error)
            })
        });
        with_server(place, server.config(no_date()), |address, shutdown| {
            let stream = ask(address);
            shutdown.shutdown_within(Duration::from_millis(20));
            assert_eq!(told.recv_timeout(PATIENCE), Ok(true));
            assert_eq!(read_all(&stream), b"");
        });
    }
}

#[test]
fn an_upgraded_connection_keeps_its_place_among_the_limited_ones() {
    for place in PLACES {
        with_server(place, Server::new(handler).config(no_date().max_connections(1)), |address, _| {
            let mut first = ask(address);
            let mut second = connect(address);
            second.write_all(ASK.as_bytes()).unwrap();
            for _ in 0..3 {
                // Longer than the moment after which idle connections have to go.
                second.set_read_timeout(Some(Duration::from_millis(60))).unwrap();
                assert!(second.read(&mut [0]).is_err(), "the second one has to wait");
                first.write_all(b"x").unwrap();
                read_until(&first, b"x");
            }
            second.set_read_timeout(Some(PATIENCE)).unwrap();
            drop(first);
            assert_eq!(read_until(&second, b"\r\n\r\n"), HEAD.as_bytes());
        });
    }
}

#[test]
fn a_function_that_returns_sends_its_last_bytes_though_the_client_goes_on() {
    for place in PLACES {
        let server = Server::new(|_| upgrade(|mut stream| stream.write_all(&[b'x'; 300_000])));
        with_server(place, server.config(no_date()), |address, _| {
            let mut stream = ask(address);
            let _ = stream.write_all(&[b'y'; 100_000]);
            assert_eq!(read_all(&stream).len(), 300_000);
        });
        // And one that has ended first gets the end.
        with_server(place, Server::new(|_| upgrade(echo_all)).config(no_date()), |address, _| {
            let stream = ask(address);
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            assert_eq!(read_all(&stream), b"");
        });
    }
}
