//! The same end by the clock of a simulation, where the time is exact: of WebSockets whose clients
//! are silent, that answer, or that never stop sending.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use segue_core::{Either, LocalBoxSource, WaitQueue, Waitable, WaitsFor, after};
use segue_http::websocket::Options;
use segue_http::{Request, Server, Transport};
use segue_sched::Sim;

use super::UPGRADE;
use super::common::plain;

/// How a client behaves after its goodbye was asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Client {
    Silent,
    /// Its answer takes so long.
    Answers(Duration),
    /// A message comes each 10 ms.
    Sends,
}

/// A connection in memory. Its input comes at its time.
struct Line {
    input: Arc<WaitQueue<Vec<u8>>>,
    output: Arc<WaitQueue<Vec<u8>>>,
    limit: std::cell::Cell<Option<Duration>>,
    has_source: bool,
}

impl Read for Line {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        segue_core::check()?;
        let some = Waitable::new(self.input.source(WaitsFor::new("input"), |bytes| !bytes.is_empty(), |_| ()));
        if let Either::Right(()) = some.or(after(self.limit.get().unwrap_or(Duration::MAX))).wait()? {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let mut input = self.input.lock();
        let count = input.state().len().min(buf.len());
        buf[..count].copy_from_slice(&input.state()[..count]);
        input.state().drain(..count);
        Ok(count)
    }
}

impl Write for Line {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        segue_core::check()?;
        let mut output = self.output.lock();
        output.state().extend_from_slice(buf);
        output.notify_all(0);
        Ok(buf.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Transport for Line {
    fn set_read_timeout(&self, time: Option<Duration>) -> io::Result<()> {
        self.limit.set(time);
        Ok(())
    }

    fn set_write_timeout(&self, _: Option<Duration>) -> io::Result<()> {
        Ok(())
    }

    fn shutdown_write(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn readable_source(&self) -> Option<Waitable<LocalBoxSource<'_, io::Result<()>>>> {
        let some = Waitable::new(self.input.source(WaitsFor::new("input"), |bytes| !bytes.is_empty(), |_| ()));
        self.has_source.then(|| some.map(|()| Ok(())).boxed_local())
    }

    fn now(&self) -> Instant {
        segue_core::now()
    }
}

fn put(queue: &WaitQueue<Vec<u8>>, bytes: &[u8]) {
    let mut queue = queue.lock();
    queue.state().extend_from_slice(bytes);
    queue.notify_all(0);
}

/// How long the server takes to end, with a close time-out of one second.
fn end_of(client: Client, has_source: bool) -> Duration {
    let ended = Sim::new(7).run(|| {
        let [input, output] = [(); 2].map(|()| Arc::new(WaitQueue::new(Vec::new())));
        let line = Line { input: input.clone(), output: output.clone(), limit: Default::default(), has_source };
        let server = Server::new(|request: &mut Request<'_>| {
            Options::new().close_timeout(Duration::from_secs(1)).accept(request, |socket| {
                while socket.recv()?.is_some() {}
                Ok(())
            })
        });
        let server = server.config(plain());
        let until = |end: &'static [u8]| {
            let is_there = move |bytes: &Vec<u8>| bytes.windows(end.len()).any(|part| part == end);
            segue_core::wait(&mut output.source(WaitsFor::new("output"), is_there, |_| ())).unwrap();
        };
        segue_core::scope(|s| {
            let serving = s.spawn(|| {
                server.serve_connection(line).unwrap();
                segue_core::now()
            });
            put(&input, UPGRADE.as_bytes());
            until(b"\r\n\r\n");
            segue_core::sleep(Duration::from_secs(5)).unwrap();
            let start = segue_core::now();
            server.shutdown_handle().shutdown();
            if has_source {
                until(&[0x88, 2, 0x03, 0xe9]);
            } else {
                // The read that waits does not hear of the shutdown before its client sends.
                put(&input, &[0x81, 0x80, 0, 0, 0, 0]);
            }
            match client {
                Client::Silent => {}
                Client::Answers(time) => {
                    segue_core::sleep(time).unwrap();
                    put(&input, &[0x88, 0x82, 0, 0, 0, 0, 0x03, 0xe9]);
                }
                Client::Sends => {
                    s.spawn_daemon(|| {
                        while segue_core::sleep(Duration::from_millis(10)).is_ok() {
                            put(&input, &[0x81, 0x81, 0, 0, 0, 0, b'x']);
                        }
                    });
                }
            }
            serving.join().unwrap() - start
        })
    });
    ended.unwrap_or_else(|deadlock| panic!("{deadlock}"))
}

#[test]
fn a_shutdown_waits_for_clients_that_answer_or_send_and_not_for_silent_ones() {
    let ms = Duration::from_millis;
    for (client, least, most) in [
        (Client::Silent, ms(25), ms(30)),
        (Client::Answers(ms(1)), ms(1), ms(5)),
        (Client::Answers(ms(20)), ms(20), ms(24)),
        // Nobody is there any more when this answer comes.
        (Client::Answers(ms(500)), ms(25), ms(30)),
        // Up to the close time-out.
        (Client::Sends, ms(1_000), ms(1_020)),
    ] {
        let took = end_of(client, true);
        assert!((least..=most).contains(&took), "{client:?}: {took:?}");
    }
}

#[test]
fn a_transport_without_a_source_waits_in_its_reads() {
    let ms = Duration::from_millis;
    let took = end_of(Client::Silent, false);
    assert!((ms(25)..=ms(1_020)).contains(&took), "{took:?}");
}
