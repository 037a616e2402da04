//! Two ends of a secured stream, in memory: bytes in pieces, cancellations, limits, ends.

use std::io::{self, ErrorKind, Read, Write};
use std::sync::atomic::Ordering;
use std::time::Duration;

use segue_core::{CancelToken, Cancelled};
use segue_http::{Transport, tls};
use segue_sched::Sim;

use crate::pipe::{Pipe, pieces, pipe};
use crate::{VERSIONS, accept, beside, client_config, client_of, connect, everywhere, pair, pattern, server_config};

fn simulated(test: impl Fn()) {
    Sim::new(1).run(test).unwrap_or_else(|deadlock| panic!("{deadlock}"));
}

/// Sends to the other end, which sends all of that back, until the end of both directions.
fn goes_round(client: tls::Stream<Pipe>, server: tls::Stream<Pipe>, bytes: &[u8]) {
    let (mut client, mut server) = (client, server);
    let ((), back) = beside(
        move || {
            let mut all = Vec::new();
            server.read_to_end(&mut all).unwrap();
            server.write_all(&all).unwrap();
            server.shutdown_write().unwrap();
            assert_eq!(server.read(&mut [0]).unwrap(), 0);
        },
        || {
            client.write_all(bytes).unwrap();
            client.shutdown_write().unwrap();
            assert_eq!(client.write(b"x").unwrap_err().kind(), ErrorKind::BrokenPipe);
            let mut back = Vec::new();
            client.read_to_end(&mut back).unwrap();
            back
        },
    );
    assert!(back == bytes);
}

#[test]
fn bytes_go_both_ways_on_every_scheduler_in_both_versions() {
    everywhere(&|| {
        for version in VERSIONS {
            let (client, server) = pair(client_of(version));
            goes_round(client, server, &pattern(100_000));
        }
    });
}

#[test]
fn a_stream_below_may_cut_its_bytes_anywhere() {
    for version in VERSIONS {
        for piece in [1, 2, 3, 4, 5, 6, 7, 511, 4095, 4096, 16_384] {
            simulated(|| {
                let (mut one, mut other) = pieces(piece);
                // The server's tickets come while the client still sends.
                (one.room, other.room) = (piece + 1, piece + 1_000);
                let length = if piece < 100 { 3_000 } else { 70_000 };
                goes_round(connect(one, client_of(version)), accept(other, server_config()), &pattern(length));
            });
        }
    }
}

#[test]
fn records_and_messages_of_any_size_are_put_together() {
    for version in VERSIONS {
        for size in [32, 33, 100, 1_000, 16_389] {
            simulated(|| {
                let (one, other) = pipe();
                let mut configs = (client_of(version), server_config());
                (configs.0.max_fragment_size, configs.1.max_fragment_size) = (Some(size), Some(size));
                goes_round(connect(one, configs.0), accept(other, configs.1), &pattern(50_000));
            });
        }
    }
}

#[test]
fn readers_take_as_few_bytes_as_they_like() {
    simulated(|| {
        let (mut client, mut server) = pair(client_config());
        let sent = pattern(40_000);
        beside(
            || {
                server.write_all(&sent).unwrap();
                server.flush().unwrap();
                assert_eq!(server.read(&mut [0; 10]).unwrap(), 1);
            },
            || {
                let mut got = Vec::new();
                while got.len() < sent.len() {
                    assert_eq!(client.read(&mut []).unwrap(), 0);
                    let mut some = [0; 7];
                    let count = client.read(&mut some).unwrap();
                    got.extend_from_slice(&some[..count]);
                }
                assert!(got == sent);
                // Sent by the read that follows.
                client.write_all(b"!").unwrap();
                client.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
                let _ = client.read(&mut [0]);
            },
        );
    });
}

/// Makes the handshake of both.
fn shaken(client: &mut tls::Stream<Pipe>, server: &mut tls::Stream<Pipe>) {
    let (one, other) = beside(|| server.handshake(), || client.handshake());
    one.and(other).unwrap();
    // The server's tickets.
    server.flush().unwrap();
}

#[test]
fn cancelled_writes_go_on_before_anything_else_is_written() {
    // The peer has room for so many bytes each time.
    for room in [1, 5, 21, 22, 23, 1_000, 16_500] {
        simulated(|| {
            let (one, mut other) = pipe();
            other.room = 20_000;
            let (mut client, mut server) = (connect(one, client_config()), accept(other, server_config()));
            shaken(&mut client, &mut server);
            let sent = pattern(150_000);
            let (mut taken, mut cancelled, mut got) = (0, 0, Vec::new());
            client.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
            let mut flushed = false;
            while got.len() < sent.len() || !flushed {
                // Waits for room in vain, and is cancelled meanwhile.
                let token = CancelToken::new();
                let result = token.run(|| {
                    segue_core::timeout(Duration::from_millis(1), || {
                        while taken < sent.len() {
                            taken += server.write(&sent[taken..])?;
                        }
                        server.flush()
                    })
                });
                flushed = result.is_ok();
                if let Err(error) = result {
                    assert!(Cancelled::caused(&error), "{error}");
                    cancelled += 1;
                }
                let mut some = vec![0; room];
                loop {
                    match client.read(&mut some) {
                        Ok(count) => got.extend_from_slice(&some[..count]),
                        Err(error) => break assert_eq!(error.kind(), ErrorKind::TimedOut),
                    }
                    if got.len() % 7 == 0 {
                        break;
                    }
                }
            }
            assert!(cancelled > 3 && got == sent, "{cancelled} cancellations, {} bytes", got.len());
        });
    }
}

