//! Limits of size and time, over a scripted connection: nothing here takes real time.

use super::cases::code_of;
use super::common::{Log, Script, Step, pause, plain, send};
use super::frames::*;
use super::{ASK, HEAD, echo};
use segue_http::websocket::{self, Message, Options, WebSocket};
use segue_http::{Request, Server};
use std::io;
use std::rc::Rc;
use std::time::Duration;

/// Serves one WebSocket; the result is that of the function.
fn run(
    options: Options,
    steps: impl IntoIterator<Item = Step>,
    talk: impl Fn(&mut WebSocket<'_>) -> io::Result<()> + Send + Sync + Clone + 'static,
) -> (io::Result<()>, Rc<Log>) {
    let script = Script::new([send(ASK)].into_iter().chain(steps));
    let log = script.log();
    let server = Server::new(|request: &mut Request<'_>| options.accept(request, talk.clone()));
    let config = plain().linger_timeout(Duration::ZERO);
    (server.config(config).serve_connection(script), log)
}

fn receive_all(socket: &mut WebSocket<'_>) -> io::Result<()> {
    while socket.recv()?.is_some() {}
    Ok(())
}

fn frames(log: &Log) -> Vec<(u8, Vec<u8>)> {
    of_server(log.output().strip_prefix(HEAD.as_bytes()).unwrap())
}

fn goodbye(code: u16) -> (u8, Vec<u8>) {
    (CLOSE, code.to_be_bytes().to_vec())
}

#[test]
fn messages_and_frames_have_a_limit() {
    let options = || Options::new().max_frame_bytes(100).max_message_bytes(250);
    let cases = [
        (vec![last(BINARY, [0; 100])], true),
        (vec![last(BINARY, [0; 101])], false),
        (vec![part(BINARY, [0; 100]), part(CONTINUE, [0; 100]), last(CONTINUE, [0; 50])], true),
        (vec![part(BINARY, [0; 100]), part(CONTINUE, [0; 100]), part(CONTINUE, [0; 51])], false),
        // Fragments without end, and without bytes.
        (std::iter::once(part(TEXT, "a")).chain((0..300).map(|_| part(CONTINUE, "b"))).collect(), false),
        // A control frame is no part of the message.
        (vec![part(BINARY, [0; 100]), last(PING, [0; 100]), last(CONTINUE, [0; 100])], true),
    ];
    for (at, (sent, fits)) in cases.into_iter().enumerate() {
        let (ended, log) = run(options(), [send(sent.concat()), send(close(1000)), Step::End], receive_all);
        let code = code_of(&frames(&log).last().unwrap().1);
        assert_eq!((ended.is_ok(), code), if fits { (true, 1000) } else { (false, 1009) }, "{at}");
        if let Err(error) = ended {
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        }
    }
}

#[test]
fn a_silent_client_gets_a_ping_and_then_the_end() {
    let options = || Options::new().ping_interval(Duration::from_secs(10));
    let (ended, log) = run(options(), [], receive_all);
    assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::TimedOut);
    assert_eq!(frames(&log), [(PING, vec![])]);
    assert_eq!(log.waited().as_secs(), 20);

    // Each byte is a sign of life.
    let pong = || [pause(15), send(last(PONG, ""))];
    let steps = pong().into_iter().chain(pong()).chain([pause(5), send(close(1001)), Step::End]);
    let (ended, log) = run(options(), steps, |socket| {
        receive_all(socket)?;
        assert_eq!(socket.close_code(), Some(1001));
        Ok(())
    });
    ended.unwrap();
    assert_eq!(frames(&log), [(PING, vec![]), (PING, vec![]), goodbye(1001)]);

    let (ended, log) = run(Options::new().ping_interval(Duration::MAX), [pause(100_000), Step::End], receive_all);
    assert_eq!((ended.unwrap_err().kind(), frames(&log).len()), (io::ErrorKind::UnexpectedEof, 0));
}

#[test]
fn a_goodbye_that_is_not_answered_is_waited_for_a_moment() {
    let options = || Options::new().close_timeout(Duration::from_secs(5));
    let (ended, log) = run(options(), [send(last(TEXT, "hello"))], |socket| socket.close(4000, "over"));
    ended.unwrap();
    assert_eq!(frames(&log), [(CLOSE, b"\x0f\xa0over".to_vec())]);
    assert_eq!(log.waited().as_secs(), 5);
    // Also if the client talks on and on.
    let chatter = (0..100).flat_map(|_| [pause(1), send(last(TEXT, "and"))]);
    let (ended, log) = run(options(), chatter, |socket| socket.close(1000, ""));
    ended.unwrap();
    assert!((5..=6).contains(&log.waited().as_secs()));
    // An answer ends the wait.
    let (ended, log) = run(options(), [pause(1), send(close(4000)), pause(100)], |socket| {
        socket.close(4000, "")?;
        assert_eq!(socket.close_code(), Some(4000));
        assert_eq!(socket.recv()?, None);
        assert_eq!(socket.send("late").unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        socket.close(4001, "no effect")
    });
    ended.unwrap();
    assert_eq!((frames(&log), log.waited().as_secs()), (vec![goodbye(4000)], 1));
}

#[test]
fn the_end_of_the_function_says_goodbye() {
    let answer = || [send(last(TEXT, "x")), send(close(1000)), Step::End];
    let (ended, log) = run(Options::new(), answer(), |_| Ok(()));
    ended.unwrap();
    assert_eq!(frames(&log), [goodbye(1000)]);
    let (ended, log) = run(Options::new(), answer(), |_| Err(io::Error::other("planned")));
    assert_eq!((ended.unwrap_err().to_string().as_str(), frames(&log)), ("planned", vec![goodbye(1011)]));
    let (ended, log) = run(Options::new(), answer(), |_| panic!("a planned panic"));
    assert!(ended.is_err());
    assert_eq!(frames(&log), [goodbye(1011)]);
    // A long reason is cut, between characters.
    let (ended, log) = run(Options::new(), answer(), |socket| socket.close(1000, &"\u{e4}".repeat(100)));
    ended.unwrap();
    assert_eq!(frames(&log)[0].1.len(), 2 + 122);
    let (ended, _) = run(Options::new(), answer(), |socket| socket.close(1005, ""));
    assert!(ended.is_err(), "1005 may not be sent");
}

#[test]
fn a_client_that_takes_nothing_ends_the_connection() {
    let mut script = Script::new([send(ASK), send(last(TEXT, "x")), Step::End]);
    (script.write_size, script.write_time) = (HEAD.len(), Duration::from_secs(1));
    script.write_limit = HEAD.len();
    let log = script.log();
    let server = Server::new(|request: &mut Request<'_>| echo(&Options::new(), request));
    assert!(server.config(plain()).serve_connection(script).is_err());
    assert_eq!(log.text(), HEAD);

    // Slow by time: no goodbye is tried after that.
    let mut script = Script::new([send(ASK)]);
    (script.write_size, script.write_time) = (HEAD.len(), Duration::from_secs(20));
    let log = script.log();
    let server =
        Server::new(|request: &mut Request<'_>| websocket::accept(request, |socket| socket.send(vec![0; 10_000_000])));
    let error = server.config(plain().linger_timeout(Duration::ZERO)).serve_connection(script).unwrap_err();
    assert_eq!((error.kind(), log.waited().as_secs()), (io::ErrorKind::TimedOut, 20 + 20 + 20 + 10));
}

#[test]
fn a_transport_without_a_source_receives_alone() {
    let (ended, _) = run(Options::new(), [send(last(TEXT, "x"))], |socket| {
        assert_eq!(socket.recv()?, Some(Message::from("x")));
        let error = socket.recv_or(segue_core::after(Duration::MAX)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Unsupported);
        Ok(())
    });
    ended.unwrap();
}
