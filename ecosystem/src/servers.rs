//! Real servers, of the system's packages: started on free ports, ended by their ids.
//!
//! Used by the tests of databases and of the bridge, and by an example.

use rustix::process::{Pid, Signal, getuid, kill_process};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs, process, thread};

/// A server that runs until this is dropped. To be started on a plain thread: it waits, and the
/// server ends with the thread.
pub struct Server {
    child: Child,
    address: SocketAddr,
    stop: Signal,
    directory: PathBuf,
}

/// Who the server of Postgres is, and its user and its password are.
const POSTGRES: &str = "postgres";

/// How long a server may take to start.
const PATIENCE: Duration = Duration::from_secs(60);

impl Server {
    /// A Redis that keeps nothing.
    ///
    /// # Panics
    /// If there is none to be had.
    pub fn redis() -> Self {
        let start = |port: u16, directory: &Path| {
            let mut command = with_us("KILL", None);
            command.arg("redis-server");
            command.args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--loglevel", "warning"]);
            command.args(["--port", &port.to_string(), "--dir"]).arg(directory);
            command
        };
        Self::start("redis", Signal::KILL, start, |stream| {
            stream.write_all(b"PING\r\n")?;
            let mut pong = [0; 7];
            stream.read_exact(&mut pong)?;
            Ok(pong == *b"+PONG\r\n")
        })
    }

    /// A Postgres with the user and the database `postgres`, whose password is `postgres`.
    ///
    /// # Panics
    /// If there is none to be had.
    pub fn postgres() -> Self {
        let bin = programs_of_postgres().expect("there is /usr/lib/postgresql/*/bin; install postgresql");
        let start = |port: u16, directory: &Path| {
            let data = directory.join("data");
            if !data.exists() {
                let password = directory.join("password");
                fs::write(&password, POSTGRES).expect("a file");
                if getuid().is_root() {
                    let done = Command::new("chown").args(["-R", POSTGRES]).arg(directory).status();
                    assert!(done.expect("chown runs").success(), "there is no user {POSTGRES}");
                }
                // It refuses to run as root.
                let mut make = with_us("KILL", Some(POSTGRES));
                make.arg(bin.join("initdb"))
                    .args(["-N", "-A", "scram-sha-256", "-U", POSTGRES, "-E", "UTF8", "--no-locale", "-D"])
                    .arg(&data);
                let made = make.arg("--pwfile").arg(password).output().expect("initdb runs");
                assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
            }
            let mut command = with_us("QUIT", Some(POSTGRES));
            command.arg(bin.join("postgres")).args([
                "-p",
                &port.to_string(),
                "-c",
                "listen_addresses=127.0.0.1",
                "-c",
                "fsync=off",
            ]);
            command.args(["-c", "unix_socket_directories=", "-c", "max_connections=300", "-D"]).arg(data);
            command
        };
        Self::start("postgres", Signal::QUIT, start, |stream| {
            // A user's first message. While it starts it answers with an error, and then asks for
            // the password.
            stream.write_all(b"\0\0\0\x17\0\x03\0\0user\0postgres\0\0")?;
            let mut answer = [0];
            stream.read_exact(&mut answer)?;
            Ok(answer == *b"R")
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Starts it on a free port, of which somebody else may be faster, and waits until it answers.
    fn start(
        name: &str,
        stop: Signal,
        command: impl Fn(u16, &Path) -> Command,
        answers: impl Fn(&mut TcpStream) -> io::Result<bool>,
    ) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let directory = env::temp_dir().join(format!("segue-{name}-{}-{number}", process::id()));
        fs::create_dir(&directory).expect("a directory of its own");
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
            let address = free.expect("a free port");
            let log = fs::File::create(directory.join("log")).expect("a file");
            let mut command = command(address.port(), &directory);
            command.stdin(Stdio::null()).stdout(log.try_clone().expect("a descriptor")).stderr(log);
            let child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}; install it"));
            let mut server = Self { child, address, stop, directory: directory.clone() };
            while began.elapsed() < PATIENCE {
                let answered = TcpStream::connect(address).and_then(|mut stream| answers(&mut stream));
                let lives = server.child.try_wait().expect("it is our child").is_none();
                match answered {
                    Ok(true) if lives => return server,
                    _ if lives => thread::sleep(Duration::from_millis(10)),
                    _ => break,
                }
            }
            server.directory = PathBuf::new(); // It stays for the next try.
        }
        panic!("{name} does not start: {}", fs::read_to_string(directory.join("log")).unwrap_or_default())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _has_gone = kill_process(Pid::from_child(&self.child), self.stop);
        let _ended = self.child.wait();
        let _not_there = fs::remove_dir_all(&self.directory);
    }
}

/// What runs a program that ends with us, however we end, by this signal; as this user, if we are
/// root.
fn with_us(signal: &str, user: Option<&str>) -> Command {
    let mut command = Command::new("setpriv");
    command.arg(format!("--pdeathsig={signal}")).current_dir("/");
    if let Some(user) = user.filter(|_| getuid().is_root()) {
        command.arg(format!("--reuid={user}")).arg(format!("--regid={user}")).arg("--init-groups");
    }
    command
}

/// The newest that is installed.
fn programs_of_postgres() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?.filter_map(|entry| Some(entry.ok()?.path().join("bin")));
    versions.filter(|bin| bin.join("initdb").exists()).max()
}
