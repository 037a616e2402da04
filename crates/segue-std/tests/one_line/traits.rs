//! A crate that implements std's traits for its own types, with the one line in its root.

use std::error::Error;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::mpsc::{RecvError, SendError};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::{fmt, option, thread};

#[derive(Debug)]
enum Failed {
    Io(io::Error),
    Poisoned,
    Gone,
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "failed: {:?}", self)
    }
}

impl Error for Failed {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Failed::Io(error) => Some(error),
            _ => None,
        }
    }
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Self {
        Failed::Io(error)
    }
}

impl<G> From<PoisonError<G>> for Failed {
    fn from(_: PoisonError<G>) -> Self {
        Failed::Poisoned
    }
}

impl From<RecvError> for Failed {
    fn from(_: RecvError) -> Self {
        Failed::Gone
    }
}

impl<T> From<SendError<T>> for Failed {
    fn from(_: SendError<T>) -> Self {
        Failed::Gone
    }
}

/// Both ends of a connection in one.
struct Wire(TcpStream);

impl Read for Wire {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.read(buf)
    }
}

impl Write for Wire {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        (&self.0).write(buf)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

struct Port(u16);

impl ToSocketAddrs for Port {
    type Iter = option::IntoIter<SocketAddr>;

    fn to_socket_addrs(&self) -> io::Result<option::IntoIter<SocketAddr>> {
        Ok(Some(SocketAddr::from(([127, 0, 0, 1], self.0))).into_iter())
    }
}

#[test]
fn its_streams_errors_and_addresses_are_taken() -> Result<(), Failed> {
    let listener = TcpListener::bind(Port(0))?;
    let address = Port(listener.local_addr()?.port());
    let (send, receive) = std::sync::mpsc::channel();
    let heard = Arc::new(Mutex::new(String::new()));
    let server = thread::spawn({
        let heard = Arc::clone(&heard);
        move || -> Result<(), Failed> {
            let mut stream = BufReader::new(Wire(listener.accept()?.0));
            stream.read_line(&mut *heard.lock()?)?;
            Ok(send.send(stream.get_mut().write(b"ok")?)?)
        }
    });
    let mut client = Wire(TcpStream::connect(&address)?);
    client.write_all(b"hello\n")?;
    assert_eq!(receive.recv()?, 2);
    assert!(matches!(receive.recv().map_err(Failed::from), Err(Failed::Gone)));
    server.join().unwrap()?;
    assert_eq!(*heard.lock()?, "hello\n");
    let failed = Failed::from(io::Error::from(io::ErrorKind::NotFound));
    assert!(failed.to_string().starts_with("failed: Io") && failed.source().is_some());
    Ok(())
}

#[test]
fn its_waker_and_its_future_are_taken() {
    struct Unparks(thread::Thread);

    impl Wake for Unparks {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    struct Twice(bool);

    impl std::future::Future for Twice {
        type Output = u32;

        fn poll(mut self: std::pin::Pin<&mut Self>, context: &mut Context<'_>) -> Poll<u32> {
            if std::mem::replace(&mut self.0, true) {
                return Poll::Ready(7);
            }
            context.waker().wake_by_ref();
            Poll::Pending
        }
    }

    fn block_on<F: std::future::Future>(future: F) -> F::Output {
        let waker = Waker::from(Arc::new(Unparks(thread::current())));
        let mut future = Box::pin(future);
        loop {
            match future.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(value) => return value,
                Poll::Pending => thread::park(),
            }
        }
    }

    assert_eq!(block_on(Twice(false)), 7);
    assert_eq!(thread::spawn(|| block_on(Twice(false))).join().unwrap(), 7);
}