#[test]
fn cancelled_reads_lose_nothing() {
    simulated(|| {
        let (one, mut other) = pipe();
        other.piece = 3;
        let (mut client, mut server) = (connect(one, client_config()), accept(other, server_config()));
        let sent = pattern(5_000);
        let ((), got) = beside(
            || {
                server.handshake().unwrap();
                for bytes in sent.chunks(999) {
                    segue_core::sleep(Duration::from_millis(5)).unwrap();
                    server.write_all(bytes).unwrap();
                    server.flush().unwrap();
                }
                server.shutdown_write().unwrap();
            },
            || {
                let mut got = Vec::new();
                loop {
                    let mut some = [0; 600];
                    let result = segue_core::timeout(Duration::from_millis(1), || client.read(&mut some));
                    match result {
                        Ok(0) => break got,
                        Ok(count) => got.extend_from_slice(&some[..count]),
                        Err(error) => assert!(Cancelled::caused(&error), "{error}"),
                    }
                }
            },
        );
        assert!(got == sent);
    });
}

#[test]
fn a_stream_that_is_cut_off_does_not_look_like_one_that_has_ended() {
    everywhere(&|| {
        for says_so in [true, false] {
            let (mut client, mut server) = pair(client_config());
            let ((), result) = beside(
                move || {
                    server.write_all(b"some").unwrap();
                    server.flush().unwrap();
                    if says_so {
                        server.shutdown_write().unwrap();
                    }
                },
                || {
                    let mut got = Vec::new();
                    let result = client.read_to_end(&mut got).map_err(|error| error.kind());
                    assert_eq!(got, b"some");
                    // And again.
                    assert_eq!(client.read(&mut [0]).is_ok(), says_so);
                    result
                },
            );
            assert_eq!(result, if says_so { Ok(4) } else { Err(ErrorKind::UnexpectedEof) });
        }
    });
}

#[test]
fn the_limits_hold_for_a_whole_read_and_a_whole_write() {
    simulated(|| {
        let (one, mut other) = pipe();
        other.room = 10;
        let mut config = server_config();
        config.send_tls13_tickets = 0;
        let (mut client, mut server) = (connect(one, client_config()), accept(other, config));
        client.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        beside(
            || {
                server.handshake().unwrap();
                server.flush().unwrap();
                // Its peer takes nothing for hours, then drop by drop.
                server.set_write_timeout(Some(Duration::from_secs(10))).unwrap();
                server.write_all(&pattern(10_000)).unwrap();
                let start = segue_core::now();
                assert_eq!(server.flush().unwrap_err().kind(), ErrorKind::TimedOut);
                assert!((10..=20).contains(&(segue_core::now() - start).as_secs()));
                server.set_write_timeout(None).unwrap();
                server.flush().unwrap();
            },
            || {
                client.handshake().unwrap();
                segue_core::sleep(Duration::from_secs(3600)).unwrap();
                let mut got = vec![0; 10_000];
                client.read_exact(&mut got).unwrap();
                assert!(got == pattern(10_000));
            },
        );
    });
    // A record that comes drop by drop.
    simulated(|| {
        let (one, mut other) = pipe();
        other.piece = 1;
        let (mut client, server) = (connect(one, client_config()), accept(Slow(other), server_config()));
        let mut server = server;
        beside(
            || {
                server.handshake().unwrap();
                server.write_all(b"some").unwrap();
                let _ = server.flush();
            },
            || {
                client.handshake().unwrap();
                client.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
                let start = segue_core::now();
                assert_eq!(client.read(&mut [0; 10]).unwrap_err().kind(), ErrorKind::TimedOut);
                assert!((5..=10).contains(&(segue_core::now() - start).as_secs()));
                client.set_read_timeout(None).unwrap();
                assert_eq!(client.read(&mut [0; 10]).unwrap(), 4);
            },
        );
    });
}

/// A second for each write.
struct Slow(Pipe);

impl Read for Slow {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.read(buf)
    }
}

impl Write for Slow {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        segue_core::sleep(Duration::from_secs(1))?;
        self.0.write(buf)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Transport for Slow {
    fn set_read_timeout(&self, time: Option<Duration>) -> io::Result<()> {
        self.0.set_read_timeout(time)
    }

    fn set_write_timeout(&self, time: Option<Duration>) -> io::Result<()> {
        self.0.set_write_timeout(time)
    }

    fn shutdown_write(&mut self) -> io::Result<()> {
        self.0.shutdown_write()
    }
}

#[test]
fn writes_are_sent_together_when_flushed() {
    simulated(|| {
        let (mut client, mut server) = pair(client_config());
        shaken(&mut client, &mut server);
        let writes = server.get_ref().writes.load(Ordering::Relaxed);
        for _ in 0..10 {
            server.write_all(b"some").unwrap();
        }
        assert_eq!(server.get_ref().writes.load(Ordering::Relaxed), writes);
        server.flush().unwrap();
        assert_eq!(server.get_ref().writes.load(Ordering::Relaxed), writes + 1);
        assert!(server.get_ref().written() > 40);
    });
}

#[test]
fn garbage_is_an_error_that_stays_and_an_alert() {
    simulated(|| {
        let (mut raw, other) = pipe();
        let mut server = accept(other, server_config());
        raw.write_all(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
        for _ in 0..2 {
            assert_eq!(server.handshake().unwrap_err().kind(), ErrorKind::InvalidData);
        }
        let mut alert = [0; 100];
        let count = raw.read(&mut alert).unwrap();
        // An alert, of the highest level.
        assert_eq!((count, alert[0], alert[5]), (7, 21, 2));
    });
}
