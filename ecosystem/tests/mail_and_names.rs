//! Mail that is sent, and names that are looked up.

use ecosystem::{FIBERS, Inside, Talk, on_one_worker, talk_alike};
use hickory_proto::op::{Message, OpCode, Query, ResponseCode};
use hickory_proto::rr::rdata::{A, MX, TXT};
use hickory_proto::rr::{Name, RData, Record, RecordType};
use segue::{blocking, scope, yield_now};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, SystemTime};

/// Sends two mails, of which the second one is refused; says how that has gone.
fn send(to: SocketAddr, number: usize) -> [String; 2] {
    use lettre::message::header::ContentType;
    use lettre::transport::smtp::{SmtpTransport, extension::ClientId};
    use lettre::{Message, Transport};

    let transport = SmtpTransport::builder_dangerous(to.ip().to_string()).port(to.port());
    let transport = transport.hello_name(ClientId::Domain("client.example".into())).build();
    ["friend@example.org", "nobody@example.org"].map(|recipient| {
        let mail = Message::builder().from("me@example.org".parse().unwrap()).to(recipient.parse().unwrap());
        let mail = mail.date(SystemTime::UNIX_EPOCH + Duration::from_secs(86_400)).subject(format!("Mail {number}"));
        let mail = mail.header(ContentType::TEXT_PLAIN).body("Grüße\n.\nand the rest\n".to_owned()).unwrap();
        format!("{:?}", transport.send(&mail).map_err(|error| error.to_string()))
    })
}

/// Serves one client, and returns what it was sent.
fn serve<S: Read + Write>(stream: S, answer: impl Fn(&mut S, &str)) -> String {
    let (mut stream, mut mail, mut line) = (BufReader::new(stream), String::new(), String::new());
    answer(stream.get_mut(), "220 here");
    loop {
        line.clear();
        if stream.read_line(&mut line).unwrap() == 0 {
            return mail;
        }
        match line.trim_end() {
            "DATA" => {
                answer(stream.get_mut(), "354 go on");
                while !mail.ends_with("\r\n.\r\n") {
                    stream.read_line(&mut mail).unwrap();
                }
                answer(stream.get_mut(), "250 taken");
            }
            "RCPT TO:<nobody@example.org>" => answer(stream.get_mut(), "550 nobody lives here"),
            "QUIT" => answer(stream.get_mut(), "221 until then"),
            _ => answer(stream.get_mut(), "250 fine"),
        }
    }
}

#[test]
fn lettre_sends_mail() {
    // On plain threads.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (said, mails) = std::thread::scope(|s| {
        let server = s.spawn(|| {
            let streams = listener.incoming().take(2);
            let answer = |stream: &mut std::net::TcpStream, text: &str| write!(stream, "{text}\r\n").unwrap();
            streams.map(|stream| serve(stream.unwrap(), answer)).collect::<Vec<_>>()
        });
        (send(address, 3), server.join().unwrap())
    });
    assert!(said[0].contains("taken") && said[1].contains("nobody lives here"), "{said:?}");
    assert!(mails[0].contains("\r\n..\r\n") && mails[1].is_empty(), "{mails:?}");
    // In fibers of one worker, whose first answers come when all have called.
    let inside = Inside::default();
    let (results, mut sent) = on_one_worker(|| {
        let listener = segue::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        scope(|s| {
            let clients: Vec<_> = (0..FIBERS)
                .map(|number| {
                    let inside = &inside;
                    s.spawn(move || inside.during(|| blocking(|| send(address, number)).unwrap()))
                })
                .collect();
            let answer = |mut stream: &segue::net::TcpStream, text: &str| {
                for byte in format!("{text}\r\n").bytes() {
                    stream.write_all(&[byte]).unwrap();
                    yield_now().unwrap();
                }
            };
            let servers: Vec<_> = (0..2 * FIBERS)
                .map(|number| {
                    let (stream, _) = listener.accept().unwrap();
                    let inside = &inside;
                    s.spawn(move || {
                        if number < FIBERS {
                            inside.wait_for(FIBERS);
                        }
                        serve(&stream, |stream, text| answer(stream, text))
                    })
                })
                .collect();
            let results: Vec<_> = clients.into_iter().map(|client| client.join().unwrap()).collect();
            (results, servers.into_iter().map(|server| server.join().unwrap()).collect::<Vec<_>>())
        })
    });
    assert_eq!(results, vec![said; FIBERS]);
    sent.retain(|mail| !mail.is_empty());
    sent.sort();
    let mut expected: Vec<_> =
        (0..FIBERS).map(|number| mails[0].replace("Mail 3", &format!("Mail {number}"))).collect();
    expected.sort();
    assert_eq!(sent, expected);
}

