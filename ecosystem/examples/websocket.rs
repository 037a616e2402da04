//! WebSockets by tungstenite: a room in which what one says is sent to all, each a fiber of one
//! worker.

use segue::channel::broadcast;
use segue::net::{TcpListener, TcpStream};
use segue::sync::Barrier;
use std::error::Error;
use std::net::SocketAddr;
use tungstenite::{Message, client};

const GUESTS: usize = 20;

type Failure = Box<dyn Error + Send + Sync>;

/// Hears what a guest has to say, and tells the guest what all have said.
fn serve(stream: TcpStream, room: &broadcast::Sender<String>, all_are_here: &Barrier) -> Result<(), Failure> {
    let (mut heard, mut socket) = (room.subscribe(), tungstenite::accept(stream)?);
    all_are_here.wait()?;
    let said = socket.read()?.into_text()?.to_string();
    room.send(said).map_err(|rejected| rejected.error)?;
    for _ in 0..GUESTS {
        let said = heard.recv()?;
        socket.send(Message::text(said))?;
    }
    socket.close(None)?;
    while socket.read().is_ok() {}
    Ok(())
}

/// Says something, and returns all that is said.
fn visit(address: SocketAddr, number: usize) -> Result<Vec<String>, Failure> {
    let (mut socket, _answer) = client("ws://localhost/room", TcpStream::connect(address)?)?;
    socket.send(Message::text(format!("I am {number}")))?;
    let mut heard = vec![];
    while let Ok(message) = socket.read() {
        if let Message::Text(text) = message {
            heard.push(text.to_string());
        }
    }
    heard.sort();
    Ok(heard)
}

fn main() -> Result<(), Failure> {
    segue::runtime().workers(1).run(|| {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let ((room, _nobody), all_are_here) = (broadcast::channel(GUESTS), Barrier::new(GUESTS));
        segue::try_scope(|s| {
            let guests: Vec<_> = (0..GUESTS).map(|number| s.spawn(move || visit(address, number))).collect();
            for stream in listener.incoming().take(GUESTS) {
                let (stream, room, all_are_here) = (stream?, &room, &all_are_here);
                s.spawn(move || serve(stream, room, all_are_here).expect("all guests are polite"));
            }
            let mut expected: Vec<_> = (0..GUESTS).map(|number| format!("I am {number}")).collect();
            expected.sort();
            for guest in guests {
                assert_eq!(guest.join()??, expected);
            }
            println!("{GUESTS} guests have heard each other");
            Ok::<_, Failure>(())
        })?;
        Ok(())
    })?
}
