//! `https`: a server of TLS, with a certificate that nobody knows.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::load;

/// Answers each request with `body`; the threads end with the process.
fn serve(body: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    let builder = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let config = Arc::new(builder.with_single_cert(vec![made.cert.der().clone()], key).unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let config = Arc::clone(&config);
            thread::spawn(move || answer(config, stream.unwrap(), body));
        }
    });
    format!("https://{address}/")
}

fn answer(config: Arc<ServerConfig>, stream: TcpStream, body: &str) -> Option<()> {
    let session = ServerConnection::new(config).unwrap();
    let mut stream = BufReader::new(StreamOwned::new(session, stream));
    loop {
        let mut line = String::new();
        while line != "\r\n" {
            line.clear();
            if stream.read_line(&mut line).ok()? == 0 {
                return None;
            }
        }
        let reply = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        stream.get_mut().write_all(reply.as_bytes()).ok()?;
    }
}

#[test]
fn a_server_of_tls_is_asked_over_tls() {
    let options = "--rate 200 --duration 300ms --connections 3 --insecure --json";
    let output = load(&serve("hello"), options);
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(output.status.success(), "{result}");
    assert_eq!(super::settled(&result), 60, "{result}");
    assert!(result["replies"].as_u64().unwrap() > 0, "{result}");
}

#[test]
fn a_server_that_speaks_no_tls_is_an_error_that_says_what_to_do() {
    let server = super::Served::new(|_| "hello");
    let output = load(&server.url().replace("http", "https"), "--rate 10 --insecure");
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("is the server running, and is this its address?"), "{text}");
}
