//! A headless Chromium, and the part of its DevTools protocol that evaluates an expression in a
//! page: JSON in the frames of a WebSocket. Used by the tests beside.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// A page that has not come by then never does.
const PATIENCE: Duration = Duration::from_secs(60);
/// The pause between two looks at a page.
const PAUSE: Duration = Duration::from_millis(5);

/// A browser with one page.
pub struct Browser {
    process: Child,
    profile: PathBuf,
    page: TcpStream,
    asked: u64,
}

/// The program, if there is one.
pub fn program() -> Option<PathBuf> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).flat_map(|folder| names.map(|name| folder.join(name))).find(|file| file.is_file())
}

impl Browser {
    /// Opens a page.
    pub fn open(url: &str) -> io::Result<Browser> {
        let program = program().ok_or(io::ErrorKind::NotFound)?;
        static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let profile = std::env::temp_dir().join(format!("segue-browser-{}-{number}", std::process::id()));
        let mut command = Command::new(program);
        command.args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage"]);
        command.args(["--disable-background-networking", "--disable-component-update", "--disable-sync"]);
        command.args(["--ignore-certificate-errors", "--autoplay-policy=no-user-gesture-required"]);
        command.args(["--remote-debugging-port=0", "--remote-allow-origins=*"]);
        command.arg(format!("--user-data-dir={}", profile.display())).arg(url);
        let mut process = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        let mut lines = BufReader::new(process.stderr.take().expect("a pipe")).lines();
        let found = lines.find_map(|line| line.ok()?.strip_prefix("DevTools listening on ws://").map(str::to_owned));
        // Whatever else the browser says goes nowhere, and does not fill the pipe.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        let found = found.ok_or_else(|| io::Error::other("the browser does not start"));
        let page = found.and_then(|place| connect(place.split('/').next().unwrap_or_default()));
        match page {
            Ok(page) => Ok(Browser { process, profile, page, asked: 0 }),
            Err(error) => {
                let _ = process.kill().and_then(|()| process.wait());
                Err(error)
            }
        }
    }

    /// The value of an expression, which may be a promise.
    pub fn evaluate(&mut self, expression: &str) -> io::Result<Value> {
        self.asked += 1;
        let parameters = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let ask = json!({ "id": self.asked, "method": "Runtime.evaluate", "params": parameters });
        send(&mut self.page, ask.to_string().as_bytes())?;
        loop {
            let said: Value = serde_json::from_slice(&receive(&mut self.page)?)?;
            if said["id"] == self.asked {
                return Ok(said["result"]["result"]["value"].clone());
            }
        }
    }

    /// Waits until an expression is true, and says what the page has become if it is not.
    pub fn until(&mut self, expression: &str) {
        let begun = Instant::now();
        // A page that is being left has no value.
        while !self.evaluate(expression).is_ok_and(|value| value == true) {
            if begun.elapsed() > PATIENCE {
                let page = self.evaluate("document.documentElement.outerHTML");
                panic!("{expression} is not so: {page:?}");
            }
            std::thread::sleep(PAUSE);
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.process.kill().and_then(|()| self.process.wait());
        let _ = std::fs::remove_dir_all(&self.profile);
    }
}

/// Connects to the first page of the browser at this address.
fn connect(address: &str) -> io::Result<TcpStream> {
    let begun = Instant::now();
    loop {
        let mut list = TcpStream::connect(address)?;
        list.set_read_timeout(Some(PATIENCE))?;
        write!(list, "GET /json/list HTTP/1.1\r\nHost: {address}\r\n\r\n")?;
        // The browser keeps the connection open.
        let head = read_head(&mut list)?.to_lowercase();
        let length = head.split("content-length:").nth(1).and_then(|rest| rest.lines().next()?.trim().parse().ok());
        let mut body = vec![0; length.unwrap_or(0)];
        list.read_exact(&mut body)?;
        let pages: Value = serde_json::from_slice(&body)?;
        let page = pages.as_array().into_iter().flatten().find(|page| page["type"] == "page");
        if let Some(place) = page.and_then(|page| page["webSocketDebuggerUrl"].as_str()) {
            let path = place.trim_start_matches("ws://").trim_start_matches(address);
            let mut stream = TcpStream::connect(address)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n")?;
            write!(stream, "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")?;
            read_head(&mut stream)?;
            return Ok(stream);
        }
        if begun.elapsed() > PATIENCE {
            return Err(io::Error::other("the browser has no page"));
        }
        std::thread::sleep(PAUSE);
    }
}

fn read_head(stream: &mut TcpStream) -> io::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

/// Sends a text in one frame, with a mask of zeros.
fn send(stream: &mut TcpStream, text: &[u8]) -> io::Result<()> {
    let mut frame = match text.len() {
        0..126 => vec![0x81, 0x80 | text.len() as u8],
        _ => [&[0x81, 0x80 | 126][..], &u16::try_from(text.len()).expect("a short text").to_be_bytes()].concat(),
    };
    frame.extend_from_slice(&[0; 4]);
    frame.extend_from_slice(text);
    stream.write_all(&frame)
}

/// Receives a message, of one frame or several.
fn receive(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut message = Vec::new();
    loop {
        let mut head = [0; 2];
        stream.read_exact(&mut head)?;
        let length = match head[1] {
            126 => {
                let mut length = [0; 2];
                stream.read_exact(&mut length)?;
                u16::from_be_bytes(length).into()
            }
            127 => {
                let mut length = [0; 8];
                stream.read_exact(&mut length)?;
                u64::from_be_bytes(length)
            }
            short => short.into(),
        };
        let begun = message.len();
        message.resize(begun + length as usize, 0);
        stream.read_exact(&mut message[begun..])?;
        if head[0] & 0x80 != 0 {
            return Ok(message);
        }
    }
}
