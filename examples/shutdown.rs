//! An orderly end. On SIGTERM the server accepts no more; requests that were begun have a grace;
//! what is left then is cancelled; and what does not end even so is reported, by name and with what
//! it waits for. Here another program sends the signal.

use segue::net::{TcpListener, TcpStream};
use segue::process::{self, Command};
use segue::sched::Shutdown;
use segue::signal::{Signal, Signals};
use segue::sync::Latch;
use segue::{Builder, Cancelled, runtime, select, shield, sleep};
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

const GRACE: Duration = Duration::from_millis(300);

/// What prints, and is out of paper until the report has told somebody.
static PRESS: Latch = Latch::new(1);

/// The three kinds of requests.
const KINDS: [&str; 3] = ["quick", "endless", "print"];

fn work(kind: &str) -> Result<(), Cancelled> {
    match kind {
        "quick" => sleep(GRACE / 10),
        "endless" => sleep(Duration::MAX),
        // It must not be interrupted.
        _ => shield(|| PRESS.wait()),
    }
}

fn answer(kind: &str, mut stream: TcpStream) -> io::Result<()> {
    let answer = work(kind).map_or_else(|cancelled| cancelled.to_string(), |()| "done".to_owned());
    // Also of one that was cancelled.
    shield(|| stream.write_all(answer.as_bytes()))
}

fn serve(told: &mpsc::Sender<SocketAddr>) -> io::Result<()> {
    let terminate = Signals::new(Signal::TERM)?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    told.send(listener.local_addr()?).expect("the clients wait for it");
    let mut requests = 0;
    loop {
        let (mut stream, _peer) = select! {
            accepted = listener.accept_source() => accepted,
            // The return of the first fiber begins the shutdown.
            signal = terminate.recv_source() => return signal,
        }??;
        let mut kind = [0];
        stream.read_exact(&mut kind)?;
        let kind = KINDS[usize::from(kind[0])];
        Builder::new().name(kind).spawn(move || answer(kind, stream));
        requests += 1;
        if requests == KINDS.len() {
            segue::spawn(|| process::status(Command::new("sh").args(["-c", "kill -TERM $PPID"])));
        }
    }
}

/// Asks for something, on a plain thread, and reads until the server hangs up.
fn ask(server: SocketAddr, kind: u8) -> io::Result<String> {
    let (mut answer, mut stream) = (String::new(), std::net::TcpStream::connect(server)?);
    stream.write_all(&[kind])?;
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

fn main() -> io::Result<()> {
    let (tell, report) = mpsc::channel();
    let shutdown = Shutdown::new().grace(GRACE).deadline(GRACE).on_survivors(move |survivors| {
        tell.send(survivors.to_string()).expect("it is kept");
        // A service would end here, by `exit_status(1)`, and has the report on the standard error.
        PRESS.count_down(1);
    });
    let (told, address) = mpsc::channel();
    let server = thread::spawn(move || runtime().shutdown(shutdown).run(|| serve(&told)));
    let server_at = address.recv().expect("the server starts");
    let clients = [0, 1, 2].map(|kind| thread::spawn(move || ask(server_at, kind)));
    let answers = clients.map(|client| client.join().expect("a client"));
    server.join().expect("the server")??;

    let [quick, endless, printed] = answers;
    assert_eq!(quick?, "done", "in its grace");
    let endless = endless?;
    assert!(endless.starts_with("cancelled: asked to finish, and not over after 300ms: "), "{endless}");
    assert!(endless.contains("`endless`"), "{endless}");
    assert_eq!(printed?, "done");
    let report = report.recv().expect("the press was there after the deadline");
    assert!(report.contains("fiber `print` waits for a latch at "), "{report}");
    assert!(!report.contains("quick") && !report.contains("endless"), "{report}");
    print!("{report}");
    Ok(())
}