fn question(number: u16) -> Vec<u8> {
    let name = Name::from_ascii(format!("host-{number}.example.")).unwrap();
    let mut message = Message::query();
    message.metadata.id = 1000 + number;
    message.add_query(Query::query(name.clone(), RecordType::A)).add_query(Query::query(name, RecordType::MX));
    message.to_vec().unwrap()
}

/// What a server answers; of a host with an even number.
fn answer(question: &[u8]) -> Vec<u8> {
    let question = Message::from_vec(question).unwrap();
    let number = question.metadata.id - 1000;
    let mut message = Message::response(question.metadata.id, OpCode::Query);
    let name = question.queries[0].name().clone();
    message.add_queries(question.queries);
    if number.is_multiple_of(2) {
        let records = [
            RData::A(A(Ipv4Addr::new(10, 0, (number >> 8) as u8, number as u8))),
            RData::MX(MX::new(10, Name::from_ascii("mail.example.").unwrap())),
            RData::TXT(TXT::new(vec![format!("host {number}"); 3])),
        ];
        message.add_answers(records.map(|data| Record::from_rdata(name.clone(), 60, data)));
    } else {
        message.metadata.response_code = ResponseCode::NXDomain;
    }
    message.to_vec().unwrap()
}

/// What a client makes of an answer.
fn understand(answer: &[u8]) -> (u16, ResponseCode, Vec<String>) {
    let message = Message::from_vec(answer).unwrap();
    let records = message.answers.iter().map(|record| record.to_string()).collect();
    (message.metadata.id, message.metadata.response_code, records)
}

#[test]
fn hickory_proto_asks_and_answers() {
    // By UDP: nobody is answered before all have asked, and then the last is the first.
    let answers = on_one_worker(|| {
        let server = segue::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = server.local_addr().unwrap();
        scope(|s| {
            let clients: Vec<_> = (0..FIBERS as u16)
                .map(|number| {
                    s.spawn(move || {
                        let socket = segue::net::UdpSocket::bind("127.0.0.1:0").unwrap();
                        socket.connect(address).unwrap();
                        socket.send(&question(number)).unwrap();
                        let mut packet = [0; 512];
                        let len = socket.recv(&mut packet).unwrap();
                        understand(&packet[..len])
                    })
                })
                .collect();
            let mut asked = vec![];
            while asked.len() < FIBERS {
                let mut packet = [0; 512];
                let (len, from) = server.recv_from(&mut packet).unwrap();
                asked.push((packet[..len].to_vec(), from));
            }
            for (question, from) in asked.into_iter().rev() {
                server.send_to(&answer(&question), from).unwrap();
            }
            clients.into_iter().map(|client| client.join().unwrap()).collect::<Vec<_>>()
        })
    });
    for (number, found) in (0_u16..).zip(&answers) {
        assert_eq!(found, &understand(&answer(&question(number))));
        assert_eq!((found.0, found.2.len()), (1000 + number, if number % 2 == 0 { 3 } else { 0 }));
    }
    // By TCP, each with its length before it, and two on their way at once.
    fn receive(stream: &mut impl Read) -> Option<Vec<u8>> {
        let mut len = [0; 2];
        stream.read_exact(&mut len).ok()?;
        let mut message = vec![0; u16::from_be_bytes(len).into()];
        stream.read_exact(&mut message).unwrap();
        Some(message)
    }
    fn send(stream: &mut impl Write, message: &[u8]) {
        stream.write_all(&(message.len() as u16).to_be_bytes()).unwrap();
        stream.write_all(message).unwrap();
    }
    fn client(mut stream: impl Read + Write) -> Vec<(u16, ResponseCode, Vec<String>)> {
        (0..2).for_each(|number| send(&mut stream, &question(number)));
        (0..2).map(|_| understand(&receive(&mut stream).unwrap())).collect()
    }
    fn server(mut stream: impl Read + Write) {
        while let Some(question) = receive(&mut stream) {
            send(&mut stream, &answer(&question));
        }
    }
    let how = Talk { connections: FIBERS, piece: 1 };
    assert_eq!(talk_alike(how, client, server, client, server), answers[..2]);
}
