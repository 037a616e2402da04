//! One connection's TLS without its stream: ciphertext comes in and goes out by two queues. Used by
//! the stream, which moves bytes between these queues and the transport below.
//!
//! # The idea
//!
//! rustls' unbuffered connection keeps keys and counters, and no bytes. An engine adds three
//! queues:
//!
//! ```text
//!   the peer's ciphertext --> incoming --> rustls --> the reader's buffer, the rest to plain
//!   the writer's buffer  --> rustls --> outgoing --> ciphertext to the peer
//! ```
//!
//! Nothing in an engine waits. Each call goes on until rustls has nothing more to do with the bytes
//! that are there. So between two calls this holds:
//!
//! * `incoming` has no whole record, except for fragments of a message of the handshake that is not
//!   complete. So rustls is ready to encrypt whenever a writer comes, however much was received
//!   before.
//! * `outgoing` has ciphertext in the order in which rustls has numbered the records. These bytes
//!   are sent in that order, each once, or the stream ends.
//! * A queue without bytes has no buffer.
//!
//! # States
//!
//! | state | is left by | for |
//! | --- | --- | --- |
//! | handshake | rustls, at the last message | open |
//! | open | the writer's close; the peer's close; an error | closed by us; closed by the peer; failed |
//! | closed by us | the peer's close; an error | over; failed |
//! | closed by the peer | the writer's close; an error | over; failed |
//! | failed, over | nothing | |
//!
//! "Closed by us" is `closed`, "closed by the peer" is `peer_closed`, "failed" is `failed`: the
//! same error is given for ever, after the plaintext that came before. An error adds an alert for
//! the peer to `outgoing`.
//!
//! # Cancellation
//!
//! The stream alone waits: for room in the transport, or for ciphertext. A cancellation there finds
//! the engine between two calls. Bytes that the transport has taken were taken off `outgoing`; the
//! others stay, and are the first to be sent by the next read, write, flush or close. A writer was
//! told which of its bytes were encrypted, and does not bring these again. Bytes that were received
//! are in `incoming` before the next wait. So a cancelled call loses nothing, and can be repeated.
//!
//! **The race to fear** is a second encryption of the same bytes: a write that fails after it has
//! encrypted some. So a write sends before it encrypts, and never afterwards.
//!
//! # Foreign code
//!
//! rustls calls the configuration's: resolvers of certificates, verifiers, signers, tickets. These
//! may panic or wait. No queue is borrowed from the thread meanwhile; after a panic rustls refuses
//! to go on. The name that the client asks for is told to a resolver alone, so the resolver here
//! leaves the name in a variable of the fiber.

use std::cell::RefCell;
use std::io;
use std::sync::Arc;

use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::ServerName;
use rustls::server::{ClientHello, ResolvesServerCert, UnbufferedServerConnection};
use rustls::sign::CertifiedKey;
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus};
use rustls::{ClientConfig, CommonState, Error, ProtocolVersion, ServerConfig};

use crate::tls::buffer::Buffer;

/// The least room for a read of ciphertext.
const LEAST_READ: usize = 2 << 10;

/// The most ciphertext that is kept while a message of the handshake comes in fragments: such a
/// message has at most 64 KiB, and a fragment its frame.
const MOST_INCOMING: usize = 128 << 10;
/// The longest record with its frame.
const RECORD: usize = 5 + (16 << 10) + (2 << 10);
const HEADER: usize = 5;
/// Room beyond the plaintext for the frames of two records, and a change of keys before them.
const FRAMES: usize = 256;

pub(super) struct Engine {
    side: Side,
    incoming: Buffer,
    plain: Buffer,
    outgoing: Buffer,
    name: Option<Box<str>>,
    failed: Option<Error>,
    peer_closed: bool,
    closed: bool,
}

enum Side {
    Server(UnbufferedServerConnection),
    Client(UnbufferedClientConnection),
}

impl Side {
    fn common(&self) -> &CommonState {
        match self {
            Side::Server(connection) => connection,
            Side::Client(connection) => connection,
        }
    }
}

/// The wish of a caller for which rustls has to be ready.
enum Wish<'a> {
    Nothing,
    Encrypt(&'a [u8]),
    Close,
}

/// The place for plaintext.
struct Sink<'a> {
    dst: &'a mut [u8],
    taken: usize,
    rest: &'a mut Buffer,
}

impl Sink<'_> {
    fn add(&mut self, bytes: &[u8]) {
        let count = bytes.len().min(self.dst.len() - self.taken);
        self.dst[self.taken..][..count].copy_from_slice(&bytes[..count]);
        self.taken += count;
        self.rest.append(&bytes[count..]);
    }
}

/// The end of one call of rustls.
enum Step {
    Again,
    PeerClosed,
    /// Without more ciphertext nothing more happens.
    Rests,
    /// The wish is fulfilled.
    Done,
    Failed(Error),
}

