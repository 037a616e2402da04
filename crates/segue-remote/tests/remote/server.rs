//! Debian's server of NATS, a proxy before it, and workers that are processes.

use segue::CancelToken;
use segue_remote::{RemoteError, Summary, Worker};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// A server with a directory of its own. It ends with this value.
pub struct Server {
    child: Option<Child>,
    pub port: u16,
    directory: PathBuf,
}

impl Server {
    /// Starts one, if there is a server on this machine.
    pub fn start() -> Option<Self> {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let directory = std::env::temp_dir().join(format!("segue-remote-{}-{number}", std::process::id()));
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut server = Self { child: None, port, directory };
        if server.run() {
            return Some(server);
        }
        println!("there is no nats-server here");
        None
    }

    /// Starts it again, with what it had stored. Answers whether there is a server.
    pub fn run(&mut self) -> bool {
        if Command::new("nats-server").arg("--version").output().is_err() {
            return false;
        }
        // The server ends when its shell's input does: also if this process ends in any other way.
        let mut command = Command::new("sh");
        command.args(["-c", "nats-server \"$@\" </dev/null & read -r _; kill -9 $!; wait $!", "sh"]);
        command.args(["-a", "127.0.0.1", "-p", &self.port.to_string(), "-js", "-sd"]).arg(&self.directory);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        self.child = Some(command.spawn().unwrap());
        let began = Instant::now();
        while !self.greets() {
            assert!(began.elapsed() < Duration::from_secs(60), "nats-server does not listen");
            // It says to nobody when it listens.
            thread::sleep(Duration::from_millis(5));
        }
        true
    }

    fn greets(&self) -> bool {
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) else { return false };
        let mut first = [0; 4];
        stream.read_exact(&mut first).is_ok() && first == *b"INFO"
    }

    /// Ends it without a chance to write anything.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            drop(child.stdin.take());
            child.wait().unwrap();
        }
    }

    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// A new directory of this server's, for files of the test.
    pub fn files(&self) -> PathBuf {
        let files = self.directory.with_extension("files");
        std::fs::create_dir_all(&files).unwrap();
        files
    }

    /// What the server says at an address of JetStream's interface.
    pub fn ask(&self, what: &str, payload: &str) -> serde_json::Value {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let client = async_nats::connect(self.url()).await.unwrap();
            let reply = client.request(format!("$JS.API.{what}"), payload.to_owned().into()).await.unwrap();
            serde_json::from_slice(&reply.payload).unwrap()
        })
    }

    /// How many consumers the stream of this name has.
    pub fn consumers(&self, stream: &str) -> u64 {
        self.ask(&format!("STREAM.INFO.{stream}"), "")["state"]["consumer_count"].as_u64().unwrap()
    }

    /// Publishes an empty message with a header.
    pub fn publish_with(&self, subject: &str, name: &str, value: &str) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let client = async_nats::connect(self.url()).await.unwrap();
            let mut headers = async_nats::HeaderMap::new();
            headers.insert(name, value);
            client.request_with_headers(subject.to_owned(), headers, "".into()).await.unwrap();
        })
    }

    /// How many messages of this subject there are meanwhile.
    pub fn counts(&self, subject: &str, meanwhile: impl FnOnce()) -> usize {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (client, mut messages) = runtime.block_on(async {
            let client = async_nats::connect(self.url()).await.unwrap();
            let messages = client.subscribe(subject.to_owned()).await.unwrap();
            client.flush().await.unwrap();
            (client, messages)
        });
        meanwhile();
        runtime.block_on(async {
            client.flush().await.unwrap();
            messages.unsubscribe().await.unwrap();
            let mut count = 0;
            while std::future::poll_fn(|task| {
                use futures_core::Stream;
                std::pin::Pin::new(&mut messages).poll_next(task)
            })
            .await
            .is_some()
            {
                count += 1;
            }
            count
        })
    }

    /// Publishes a message with a reply of the stream.
    pub fn publish(&self, subject: &str, payload: &str) -> serde_json::Value {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let client = async_nats::connect(self.url()).await.unwrap();
            let reply = client.request(subject.to_owned(), payload.to_owned().into()).await.unwrap();
            serde_json::from_slice(&reply.payload).unwrap()
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        drop(std::fs::remove_dir_all(&self.directory));
        drop(std::fs::remove_dir_all(self.directory.with_extension("files")));
    }
}

