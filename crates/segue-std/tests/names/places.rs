//! A report of a deadlock names the line that waits by one of std's names.

#[path = "../../../segue/tests/common/places.rs"]
mod rows;

use rows::{check, never, row};
use std::time::Duration;

#[test]
fn names_of_std_name_who_waits() {
    use segue_std::sync::{Barrier, Condvar, LazyLock, Mutex, Once, OnceLock, RwLock, mpsc};
    use segue_std::thread;

    check(&[
        row(|| {
            let mutex = Mutex::new(());
            let _held = mutex.lock();
            _ = mutex.lock();
        }),
        row(|| {
            let lock = RwLock::new(());
            let _held = lock.write();
            _ = lock.read();
        }),
        row(|| {
            let lock = RwLock::new(());
            let _held = lock.read();
            _ = lock.write();
        }),
        row(|| {
            let (mutex, never) = (Mutex::new(()), Condvar::new());
            _ = never.wait(mutex.lock().unwrap());
        }),
        row(|| {
            let (mutex, never) = (Mutex::new(()), Condvar::new());
            _ = never.wait_while(mutex.lock().unwrap(), |()| true);
        }),
        row(|| {
            let (mutex, never) = (Mutex::new(()), Condvar::new());
            _ = never.wait_timeout(mutex.lock().unwrap(), Duration::MAX);
        }),
        row(|| {
            let (mutex, never) = (Mutex::new(()), Condvar::new());
            _ = never.wait_timeout_while(mutex.lock().unwrap(), Duration::MAX, |()| true);
        }),
        row(|| _ = Barrier::new(2).wait()),
        row(|| {
            let once = Once::new();
            thread::scope(|s| (0..2).for_each(|_| drop(s.spawn(|| once.call_once(|| drop(never()))))));
        }),
        row(|| {
            let once = Once::new();
            thread::scope(|s| (0..2).for_each(|_| drop(s.spawn(|| once.call_once_force(|_| drop(never()))))));
        }),
        row(|| Once::new().wait()),
        row(|| Once::new().wait_force()),
        row(|| _ = OnceLock::<u32>::new().wait()),
        row(|| {
            let cell = OnceLock::new();
            thread::scope(|s| (0..2).for_each(|_| drop(s.spawn(|| _ = cell.get_or_init(|| drop(never()))))));
        }),
        row(|| {
            let cell = OnceLock::new();
            thread::scope(|s| {
                _ = cell.get_or_init(|| {
                    s.spawn(|| cell.set(1));
                    never().map_or(2, |()| 3)
                });
            });
        }),
        row(|| {
            let lazy: LazyLock<(), _> = LazyLock::new(|| drop(never()));
            thread::scope(|s| (0..2).for_each(|_| drop(s.spawn(|| LazyLock::force(&lazy)))));
        }),
        row(|| {
            let lazy: LazyLock<u32, _> = LazyLock::new(|| never().map_or(1, |()| 2));
            thread::scope(|s| (0..2).for_each(|_| drop(s.spawn(|| *lazy))));
        }),
        row(|| {
            let (_send, receive) = mpsc::channel::<u32>();
            _ = receive.recv();
        }),
        row(|| {
            let (_send, receive) = mpsc::channel::<u32>();
            _ = receive.recv_timeout(Duration::MAX);
        }),
        row(|| {
            let (_send, receive) = mpsc::channel::<u32>();
            for _ in &receive {}
        }),
        row(|| {
            let (_send, receive) = mpsc::channel::<u32>();
            for _ in receive {}
        }),
        row(|| {
            let (_send, receive) = mpsc::channel::<u32>();
            assert_eq!(receive.iter().map(u64::from).sum::<u64>(), 0);
        }),
        row(|| {
            let (_send, receive) = mpsc::channel::<u32>();
            assert_eq!(receive.into_iter().map(u64::from).sum::<u64>(), 0);
        }),
        row(|| {
            let (send, _receive) = mpsc::sync_channel(0);
            _ = send.send(1);
        }),
        row(|| _ = thread::spawn(|| drop(never())).join()),
        row(|| thread::scope(|s| drop(s.spawn(|| drop(never())).join()))),
        row(|| thread::scope(|s| drop(s.spawn(|| drop(never()))))),
        row(|| thread::park()),
        row(|| thread::park_timeout(Duration::MAX)),
        // In simulated time, which does not come.
        row(|| thread::sleep(Duration::MAX)),
    ]);
}

#[test]
#[cfg(target_os = "linux")]
fn streams_and_children_name_who_waits() {
    use segue::net::UnixStream;
    use segue::signal::{Signal, Signals};
    use segue_std::fs::File;
    use segue_std::io::{Read, Write};
    use segue_std::net::{TcpListener, TcpStream, UdpSocket};
    use segue_std::process::{Child, Command, Stdio};

    /// More than there is room for.
    static MUCH: [u8; 1 << 23] = [0; 1 << 23];

    fn listener() -> TcpListener {
        TcpListener::bind("127.0.0.1:0").unwrap()
    }

    fn child(mut command: Command) -> Child {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap().kill_on_drop(true)
    }

    fn cat() -> Child {
        child(Command::new("cat"))
    }

    /// Does not end with its input, as `cat` may before anybody waits.
    fn asleep() -> Child {
        let mut command = Command::new("sleep");
        command.arg("1000");
        child(command)
    }

    fn pair() -> (UnixStream, UnixStream) {
        UnixStream::pair().unwrap()
    }

    check(&[
        row(|| _ = listener().accept()),
        row(|| {
            for stream in listener().incoming() {
                drop(stream);
            }
        }),
        row(|| _ = listener().accept_source().or(listener().accept_source()).wait()),
        row(|| _ = UdpSocket::bind("127.0.0.1:0").unwrap().recv_from(&mut [0])),
        row(|| {
            let listener = listener();
            let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            _ = stream.read_to_end(&mut Vec::new());
        }),
        row(|| _ = pair().0.read(&mut [0])),
        row(|| _ = pair().0.read_exact(&mut [0])),
        row(|| _ = pair().0.read_to_string(&mut String::new())),
        row(|| _ = pair().0.write_all(&MUCH)),
        row(|| _ = pair().0.readable_source().or(pair().0.readable_source()).wait()),
        row(|| _ = asleep().wait_with_output()),
        row(|| {
            let mut cat = cat();
            let _stdin = cat.stdin.take();
            _ = cat.wait_with_output();
        }),
        row(|| {
            let mut cat = cat();
            let _stdin = cat.stdin.take();
            _ = cat.wait_with_output_into(&mut Vec::new(), &mut Vec::new());
        }),
        row(|| {
            let mut asleep = asleep();
            (asleep.stdout, _) = (None, asleep.stdin.take().unwrap().into_stdio());
            _ = asleep.wait_with_output();
        }),
        row(|| _ = cat().stdout.take().unwrap().read_to_end(&mut Vec::new())),
        row(|| _ = Command::new("sleep").arg("1000").output()),
        row(|| _ = Command::new("sleep").arg("1000").status()),
        row(|| _ = Signals::new(Signal::WINCH).unwrap().recv_source().or(segue::at(None)).wait()),
        row(|| {
            let place = segue::fs::NamedTempFile::new().unwrap();
            place.as_file().lock().unwrap();
            _ = File::open(place.path()).unwrap().lock();
        }),
    ]);
}
