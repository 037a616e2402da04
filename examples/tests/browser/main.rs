//! A browser against the examples: Debian's Chromium, headless. Where there is none, the tests say
//! `not checked`, and `.ci/run examples` repeats that.

mod devtools;

use std::io::{self, BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc;
use std::thread;

use devtools::Browser;
use segue::net::TcpListener;
use segue_http::{Files, Request, Server};

/// Whether there is a browser.
fn is_there() -> bool {
    let found = devtools::program().is_some();
    if !found {
        println!("browser: not checked, as there is no chromium");
    }
    found
}

/// An example that runs, and serves.
struct Example {
    process: Child,
    /// The addresses that it tells in its first line.
    urls: Vec<String>,
}

impl Example {
    /// `None` if the example was not built: `cargo test` and `cargo build --examples` do.
    fn start(name: &str, addresses: &[&str]) -> Option<Example> {
        let this = std::env::current_exe().expect("this program has a place");
        let program = this.parent()?.parent()?.join("examples").join(name);
        if !program.is_file() {
            println!("browser: not checked, as {} is not built", program.display());
            return None;
        }
        let mut command = Command::new(program);
        command.args(addresses).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("the example starts");
        let mut lines = BufReader::new(process.stdout.take().expect("a pipe")).lines();
        let line = lines.next().expect("a line").expect("text");
        let urls: Vec<_> = line.split(' ').filter(|word| word.starts_with("http")).map(str::to_owned).collect();
        assert_eq!(urls.len(), addresses.len(), "{line}");
        // The access log, which nobody reads.
        thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        Some(Example { process, urls })
    }
}

impl Drop for Example {
    fn drop(&mut self) {
        let _ = self.process.kill().and_then(|()| self.process.wait());
    }
}

/// One page over HTTP and one over HTTPS: each keeps a note, and each is told the other's by its
/// WebSocket.
#[test]
fn two_browsers_see_each_others_notes() {
    let notes = is_there().then(|| Example::start("notes_app", &["127.0.0.1:0", "127.0.0.1:0"])).flatten();
    let Some(notes) = notes else { return };
    let mut browsers = [0, 1].map(|at| Browser::open(&format!("{}/", notes.urls[at])).expect("a browser"));
    for browser in &mut browsers {
        browser.until("document.title == 'Notes' && document.styleSheets.length == 1 && socket.readyState == 1");
    }
    for (number, text) in ["buy bread & milk", "<b>call</b> home"].iter().enumerate() {
        // The form's answer is a redirection to the page, which lists the notes. The other page is
        // not loaded again: its socket tells the note.
        let submit = format!("document.forms[0].text.value = '{text}'; document.forms[0].submit(); true");
        browsers[number].evaluate(&submit).expect("the page is there");
        for browser in &mut browsers {
            browser
                .until(&format!("[...document.querySelectorAll('#notes li')].some(li => li.textContent == '{text}')"));
        }
        browsers[number].until("socket.readyState == 1");
    }
}

#[test]
fn two_browsers_talk_in_the_chat() {
    let chat = is_there().then(|| Example::start("websocket_chat", &["127.0.0.1:0"])).flatten();
    let Some(chat) = chat else { return };
    let mut browsers = [(); 2].map(|()| Browser::open(&format!("{}/", chat.urls[0])).expect("a browser"));
    for browser in &mut browsers {
        browser.until("document.title == 'Chat' && lines.textContent == 'welcome'");
    }
    for (number, text) in ["hello", "you are <not> alone", "goodbye"].iter().enumerate() {
        let say = format!("document.getElementById('line').value = '{text}'; form.requestSubmit(); true");
        browsers[number % 2].evaluate(&say).expect("the page is there");
        for browser in &mut browsers {
            let last = format!("[...document.querySelectorAll('#lines li')].map(li => li.textContent)[{number} + 1]");
            browser.until(&format!("({last} ?? '').endsWith('{text}')"));
        }
    }
}

/// Samples of silence: a minute, with eight bits for each.
fn minute() -> Vec<u8> {
    const RATE: u32 = 44_100;
    let data = RATE * 60;
    let mut bytes = Vec::from(*b"RIFF");
    bytes.extend_from_slice(&(36 + data).to_le_bytes());
    bytes.extend_from_slice(b"WAVEfmt \x10\0\0\0\x01\0\x01\0");
    bytes.extend_from_slice(&RATE.to_le_bytes());
    bytes.extend_from_slice(&RATE.to_le_bytes());
    bytes.extend_from_slice(b"\x01\0\x08\0data");
    bytes.extend_from_slice(&data.to_le_bytes());
    bytes.resize(bytes.len() + data as usize, 0x80);
    bytes
}

const PLAYER: &str =
    "<!doctype html><title>Player</title><video src=\"minute.wav\" preload=\"metadata\" muted></video>";

/// A folder that goes with the test.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_video_element_seeks_in_a_file_by_ranges() -> io::Result<()> {
    if !is_there() {
        return Ok(());
    }
    let folder = Scratch(std::env::temp_dir().join(format!("segue-player-{}", std::process::id())));
    std::fs::create_dir_all(&folder.0)?;
    std::fs::write(folder.0.join("index.html"), PLAYER)?;
    std::fs::write(folder.0.join("minute.wav"), minute())?;
    let (files, asked) = (Files::new(&folder.0)?, Mutex::new(Vec::new()));
    let server = Server::new(|request: &mut Request<'_>| {
        let response = files.respond(request);
        let range = request.headers().get("range").and_then(|range| range.to_str().ok()).map(str::to_owned);
        asked.lock().unwrap().push((request.uri().path().to_owned(), range, response.status().as_u16()));
        response
    });
    let shutdown = server.shutdown_handle();
    let (tell, told) = mpsc::channel();
    thread::scope(|s| {
        let serving = s.spawn(|| {
            segue::run(|| {
                let listener = TcpListener::bind("127.0.0.1:0")?;
                tell.send(listener.local_addr()?).expect("the test waits");
                server.serve(listener)
            })
        });
        let address = told.recv().expect("the server starts");
        let seen = thread::spawn(move || {
            let mut browser = Browser::open(&format!("http://{address}/")).expect("a browser");
            let video = "document.querySelector('video')";
            browser.until(&format!("{video} != null && {video}.readyState >= 1 && Math.round({video}.duration) == 60"));
            browser.evaluate(&format!("{video}.currentTime = 55; true")).expect("the page is there");
            browser.until(&format!("!{video}.seeking && {video}.readyState >= 2 && {video}.currentTime >= 55"));
        });
        let seen = seen.join();
        shutdown.shutdown();
        serving.join().expect("no panic")?;
        assert!(seen.is_ok(), "see above: {:?}", asked.lock().unwrap());
        io::Result::Ok(())
    })?;
    let asked = asked.lock().unwrap();
    let begins = |range: &str| range.strip_prefix("bytes=")?.split('-').next()?.parse::<u32>().ok();
    let far = asked.iter().any(|(path, range, status)| {
        path == "/minute.wav" && *status == 206 && range.as_deref().and_then(begins) > Some(1_000_000)
    });
    assert!(far, "no range far into the file: {asked:?}");
    Ok(())
}