impl Engine {
    pub(super) fn server(config: Arc<ServerConfig>) -> Result<Engine, Error> {
        UnbufferedServerConnection::new(config).map(|connection| Engine::new(Side::Server(connection)))
    }

    pub(super) fn client(config: Arc<ClientConfig>, name: ServerName<'static>) -> Result<Engine, Error> {
        let text: Box<str> = name.to_str().into();
        let connection = UnbufferedClientConnection::new(config, name)?;
        Ok(Engine { name: Some(text), ..Engine::new(Side::Client(connection)) })
    }

    fn new(side: Side) -> Engine {
        Engine {
            side,
            incoming: Buffer::default(),
            plain: Buffer::default(),
            outgoing: Buffer::default(),
            name: None,
            failed: None,
            peer_closed: false,
            closed: false,
        }
    }

    pub(super) fn common(&self) -> &CommonState {
        self.side.common()
    }

    /// Whether the peer does not wait for the last messages of this handshake, which is over.
    pub(super) fn has_only_tickets(&self) -> bool {
        matches!(self.side, Side::Server(_)) && self.common().protocol_version() == Some(ProtocolVersion::TLSv1_3)
    }

    /// The name of the server that the client asks for.
    pub(super) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Whether the writer has closed.
    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Whether no plaintext comes after that which was taken.
    pub(super) fn is_at_end(&self) -> bool {
        self.peer_closed && self.plain.is_empty()
    }

    /// Whether a read needs no more ciphertext.
    pub(super) fn has_answer(&self) -> bool {
        !self.plain.is_empty() || self.peer_closed || self.failed.is_some()
    }

    /// The ciphertext for the peer.
    pub(super) fn outgoing(&self) -> &[u8] {
        self.outgoing.filled()
    }

    /// The transport has taken so many bytes of the ciphertext.
    pub(super) fn sent(&mut self, count: usize) {
        self.outgoing.consume(count);
    }

    /// The rest of the ciphertext may have to wait for long.
    pub(super) fn fit_outgoing(&mut self) {
        self.outgoing.fit();
    }

    /// Whether nothing of a record has come that rustls still needs.
    pub(super) fn has_no_input(&self) -> bool {
        self.incoming.is_empty()
    }

    /// Room for ciphertext from the peer: for the rest of the next record at least.
    pub(super) fn input_room(&mut self) -> &mut [u8] {
        let missing = missing(self.incoming.filled()).min(RECORD);
        // A peer that sends records of a few bytes is not to be read a few bytes at a time.
        self.incoming.room(missing.max(LEAST_READ))
    }

    /// So much ciphertext was put into the room.
    pub(super) fn received(&mut self, count: usize) {
        self.incoming.added(count);
    }

    /// Ciphertext that was received elsewhere.
    pub(super) fn receive(&mut self, bytes: &[u8]) {
        self.incoming.append(bytes);
    }

    /// Makes progress with the handshake.
    pub(super) fn shake(&mut self) -> Result<(), Error> {
        noted(None);
        let result = self.drive(&mut [], &Wish::Nothing);
        if let Some(name) = noted(None) {
            self.name = Some(name);
        }
        result.map(drop)
    }

    /// Takes plaintext, if there is some: zero is none as yet, or the end.
    #[inline(never)] // The frame of a wait is to be small.
    pub(super) fn read(&mut self, dst: &mut [u8]) -> Result<usize, Error> {
        if !self.plain.is_empty() {
            return Ok(self.plain.take_into(dst));
        }
        if self.incoming.is_empty() && self.failed.is_none() {
            return Ok(0);
        }
        self.drive(dst, &Wish::Nothing)
    }

    /// Encrypts all of these bytes, or none.
    pub(super) fn encrypt(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.drive(&mut [], &Wish::Encrypt(bytes)).map(drop)
    }

    /// Adds the word that nothing more is written; once.
    pub(super) fn close(&mut self) -> Result<(), Error> {
        if !self.closed {
            self.closed = true;
            self.drive(&mut [], &Wish::Close)?;
        }
        Ok(())
    }

