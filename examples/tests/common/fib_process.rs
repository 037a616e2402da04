//! The built server in a process of its own, and a client on a plain socket.
//! Used by the test of the Fibonacci server.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Nothing here takes nearly as long; a hang is to fail and not to hang the run.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A process that runs the server; killed when it is dropped.
pub struct Process {
    child: Child,
    /// The first line of its output, then the rest of it when it has ended.
    output: mpsc::Receiver<String>,
    errors: mpsc::Receiver<String>,
}

impl Process {
    pub fn start(arguments: &[&str]) -> Process {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fib_server"));
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (send_output, output) = mpsc::channel();
        let (send_errors, errors) = mpsc::channel();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut stderr = child.stderr.take().unwrap();
        thread::spawn(move || {
            let (mut line, mut rest) = (String::new(), String::new());
            let _ = stdout.read_line(&mut line);
            let _ = send_output.send(line);
            let _ = stdout.read_to_string(&mut rest);
            let _ = send_output.send(rest);
        });
        thread::spawn(move || {
            let mut text = String::new();
            let _ = stderr.read_to_string(&mut text);
            let _ = send_errors.send(text);
        });
        Process { child, output, errors }
    }

    /// Waits for its end. Returns its status, what it still wrote, and its errors.
    pub fn end(mut self) -> (ExitStatus, String, String) {
        let rest = self.output.iter().last().unwrap_or_default();
        let errors = self.errors.recv_timeout(PATIENCE).expect("the process does not end");
        (self.child.wait().unwrap(), rest, errors)
    }

    pub fn signal(&self, name: &str) {
        // The child has not been waited for, so the number is still its own.
        let kill = format!("kill -{name} {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server on a free port.
pub struct Server {
    pub process: Process,
    pub addr: SocketAddr,
}

impl Server {
    pub fn start(arguments: &[&str]) -> Server {
        let process = Process::start(&[&["--addr", "127.0.0.1:0"], arguments].concat());
        let line = process.output.recv_timeout(PATIENCE).expect("the server does not say where it listens");
        let addr = line.split_once("http://").and_then(|(_, rest)| rest.split_once(',')?.0.parse().ok());
        let Some(addr) = addr else { panic!("no address in {line:?}; errors: {:?}", process.errors.recv()) };
        let curl = format!("curl -s http://{addr}/fib/30");
        assert!(line.trim_end().ends_with(&curl), "the line has a command to try: {line:?}");
        Server { process, addr }
    }

    pub fn connect(&self) -> Client {
        let stream = TcpStream::connect(self.addr).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Client(BufReader::new(stream))
    }

    pub fn connect_many(&self, count: usize) -> Vec<Client> {
        (0..count).map(|_| self.connect()).collect()
    }
}

pub struct Client(pub BufReader<TcpStream>);

#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    headers: Vec<(String, String)>,
    pub body: String,
}

impl Reply {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub fn closes(&self) -> bool {
        self.header("connection") == Some("close")
    }

    /// Asserts that the body is one line and mentions `what`.
    #[track_caller]
    pub fn says(&self, what: &str) {
        let line = self.body.strip_suffix('\n').unwrap_or(&self.body);
        assert!(!line.contains('\n') && line.contains(what), "expected one line with {what:?}: {self:?}");
    }
}

pub fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

impl Client {
    pub fn send(&mut self, request: &str) {
        self.0.get_mut().write_all(request.as_bytes()).unwrap();
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line.strip_suffix("\r\n").unwrap_or_else(|| panic!("the answer breaks off: {line:?}")).to_owned()
    }

    pub fn receive_head(&mut self) -> Reply {
        let first = self.line();
        let status = first.strip_prefix("HTTP/1.1 ").and_then(|rest| rest[..3].parse().ok());
        let status = status.unwrap_or_else(|| panic!("no status line: {first:?}"));
        let lines = std::iter::from_fn(|| Some(self.line()).filter(|line| !line.is_empty()));
        let split = |line: String| {
            let (name, value) = line.split_once(": ").unwrap();
            (name.to_ascii_lowercase(), value.to_owned())
        };
        Reply { status, headers: lines.map(split).collect(), body: String::new() }
    }

    pub fn receive(&mut self) -> Reply {
        let mut reply = self.receive_head();
        let mut body = vec![0; reply.header("content-length").expect("a length").parse().unwrap()];
        self.0.read_exact(&mut body).unwrap();
        reply.body = String::from_utf8(body).unwrap();
        reply
    }

    pub fn get(&mut self, path: &str) -> Reply {
        self.send(&get(path));
        self.receive()
    }

    /// Whether something has arrived and was not read.
    pub fn has_answer(&mut self) -> bool {
        self.0.get_ref().set_nonblocking(true).unwrap();
        let found = self.0.get_ref().peek(&mut [0]);
        self.0.get_ref().set_nonblocking(false).unwrap();
        match found {
            Ok(count) => count > 0,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                false
            }
        }
    }

    /// Asserts that the server ends the connection and sends nothing more.
    #[track_caller]
    pub fn expect_end(&mut self) {
        match self.0.read(&mut [0; 64]) {
            Ok(count) => assert_eq!(count, 0, "the connection goes on"),
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
        }
    }
}
