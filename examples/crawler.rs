//! A crawler of a site that has slow and broken pages, served by the same program: at most eight
//! requests at a time, a time limit for each page and one for all, and an orderly end on Ctrl-C.
//! Then no page is begun any more, and those that are under way have a grace.

use segue::cancel::finishing_source;
use segue::net::{TcpListener, TcpStream};
use segue::process::{self, Command};
use segue::signal::{Signals, ctrl_c};
use segue::sync::{Latch, Semaphore};
use segue::{Cancelled, Scope, after, scope, select, sleep, timeout, try_scope};
use segue_http::Server;
use segue_http::http::StatusCode;
use std::collections::hash_map::{Entry, HashMap};
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::sync::{Mutex, atomic};
use std::time::Duration;

const AT_ONCE: usize = 8;
const GRACE: Duration = Duration::from_secs(1);

/// The site: each page links to two more, up to a number or for ever. One is broken, two answer
/// when `closes` opens, and one has somebody press Ctrl-C before it answers.
fn answer(path: &str, closes: &Latch) -> (StatusCode, String) {
    match path {
        "/site/11" => return (StatusCode::INTERNAL_SERVER_ERROR, "out of order".to_owned()),
        "/site/17" | "/endless/12" => drop(closes.wait()),
        "/endless/40" => {
            process::status(Command::new("sh").args(["-c", "kill -INT $PPID"])).expect("there is a shell");
            drop(sleep(GRACE / 20));
        }
        _ => {}
    }
    let (kind, number) = path.rsplit_once('/').expect("there are no others");
    let number: u32 = number.parse().expect("there are no others");
    let last = if kind == "/site" { 60 } else { u32::MAX };
    let links = [2 * number, 2 * number + 1].into_iter().filter(|next| *next < last);
    (StatusCode::OK, links.map(|next| format!("<a href=\"{kind}/{next}\">")).collect())
}

/// The links of a page.
fn get(site: SocketAddr, path: &str) -> io::Result<Vec<String>> {
    let (mut stream, mut text) = (TcpStream::connect(site)?, String::new());
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {site}\r\nConnection: close\r\n\r\n")?;
    stream.read_to_string(&mut text)?;
    if !text.starts_with("HTTP/1.1 200 ") {
        return Err(io::Error::other(text.lines().next().unwrap_or("no answer").to_owned()));
    }
    Ok(text.split("<a href=\"").skip(1).filter_map(|link| Some(link.split_once('"')?.0.to_owned())).collect())
}

/// What has become of each page that was found; `None` if it has not been read.
type Pages = HashMap<String, Option<Result<(), String>>>;

struct Crawl {
    site: SocketAddr,
    limit: Duration,
    turns: Semaphore,
    running: atomic::AtomicUsize,
    pages: Mutex<Pages>,
}

impl Crawl {
    /// Has a fiber read the page, unless it is known. A fiber that waits for its turn costs little.
    fn visit<'s>(&'s self, s: &'s Scope<'s, '_>, path: String) {
        if let Entry::Vacant(page) = self.pages.lock().unwrap().entry(path) {
            let path = page.key().clone();
            page.insert(None);
            s.spawn(move || self.read(s, path));
        }
    }

    fn read<'s>(&'s self, s: &'s Scope<'s, '_>, path: String) -> Result<(), Cancelled> {
        let turn = select! {
            biased;
            () = finishing_source() => return Ok(()),
            turn = self.turns.acquire_source() => turn.expect("nobody closes it"),
        }?;
        assert!(self.running.fetch_add(1, atomic::Ordering::Relaxed) < AT_ONCE, "no more than so many at a time");
        let links = timeout(self.limit, || get(self.site, &path));
        self.running.fetch_sub(1, atomic::Ordering::Relaxed);
        drop(turn);
        let ended = links.as_ref().map(drop).map_err(io::Error::to_string);
        self.pages.lock().unwrap().insert(path, Some(ended));
        links.unwrap_or_default().into_iter().for_each(|link| self.visit(s, link));
        Ok(())
    }
}

/// All pages that can be reached from this one, until all are read, the time is over, or somebody
/// presses Ctrl-C.
fn crawl(site: SocketAddr, from: &str, stop: &Signals, limit: Duration, in_all: Duration) -> Pages {
    let (turns, running) = (Semaphore::new(AT_ONCE), 0.into());
    let crawl = Crawl { site, limit, turns, running, pages: Mutex::default() };
    scope(|s| {
        s.spawn_daemon(|| {
            let over = stop.recv_source().or(after(in_all)).wait();
            over.map(|_| s.cancel_soft(GRACE))
        });
        crawl.visit(s, from.to_owned());
    });
    crawl.pages.into_inner().unwrap()
}

fn main() -> io::Result<()> {
    segue::run(|| {
        let (stop, closes, hour) = (ctrl_c()?, Latch::new(1), Duration::from_secs(3600));
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let site = listener.local_addr()?;
        let server = Server::new(|request| answer(request.uri().path(), &closes));
        Ok(try_scope(|s| {
            s.spawn_try(|| server.serve(listener));
            let whole = crawl(site, "/site/1", &stop, GRACE, hour);
            let failed = |number: u32| whole[&format!("/site/{number}")].clone().unwrap().unwrap_err();
            assert_eq!(failed(11), "HTTP/1.1 500 Internal Server Error");
            assert!(failed(17).contains("the time allowed is over"), "{}", failed(17));
            let read = whole.values().filter(|page| **page == Some(Ok(()))).count();
            assert_eq!((whole.len(), read), (51, 49), "eight are linked from the two alone");
            let part = crawl(site, "/endless/1", &stop, hour, hour);
            assert_eq!(part["/endless/40"], Some(Ok(())), "it had its grace");
            let cut = part["/endless/12"].clone().unwrap().unwrap_err();
            assert!(cut.contains("asked to finish, and not over after 1s"), "{cut}");
            let left = part.values().filter(|page| page.is_none()).count();
            let late = crawl(site, "/endless/100", &stop, hour, GRACE / 20).len();
            println!("51 pages; {} until Ctrl-C, {left} of them not read; {late} until the time was over", part.len());
            closes.count_down(1);
            server.shutdown_handle().shutdown();
            Ok::<_, io::Error>(())
        })?)
    })
}
