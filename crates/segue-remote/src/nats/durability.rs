//! How often the server syncs to its disk, and the warning that follows from that.
//!
//! Used when a pool connects. A server acknowledges a message when it has written it; by default it
//! syncs to the disk every two minutes. So a loss of power, or a crash of the system, takes up to
//! two minutes of acknowledged jobs and results along. Servers from 2.10 on have the setting
//! `sync_interval: always`. A client can't ask for it: the answer is at the port of monitoring.

use crate::engine::EngineError;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// The least server.
const LEAST: (u64, u64, u64) = (2, 9, 10);
/// The first server with the setting.
const CAN_SYNC: (u64, u64, u64) = (2, 10, 0);
/// How long the port of monitoring may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// Warns unless the server syncs each message; refuses a server that is too old.
pub(super) fn warn(version: &str, monitor: Option<&str>, say: &mut dyn FnMut(&str)) -> Result<(), EngineError> {
    let numbers = parse(version);
    if numbers < LEAST {
        return Err(EngineError::Refused(format!("the server is nats-server {version}; 2.9.10 is the least")));
    }
    let interval = if numbers < CAN_SYNC {
        "every two minutes".to_owned()
    } else {
        match monitor {
            None => "at an interval that is not known here: `Options::monitor` asks".to_owned(),
            Some(address) => {
                let address = address.to_owned();
                match segue::blocking(move || ask(&address))? {
                    Ok(Some(interval)) => format!("every {interval:?}"),
                    Ok(None) => return Ok(()),
                    Err(error) => format!("at an interval that is not known here: {error}"),
                }
            }
        }
    };
    say(&format!(
        "warning: nats-server {version} syncs to its disk {interval}; jobs and results that it has acknowledged since \
         are lost with the machine's power (docs/remote.md)"
    ));
    Ok(())
}

fn parse(version: &str) -> (u64, u64, u64) {
    let mut numbers = version.split(['.', '-']).map(|number| number.parse().unwrap_or(0));
    let mut next = || numbers.next().unwrap_or(0);
    (next(), next(), next())
}

/// The interval, or none if each message is synced.
fn ask(address: &str) -> io::Result<Option<Duration>> {
    let wrong = |what: &str| io::Error::new(io::ErrorKind::InvalidData, format!("{address}: {what}"));
    let to = address.to_socket_addrs()?.next().ok_or_else(|| wrong("no address"))?;
    let mut stream = TcpStream::connect_timeout(&to, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"GET /varz HTTP/1.0\r\n\r\n")?;
    let mut reply = Vec::new();
    stream.take(1 << 20).read_to_end(&mut reply)?;
    let body = reply.windows(4).position(|end| end == b"\r\n\r\n").ok_or_else(|| wrong("no reply of HTTP"))?;
    let varz: serde_json::Value = serde_json::from_slice(&reply[body + 4..]).map_err(|_| wrong("no JSON"))?;
    let config = &varz["jetstream"]["config"];
    if config["sync_always"].as_bool() == Some(true) {
        return Ok(None);
    }
    let interval = config["sync_interval"].as_u64().ok_or_else(|| wrong("no jetstream.config.sync_interval"))?;
    Ok(Some(Duration::from_nanos(interval)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::thread;

    /// What is said of a server of this version, whose monitoring replies this.
    fn said(version: &str, reply: Option<&'static str>) -> Vec<String> {
        let mut lines = Vec::new();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let server = reply.map(|reply| {
            thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let mut asked = [0; 22];
                stream.read_exact(&mut asked).unwrap();
                stream.write_all(format!("HTTP/1.0 200 OK\r\n\r\n{reply}").as_bytes()).unwrap();
            })
        });
        let monitor = server.is_some().then_some(address.as_str());
        warn(version, monitor, &mut |line| lines.push(line.to_owned())).unwrap();
        server.into_iter().for_each(|server| server.join().unwrap());
        lines
    }

    #[test]
    fn whoever_does_not_sync_each_message_is_warned_of() {
        let always = r#"{"jetstream":{"config":{"sync_always":true,"sync_interval":120000000000}}}"#;
        let minutes = r#"{"jetstream":{"config":{"sync_interval":120000000000}}}"#;
        assert_eq!(said("2.10.1", Some(always)), [""; 0]);
        for (version, reply, part) in [
            ("2.9.10", None, "every two minutes"),
            ("2.11.0-beta.1", None, "Options::monitor"),
            ("2.10.1", Some(minutes), "every 120s"),
            ("2.10.1", Some("{}"), "no jetstream.config"),
            ("2.10.1", Some("<html>"), "no JSON"),
        ] {
            let lines = said(version, reply);
            assert!(lines.len() == 1 && lines[0].contains(part), "{version} {reply:?}: {lines:?}");
        }
    }

    #[test]
    fn a_server_that_is_too_old_is_refused() {
        for version in ["2.9.9", "2.8.4", "1.4.1", "", "seven"] {
            assert!(matches!(warn(version, None, &mut |_| {}), Err(EngineError::Refused(_))), "{version}");
        }
    }
}
