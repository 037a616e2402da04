//! TLS by rustls: a server and fifty clients are fibers of one worker, and rustls is told only that
//! a stream can be read and written.

use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned};
use segue::net::{TcpListener, TcpStream};
use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::sync::Arc;

const CLIENTS: usize = 50;

/// Both sides' settings; the clients trust a certificate that is made here.
fn settings() -> Result<(Arc<ServerConfig>, Arc<ClientConfig>), Box<dyn Error + Send + Sync>> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let (certificate, key) = (made.cert.der().clone(), PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone())?;
    let server = ServerConfig::builder().with_no_client_auth().with_single_cert(vec![certificate], key.into())?;
    let client = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    Ok((Arc::new(server), Arc::new(client)))
}

/// Greets who says a name.
fn greet(config: Arc<ServerConfig>, stream: TcpStream) -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut stream = BufReader::new(StreamOwned::new(ServerConnection::new(config)?, stream));
    let mut name = String::new();
    stream.read_line(&mut name)?;
    let mut stream = stream.into_inner();
    write!(stream, "Hello, {}!", name.trim_end())?;
    stream.conn.send_close_notify();
    Ok(stream.flush()?)
}

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let (server, client) = settings()?;
    segue::runtime().workers(1).run(|| {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let ask = |number: usize| -> Result<String, Box<dyn Error + Send + Sync>> {
            let connection = ClientConnection::new(Arc::clone(&client), "localhost".try_into()?)?;
            let mut stream = StreamOwned::new(connection, TcpStream::connect(address)?);
            writeln!(stream, "client {number}")?;
            let mut greeting = String::new();
            stream.read_to_string(&mut greeting)?;
            Ok(greeting)
        };
        let ask = &ask;
        segue::try_scope(|s| {
            s.spawn(move || {
                for stream in listener.incoming().take(CLIENTS) {
                    let (config, stream) = (Arc::clone(&server), stream.expect("nobody cancels it"));
                    segue::spawn(move || greet(config, stream).expect("the client is polite"));
                }
            });
            let fibers: Vec<_> = (0..CLIENTS).map(|number| s.spawn(move || ask(number))).collect();
            for (number, fiber) in fibers.into_iter().enumerate() {
                assert_eq!(fiber.join().expect("it does not panic")?, format!("Hello, client {number}!"));
            }
            println!("{CLIENTS} clients were greeted");
            Ok::<_, Box<dyn Error + Send + Sync>>(())
        })?;
        Ok(())
    })?
}
