//! Clients of another implementation: the program openssl, where there is one.

use std::io::Write;
use std::process::{Command, Stdio};

use segue_http::Server;

use crate::common::{echo, plain};
use crate::{ask, get, server_config, with_server};

#[test]
fn openssl_gets_its_answers() {
    if Command::new("openssl").arg("version").output().is_err() {
        eprintln!("there is no openssl here");
        return;
    }
    with_server(Server::new(echo).config(plain()), server_config(), |address| {
        for version in ["-tls1_2", "-tls1_3"] {
            let mut client = Command::new("openssl")
                .args(["s_client", "-quiet", "-servername", "localhost", "-alpn", "http/1.1", version, "-connect"])
                .arg(address.to_string())
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            let mut input = client.stdin.take().unwrap();
            let last = "GET /last HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
            input.write_all((get("/first") + last).as_bytes()).unwrap();
            // It ends with the server's end.
            let output = client.wait_with_output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(text.contains("GET /first ") && text.ends_with("GET /last "), "{text}");
            drop(input);
        }
    });
}

#[test]
fn nobody_renegotiates() {
    if Command::new("openssl").arg("version").output().is_err() {
        eprintln!("there is no openssl here");
        return;
    }
    with_server(Server::new(echo).config(plain()), server_config(), |address| {
        let mut client = Command::new("openssl")
            .args(["s_client", "-tls1_2", "-connect", &address.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // The program's command for that. It ends when the server refuses.
        let mut input = client.stdin.take().unwrap();
        input.write_all(b"R\n").unwrap();
        let output = client.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains("RENEGOTIATING") && text.contains("no renegotiation"), "{text}");
        assert!(ask(&mut crate::client(address), "/").unwrap().ends_with("GET / "));
    });
}
