//! Clients and servers of protocols over streams of Segue's.

use ecosystem::{FIBERS, Talk, noise, talk_alike};
use std::collections::VecDeque;
use std::fmt::Debug;
use std::io::{BufRead, BufReader, Read, Write};
use std::sync::Mutex;

const BYTES: Talk = Talk { connections: FIBERS, piece: 1 };

/// `tungstenite` takes a handshake in more than 64 small pieces for an attack.
const SMALL_PIECES: Talk = Talk { connections: FIBERS, piece: 7 };

#[test]
fn tungstenite_talks_by_messages() {
    use tungstenite::protocol::frame::Frame;
    use tungstenite::protocol::frame::coding::{Data, OpCode};
    use tungstenite::{Error, Message};

    fn client<S: Read + Write>(stream: S) -> (u16, Vec<Message>, String) {
        let (mut socket, response) = tungstenite::client("ws://localhost/chat", stream).map_err(drop).unwrap();
        let part = |text: &'static str, code, last| Message::Frame(Frame::message(text, OpCode::Data(code), last));
        let sent = [
            Message::text("Grüße"),
            Message::binary(noise(1, 700)),
            part("one ", Data::Text, false),
            part("message", Data::Continue, true),
            Message::Ping(b"are you there".as_slice().into()),
        ];
        sent.into_iter().for_each(|message| socket.send(message).unwrap());
        let mut heard: Vec<_> = (0..4).map(|_| socket.read().unwrap()).collect();
        // It leaves when it is told to.
        socket.send(Message::text("goodbye")).unwrap();
        heard.push(socket.read().unwrap());
        (response.status().as_u16(), heard, socket.read().unwrap_err().to_string())
    }
    fn server<S: Read + Write>(stream: S) {
        let mut socket = tungstenite::accept(stream).map_err(drop).unwrap();
        loop {
            match socket.read() {
                Ok(Message::Text(text)) if text.as_str() == "goodbye" => socket.close(None).unwrap(),
                Ok(message @ (Message::Text(_) | Message::Binary(_))) => socket.send(message).unwrap(),
                Ok(_) => {}
                Err(Error::ConnectionClosed) => return,
                Err(error) => panic!("{error}"),
            }
        }
    }
    let (status, heard, end) = talk_alike(SMALL_PIECES, client, server, client, server);
    let expected = [
        Message::text("Grüße"),
        Message::binary(noise(1, 700)),
        Message::text("one message"),
        Message::Pong(b"are you there".as_slice().into()),
        Message::Close(None),
    ];
    assert_eq!((status, heard, &*end), (101, expected.to_vec(), "Connection closed normally"));

    // What is no frame of a client is refused by both.
    fn rude<S: Read + Write>(stream: S) -> String {
        let (mut socket, _) = tungstenite::client("ws://localhost/chat", stream).map_err(drop).unwrap();
        socket.get_mut().write_all(&[0x81, 0x02, b'h', b'i']).unwrap();
        format!("{:?}", socket.read())
    }
    fn strict<S: Read + Write>(stream: S) {
        let mut socket = tungstenite::accept(stream).map_err(drop).unwrap();
        assert!(matches!(socket.read(), Err(Error::Protocol(_))));
    }
    talk_alike(SMALL_PIECES, rude, strict, rude, strict);
}

/// `ureq` over a stream that is there already.
mod over {
    use super::*;
    use ureq::config::Config;
    use ureq::http::Uri;
    use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
    use ureq::unversioned::transport::{Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport};
    use ureq::{Agent, Error};

    pub struct Over<S>(S, LazyBuffers);

    impl<S> Debug for Over<S> {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("Over")
        }
    }

    impl<S: Read + Write + Send + Sync + 'static> Transport for Over<S> {
        fn buffers(&mut self) -> &mut dyn Buffers {
            &mut self.1
        }

        fn transmit_output(&mut self, amount: usize, _: NextTimeout) -> Result<(), Error> {
            Ok(self.0.write_all(&self.1.output()[..amount])?)
        }

        fn await_input(&mut self, _: NextTimeout) -> Result<bool, Error> {
            let count = self.0.read(self.1.input_append_buf())?;
            self.1.input_appended(count);
            Ok(count > 0)
        }

        fn is_open(&mut self) -> bool {
            true
        }
    }

    /// Gives out its streams, one for each connection.
    pub struct Streams<S>(pub Mutex<VecDeque<S>>);

    impl<S> Debug for Streams<S> {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("Streams")
        }
    }

    impl<S: Read + Write + Send + Sync + 'static> Connector for Streams<S> {
        type Out = Over<S>;

        fn connect(&self, details: &ConnectionDetails, _: Option<()>) -> Result<Option<Over<S>>, Error> {
            let buffers = LazyBuffers::new(details.config.input_buffer_size(), details.config.output_buffer_size());
            let stream = self.0.lock().unwrap().pop_front();
            Ok(stream.map(|stream| Over(stream, buffers)))
        }
    }

    /// Looks nothing up.
    #[derive(Debug)]
    struct Nowhere;

    impl Resolver for Nowhere {
        fn resolve(&self, _: &Uri, _: &Config, _: NextTimeout) -> Result<ResolvedSocketAddrs, Error> {
            let mut addresses = self.empty();
            addresses.push(([127, 0, 0, 1], 80).into());
            Ok(addresses)
        }
    }

    pub fn agent<S: Read + Write + Send + Sync + 'static>(stream: S) -> Agent {
        let config = Config::builder().http_status_as_error(false).build();
        Agent::with_parts(config, Streams(Mutex::new([stream].into())), Nowhere)
    }
}