    /// Has rustls work until it rests. Returns how much plaintext is in `dst`; the error of a
    /// record behind that is for the next call.
    fn drive(&mut self, dst: &mut [u8], wish: &Wish<'_>) -> Result<usize, Error> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let mut sink = Sink { dst, taken: 0, rest: &mut self.plain };
        // After an error rustls is only asked for the alert: it must not see the bytes again.
        while self.failed.is_none() || self.side.common().wants_write() {
            let input = self.incoming.filled_mut();
            let (used, step) = match &mut self.side {
                Side::Server(connection) => {
                    turn(connection.process_tls_records(input), &mut self.outgoing, &mut sink, wish)
                }
                Side::Client(connection) => {
                    turn(connection.process_tls_records(input), &mut self.outgoing, &mut sink, wish)
                }
            };
            self.incoming.consume(used);
            let error = match (step, &self.failed) {
                (Step::Again, _) => continue,
                (Step::PeerClosed, _) => {
                    self.peer_closed = true;
                    continue;
                }
                (Step::Rests, None) if self.incoming.len() > MOST_INCOMING => {
                    Error::General("the fragments of a message are too many".into())
                }
                (Step::Rests, None) if matches!(wish, Wish::Encrypt(_)) => Error::HandshakeNotComplete,
                (Step::Rests | Step::Done, None) => break,
                (Step::Failed(error), None) => error,
                (Step::Rests | Step::Done | Step::Failed(_), Some(_)) => break,
            };
            self.failed = Some(error);
        }
        // Bytes behind the peer's last ones mean nothing.
        if self.failed.is_some() || self.peer_closed {
            self.incoming.clear();
        }
        match &self.failed {
            Some(error) if sink.taken == 0 && sink.rest.is_empty() => Err(error.clone()),
            Some(error) if !matches!(wish, Wish::Nothing) => Err(error.clone()),
            _ => Ok(sink.taken),
        }
    }
}

/// Does what rustls asks for, or the wish. Returns also how much of the input rustls has used.
fn turn<Side>(
    status: UnbufferedStatus<'_, '_, Side>,
    outgoing: &mut Buffer,
    sink: &mut Sink<'_>,
    wish: &Wish<'_>,
) -> (usize, Step) {
    let UnbufferedStatus { mut discard, state } = status;
    let step = match state {
        Err(error) => Step::Failed(error),
        Ok(ConnectionState::ReadTraffic(mut traffic)) => loop {
            match traffic.next_record() {
                None => break Step::Again,
                Some(Err(error)) => break Step::Failed(error),
                Some(Ok(record)) => {
                    discard += record.discard;
                    sink.add(record.payload);
                }
            }
        },
        Ok(ConnectionState::EncodeTlsData(mut message)) => {
            let mut room = FRAMES;
            loop {
                match message.encode(outgoing.room(room)) {
                    Ok(count) => {
                        outgoing.added(count);
                        break Step::Again;
                    }
                    Err(EncodeError::InsufficientSize(error)) => room = error.required_size,
                    Err(EncodeError::AlreadyEncoded) => break Step::Again,
                }
            }
        }
        Ok(ConnectionState::TransmitTlsData(sent)) => {
            // As good as sent: nothing overtakes the bytes in the queue.
            sent.done();
            Step::Again
        }
        Ok(ConnectionState::PeerClosed) => Step::PeerClosed,
        Ok(ConnectionState::WriteTraffic(mut traffic)) => {
            let mut room = FRAMES;
            loop {
                let added = match wish {
                    Wish::Nothing => break Step::Rests,
                    Wish::Encrypt(bytes) => traffic.encrypt(bytes, outgoing.room(room.max(bytes.len() + FRAMES))),
                    Wish::Close => traffic.queue_close_notify(outgoing.room(room)),
                };
                match added {
                    Ok(count) => {
                        outgoing.added(count);
                        break Step::Done;
                    }
                    Err(EncryptError::InsufficientSize(error)) => room = error.required_size,
                    Err(EncryptError::EncryptExhausted) => break Step::Failed(Error::EncryptError),
                }
            }
        }
        // Early data is not accepted, and all other states are those in which rustls waits.
        Ok(_) => Step::Rests,
    };
    (discard, step)
}

/// How many bytes the record lacks that is not whole. A guess where rustls has joined the pieces of
/// a message in place.
fn missing(mut bytes: &[u8]) -> usize {
    loop {
        let Some(&[.., high, low]) = bytes.first_chunk::<HEADER>() else { return HEADER - bytes.len() };
        let whole = HEADER + usize::from(u16::from_be_bytes([high, low]));
        match bytes.get(whole..) {
            Some(rest) => bytes = rest,
            None => return whole - bytes.len(),
        }
    }
}

/// The error of a call of the stream.
pub(super) fn io_error(error: Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

segue_core::fiber_local! {
    /// The name that the client of the running handshake asks for. Not a thread's variable: foreign
    /// code may wait between the resolver and the end of the call of rustls.
    static ASKED: RefCell<Option<Box<str>>> = RefCell::new(None);
}

/// Puts a name there, and takes the former one. There is none in a fiber that ends.
fn noted(name: Option<Box<str>>) -> Option<Box<str>> {
    ASKED.try_with(|asked| asked.replace(name)).ok().flatten()
}

/// Resolves as the resolver in it, and notes the name that the client asks for.
#[derive(Debug)]
pub(super) struct Noted(pub(super) Arc<dyn ResolvesServerCert>);

impl ResolvesServerCert for Noted {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let name = hello.server_name().map(Box::from);
        // Foreign code, which may make a handshake itself.
        let resolved = self.0.resolve(hello);
        noted(name);
        resolved
    }

    fn only_raw_public_keys(&self) -> bool {
        self.0.only_raw_public_keys()
    }
}
