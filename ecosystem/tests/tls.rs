//! TLS over streams of Segue's: in Rust, and in C.

use ecosystem::{Talk, noise, talk, talk_alike};
use openssl::error::ErrorStack;
use openssl::pkey::PKey;
use openssl::ssl::{SslAcceptor, SslConnector, SslMethod};
use openssl::x509::X509;
use rcgen::{CertifiedKey, KeyPair, generate_simple_self_signed};
use segue::net::TcpStream;
use std::fmt::Debug;
use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// Fewer than elsewhere, as a handshake takes its time without optimisation.
const BYTES: Talk = Talk { connections: 20, piece: 1 };

fn certificate() -> &'static CertifiedKey<KeyPair> {
    static CERTIFICATE: OnceLock<CertifiedKey<KeyPair>> = OnceLock::new();
    CERTIFICATE.get_or_init(|| generate_simple_self_signed(["localhost".into()]).unwrap())
}

/// Asks for something and reads all of the answer.
fn ask(stream: &mut (impl Read + Write)) -> io::Result<Vec<u8>> {
    stream.write_all(b"2000 bytes of 7\n")?;
    stream.flush()?;
    let mut answer = vec![];
    stream.read_to_end(&mut answer).map(|_| answer)
}

/// Reads a line, and answers it.
fn answer(stream: &mut (impl Read + Write)) -> io::Result<()> {
    let (mut line, mut byte) = (vec![], [0]);
    while byte != *b"\n" {
        stream.read_exact(&mut byte)?;
        line.push(byte[0]);
    }
    assert_eq!(line, b"2000 bytes of 7\n");
    stream.write_all(&noise(7, 2000))?;
    stream.flush()
}

#[test]
fn rustls_encrypts_both_ways() {
    use rustls::pki_types::PrivatePkcs8KeyDer;
    use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned};

    let CertifiedKey { cert, signing_key } = certificate();
    let key = PrivatePkcs8KeyDer::from(signing_key.serialize_der());
    let serves = ServerConfig::builder().with_no_client_auth().with_single_cert(vec![cert.der().clone()], key.into());
    let (mut roots, serves) = (RootCertStore::empty(), Arc::new(serves.unwrap()));
    roots.add(cert.der().clone()).unwrap();
    let trusts = Arc::new(ClientConfig::builder().with_root_certificates(roots).with_no_client_auth());
    let doubts = ClientConfig::builder().with_root_certificates(RootCertStore::empty()).with_no_client_auth();

    fn client<S: Read + Write>(config: &Arc<ClientConfig>, stream: S) -> Result<Vec<u8>, (io::ErrorKind, String)> {
        let connection = ClientConnection::new(config.clone(), "localhost".try_into().unwrap()).unwrap();
        let mut stream = StreamOwned::new(connection, stream);
        ask(&mut stream).map_err(|error| (error.kind(), error.to_string()))
    }
    fn server<S: Read + Write>(config: &Arc<ServerConfig>, stream: S, says_goodbye: bool) {
        let mut stream = StreamOwned::new(ServerConnection::new(config.clone()).unwrap(), stream);
        // A client that has doubts goes.
        if answer(&mut stream).is_ok() && says_goodbye {
            stream.conn.send_close_notify();
            stream.flush().unwrap();
        }
    }
    let doubts = Arc::new(doubts);
    let both = |config: &Arc<ClientConfig>, says_goodbye: bool| {
        talk_alike(
            BYTES,
            |stream| client(config, stream),
            |stream| server(&serves, stream, says_goodbye),
            |stream| client(config, stream),
            |stream| server(&serves, stream, says_goodbye),
        )
    };
    assert_eq!(both(&trusts, true), Ok(noise(7, 2000)));
    // An end that the server has not announced might be an attacker's.
    assert_eq!(both(&trusts, false).unwrap_err().0, io::ErrorKind::UnexpectedEof);
    let (kind, error) = both(&doubts, true).unwrap_err();
    assert!(kind == io::ErrorKind::InvalidData && error.contains("UnknownIssuer"), "{error}");
}