#[test]
fn ureq_asks_over_a_stream_that_it_is_given() {
    fn client<S: Read + Write + Send + Sync + 'static>(stream: S) -> Vec<String> {
        let agent = over::agent(stream);
        // All over one connection, since there is one. It would take another for a redirect, of
        // which it does not wait for the end, and after chunks if it has not seen their end.
        let mut said = vec![];
        let mut answer = agent.get("http://localhost/there").call().unwrap();
        said.push(format!("{} {:?}", answer.status(), answer.headers().get("content-type")));
        said.push(answer.body_mut().read_to_string().unwrap());
        let mut answer = agent.post("http://localhost/echo").send(&noise(2, 900)[..]).unwrap();
        assert_eq!(answer.body_mut().read_to_vec().unwrap(), noise(2, 900));
        let mut answer = agent.get("http://localhost/absent").call().unwrap();
        said.push(format!("{} {}", answer.status(), answer.body_mut().read_to_string().unwrap()));
        let mut answer = agent.get("http://localhost/chunks").call().unwrap();
        let (mut body, mut text) = (answer.body_mut().as_reader(), [0; 16]);
        body.read_exact(&mut text).unwrap();
        said.push(String::from_utf8_lossy(&text).into_owned());
        said.push(body.read(&mut text).unwrap_err().to_string());
        said
    }
    fn server<S: Read + Write>(stream: S) {
        let mut stream = BufReader::new(stream);
        loop {
            let (mut head, mut len) = (vec![], 0);
            loop {
                let mut line = String::new();
                if stream.read_line(&mut line).unwrap_or(0) == 0 {
                    return;
                }
                if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                    len = value.trim().parse().unwrap();
                }
                if line == "\r\n" {
                    break;
                }
                head.push(line);
            }
            let mut body = vec![0; len];
            stream.read_exact(&mut body).unwrap();
            let path = head[0].split(' ').nth(1).unwrap();
            let answer: &[u8] = match path {
                "/there" => b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n\r\nhere",
                "/echo" => &[format!("HTTP/1.1 200 OK\r\nContent-Length: {len}\r\n\r\n").as_bytes(), &body].concat(),
                "/absent" => b"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnone",
                _ => {
                    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
                        5\r\nthis \r\nb\r\nis a chunk.\r\nno number\r\n"
                }
            };
            stream.get_mut().write_all(answer).unwrap();
        }
    }
    let said = talk_alike(BYTES, client, server, client, server);
    assert_eq!(said[..4], ["200 OK Some(\"text/plain\")", "here", "404 Not Found none", "this is a chunk."]);
    assert!(said[4].contains("chunk"), "{}", said[4]);
}

#[test]
fn imap_fetches_mail() {
    const MAIL: &str = "Subject: hello\r\n\r\nA line (with brackets)\r\nand a {12} brace\r\n";

    fn client<S: Read + Write>(stream: S) -> (String, u32, Vec<String>, String) {
        let mut client = imap::Client::new(stream);
        client.read_greeting().unwrap();
        let (refused, client) = client.login("user", "wrong").map(drop).unwrap_err();
        let mut session = client.login("user", "right").map_err(|(error, _)| error).unwrap();
        let mailbox = session.select("INBOX").unwrap();
        let mails = session.fetch("1:2", "RFC822").unwrap();
        let text = |mail: &imap::types::Fetch| String::from_utf8(mail.body().unwrap().to_vec()).unwrap();
        let mails = mails.iter().map(text).collect();
        let absent = session.select("Absent").unwrap_err();
        session.logout().unwrap();
        (refused.to_string(), mailbox.exists, mails, absent.to_string())
    }
    fn server<S: Read + Write>(mut stream: S) {
        stream.write_all(b"* OK here I am\r\n").unwrap();
        let mut stream = BufReader::new(stream);
        let mut line = String::new();
        while stream.read_line(&mut line).unwrap() > 0 {
            let (tag, command) = line.trim_end().split_once(' ').unwrap();
            let answer = match command {
                r#"LOGIN "user" "right""# => format!("{tag} OK in\r\n"),
                r#"SELECT "INBOX""# => format!("* 2 EXISTS\r\n* 1 RECENT\r\n{tag} OK [READ-WRITE] open\r\n"),
                "FETCH 1:2 RFC822" => {
                    let mail = |number| format!("* {number} FETCH (RFC822 {{{}}}\r\n{MAIL})\r\n", MAIL.len());
                    format!("{}{}{tag} OK fetched\r\n", mail(1), mail(2))
                }
                "LOGOUT" => format!("* BYE until then\r\n{tag} OK out\r\n"),
                _ => format!("{tag} NO not this\r\n"),
            };
            stream.get_mut().write_all(answer.as_bytes()).unwrap();
            line.clear();
        }
    }
    let (refused, exists, mails, absent) = talk_alike(BYTES, client, server, client, server);
    assert_eq!((exists, mails), (2, vec![MAIL.to_owned(); 2]));
    assert!(refused.contains("not this") && absent.contains("not this"), "{refused}; {absent}");
}