/// A worker in this process, which ends with this value.
pub struct Stop {
    token: CancelToken,
    fiber: Option<segue::JoinHandle<Result<Summary, RemoteError>>>,
}

impl Stop {
    pub fn of(worker: Worker) -> Self {
        let token = CancelToken::new();
        let runs = token.clone();
        let fiber = segue::spawn(move || runs.run(|| worker.run()));
        Self { token, fiber: Some(fiber) }
    }

    /// Asks it to finish; what it has done.
    pub fn finish(mut self) -> Summary {
        self.token.ask_to_finish();
        self.fiber.take().unwrap().join().unwrap().unwrap()
    }
}

impl Drop for Stop {
    fn drop(&mut self) {
        self.token.cancel();
        if let Some(fiber) = self.fiber.take() {
            drop(fiber.join());
        }
    }
}

/// A worker that is this program, started again. It ends with this value.
pub struct Process {
    child: Child,
    /// Not in the child, where a wait would close it.
    _input: Option<ChildStdin>,
}

impl Process {
    /// Starts one for the pool of this name, with an ack wait in ms.
    pub fn start(url: &str, pool: &str, ack_wait: u64) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["faults::child_worker", "--exact", "--ignored", "--nocapture"])
            .env("SEGUE_REMOTE_URL", url)
            .env("SEGUE_REMOTE_POOL", pool)
            .env("SEGUE_REMOTE_ACK_WAIT", ack_wait.to_string())
            // Whose end is that of this process, and the worker's.
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let _input = child.stdin.take();
        Self { child, _input }
    }

    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Sends a signal by its name.
    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// Waits for its end, and answers whether that was a success.
    pub fn ends(&mut self) -> bool {
        self.child.wait().unwrap().success()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _status = self.child.wait();
    }
}

/// A proxy before a server, which can be cut.
pub struct Proxy {
    pub port: u16,
    shared: Arc<Cut>,
}

struct Cut {
    to: u16,
    is_cut: AtomicBool,
    is_over: AtomicBool,
    streams: Mutex<Vec<TcpStream>>,
}

impl Proxy {
    pub fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let own = listener.local_addr().unwrap().port();
        let (is_cut, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
        let shared = Arc::new(Cut { to: port, is_cut, is_over, streams: Mutex::default() });
        let accepts = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if accepts.is_over.load(Ordering::SeqCst) {
                    break;
                }
                accepts.pass(stream);
            }
        });
        Self { port: own, shared }
    }

    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Ends all connections; new ones too until [`heal`](Self::heal).
    pub fn cut(&self) {
        self.shared.is_cut.store(true, Ordering::SeqCst);
        self.drop_all();
    }

    /// Ends all connections.
    pub fn drop_all(&self) {
        for stream in self.shared.streams.lock().unwrap().drain(..) {
            let _closed = stream.shutdown(Shutdown::Both);
        }
    }

    pub fn heal(&self) {
        self.shared.is_cut.store(false, Ordering::SeqCst);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        self.cut();
        // The listener's thread looks.
        drop(TcpStream::connect(("127.0.0.1", self.port)));
    }
}

impl Cut {
    fn pass(self: &Arc<Self>, client: TcpStream) {
        let mut streams = self.streams.lock().unwrap();
        let server = TcpStream::connect(("127.0.0.1", self.to));
        let Ok(server) = server.map_err(drop).and_then(|server| match self.is_cut.load(Ordering::SeqCst) {
            true => Err(()),
            false => Ok(server),
        }) else {
            let _closed = client.shutdown(Shutdown::Both);
            return;
        };
        for stream in [&client, &server] {
            stream.set_nodelay(true).unwrap();
            streams.push(stream.try_clone().unwrap());
        }
        let ends = [(client.try_clone().unwrap(), server.try_clone().unwrap()), (server, client)];
        for (mut from, mut to) in ends {
            thread::spawn(move || {
                let mut bytes = [0; 1 << 16];
                while let Ok(read @ 1..) = from.read(&mut bytes) {
                    if to.write_all(&bytes[..read]).is_err() {
                        break;
                    }
                }
                let _closed = (to.shutdown(Shutdown::Both), from.shutdown(Shutdown::Both));
            });
        }
    }
}
