//! The loop of attempts and waits, with ops that make the rare orders happen. Part of
//! `driver/run.rs`.

use super::*;
use crate::driver::readiness::Half;

fn socket() -> Arc<Socket> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    Socket::new(listener.into())
}

/// An op that would block at first. Its edge is reported before its caller can begin to wait.
struct Overtaken {
    attempts: u32,
}

impl Op for Overtaken {
    type Output = u32;
    const HALF: Half = Half::Read;
    const WAITS_FOR: &'static str = "an edge that has been";

    fn attempt(&mut self, socket: &Socket) -> io::Result<u32> {
        self.attempts += 1;
        if self.attempts > 1 {
            return Ok(self.attempts);
        }
        socket.direction(Half::Read).report(false);
        Err(io::ErrorKind::WouldBlock.into())
    }
}

#[test]
fn an_edge_between_the_attempt_and_the_wait_is_not_slept_through() {
    let ended = run(&socket(), Overtaken { attempts: 0 }, Some(Duration::from_secs(5)));
    assert_eq!(ended.expect("the edge was slept through"), 2);
}

/// An op that would block at first, and for which no edge comes.
struct Untold {
    attempts: u32,
}

impl Op for Untold {
    type Output = u32;
    const HALF: Half = Half::Write;
    const WAITS_FOR: &'static str = "room that makes no edge";

    fn attempt(&mut self, _socket: &Socket) -> io::Result<u32> {
        self.attempts += 1;
        if self.attempts == 2 { Ok(self.attempts) } else { Err(io::ErrorKind::WouldBlock.into()) }
    }
}

#[test]
fn an_op_whose_time_is_over_is_attempted_once_more() {
    let soon = Some(Duration::from_millis(2));
    assert_eq!(run(&socket(), Untold { attempts: 0 }, soon).unwrap(), 2);
    let never = run(&socket(), Untold { attempts: 2 }, soon).unwrap_err();
    assert_eq!(never.kind(), io::ErrorKind::TimedOut);
}

/// An op that always succeeds, and says that nothing was left.
#[cfg(linux)]
struct Drains;

#[cfg(linux)]
impl Op for Drains {
    type Output = ();
    const HALF: Half = Half::Read;
    const WAITS_FOR: &'static str = "data";

    fn attempt(&mut self, _socket: &Socket) -> io::Result<()> {
        Ok(())
    }

    fn needs_data(&self) -> bool {
        true
    }

    fn drains(&self, _output: &()) -> bool {
        true
    }
}

#[test]
#[cfg(linux)]
fn a_drained_socket_is_not_tried_until_its_next_edge() {
    let soon = Some(Duration::from_millis(2));
    let socket = socket();
    run(&socket, Drains, soon).unwrap();
    run(&socket, Drains, soon).expect("nobody watches it yet, so no edge would come: it is not drained");
    socket.enlist(Interest::of(Half::Read)).unwrap();
    assert!(socket.tells_end(), "the native selector here does not tell: nothing is tested");
    run(&socket, Drains, soon).unwrap();
    assert_eq!(run(&socket, Drains, soon).unwrap_err().kind(), io::ErrorKind::TimedOut);
    socket.direction(Half::Read).report(false);
    run(&socket, Drains, soon).unwrap();
}