/// A stream for `openssl`. Its errors lie in a queue of the thread, which the other fibers of the
/// worker empty: so each takes its own out while it waits.
#[derive(Debug)]
struct KeepsErrors<S>(S);

fn keeping_errors<T>(wait: impl FnOnce() -> T) -> T {
    let kept = ErrorStack::get();
    let result = wait();
    drop(ErrorStack::get());
    kept.put();
    result
}

impl<S: Read> Read for KeepsErrors<S> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        keeping_errors(|| self.0.read(buf))
    }
}

impl<S: Write> Write for KeepsErrors<S> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        keeping_errors(|| self.0.write(buf))
    }

    fn flush(&mut self) -> io::Result<()> {
        keeping_errors(|| self.0.flush())
    }
}

/// What both ends of a connection by `openssl` are made with.
struct Ends {
    trusts: SslConnector,
    doubts: SslConnector,
    acceptor: SslAcceptor,
}

impl Ends {
    fn new() -> Self {
        let CertifiedKey { cert, signing_key } = certificate();
        let certificate = X509::from_der(cert.der()).unwrap();
        let mut acceptor = SslAcceptor::mozilla_intermediate_v5(SslMethod::tls()).unwrap();
        acceptor.set_private_key(&PKey::private_key_from_der(&signing_key.serialize_der()).unwrap()).unwrap();
        acceptor.set_certificate(&certificate).unwrap();
        let mut trusts = SslConnector::builder(SslMethod::tls()).unwrap();
        trusts.cert_store_mut().add_cert(certificate).unwrap();
        let doubts = SslConnector::builder(SslMethod::tls()).unwrap().build();
        Self { trusts: trusts.build(), doubts, acceptor: acceptor.build() }
    }

    fn client(&self, has_doubts: bool, stream: impl Read + Write + Debug) -> Result<Vec<u8>, String> {
        let config = if has_doubts { &self.doubts } else { &self.trusts };
        let mut stream = config.connect("localhost", stream).map_err(|error| error.to_string())?;
        ask(&mut stream).map_err(|error| error.to_string())
    }

    fn server(&self, says_goodbye: bool, stream: impl Read + Write + Debug) {
        let Ok(mut stream) = self.acceptor.accept(stream) else { return };
        if answer(&mut stream).is_ok() && says_goodbye {
            stream.shutdown().unwrap();
        }
    }

    /// Clients of which each second one has doubts, side by side.
    fn mixed<S: Read + Write + Debug>(&self, of: fn(TcpStream) -> S) -> Vec<(bool, Result<Vec<u8>, String>)> {
        let number = AtomicUsize::new(0);
        let client = |stream| {
            let has_doubts = number.fetch_add(1, Ordering::Relaxed).is_multiple_of(2);
            (has_doubts, self.client(has_doubts, of(stream)))
        };
        talk(BYTES, client, |stream| self.server(true, of(stream)))
    }
}

#[test]
fn openssl_encrypts_both_ways() {
    let ends = Ends::new();
    let both = |has_doubts: bool, says_goodbye: bool| {
        talk_alike(
            BYTES,
            |stream| ends.client(has_doubts, KeepsErrors(stream)),
            |stream| ends.server(says_goodbye, KeepsErrors(stream)),
            |stream| ends.client(has_doubts, stream),
            |stream| ends.server(says_goodbye, stream),
        )
    };
    assert_eq!(both(false, true), Ok(noise(7, 2000)));
    // It takes an end that was not announced for one, on plain threads too.
    assert_eq!(both(false, false), Ok(noise(7, 2000)));
    let error = both(true, true).unwrap_err();
    assert!(error.contains("certificate verify failed"), "{error}");
    for (has_doubts, result) in ends.mixed(KeepsErrors) {
        assert_eq!(result, if has_doubts { Err(error.clone()) } else { Ok(noise(7, 2000)) });
    }
    // Without that wrapper who fails is told so, but maybe with the reason of another fiber.
    for (has_doubts, result) in ends.mixed(|stream| stream) {
        assert!(!has_doubts || result.is_err(), "a certificate of nobody's was trusted");
    }
}
