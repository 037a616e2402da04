//! I/O in a simulation: what it waits for comes from the world outside, which the simulator does
//! not drive.
#![cfg(target_os = "linux")]

use crate::common;

use common::guarded;
use segue_core::{Cancelled, Either, after, any_of, merge, now, scope, sleep, spawn, spawn_task, timeout};
use segue_io::fs::{File, NamedTempFile};
use segue_io::net::{TcpListener, TcpStream, UdpSocket, UnixListener, UnixStream};
use segue_io::pipe::pipe;
use segue_io::process::{self, Child, Command, Stdio};
use segue_io::signal::{Signal, Signals};
use segue_sched::{Cause, Explore, Sim};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::panic::Location;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// Waits for a connection that nobody makes.
fn forlorn() {
    let (listener, _) = listener();
    assert!(Cancelled::caused(&listener.accept().unwrap_err()));
}

#[test]
fn a_deadlock_names_the_network_and_where_it_is_waited_for() {
    let deadlock = Sim::new(1).run(forlorn).unwrap_err();
    assert!(deadlock.fibers[0].network);
    let report = deadlock.to_string();
    let says = "fiber 0 waits for the network, which the simulator does not drive: a connection at ";
    assert!(report.contains(says) && report.contains("simulated.rs"), "{report}");
    assert!(report.contains("`Sim::open` waits for the network"), "{report}");

    let failure = Explore::random(1).shrink(false).run(forlorn).unwrap_err();
    assert!(matches!(&failure.cause, Cause::Deadlock(fibers) if fibers[0].network));
    assert!(failure.to_string().contains(says), "{failure}");
}

#[test]
fn a_connect_is_reported_where_it_was_called() {
    // A listener whose queue is full answers nobody.
    let full = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    full.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    full.listen(0).unwrap();
    let address = full.local_addr().unwrap().as_socket().unwrap();
    let _queued = std::net::TcpStream::connect(address).unwrap();
    let connects = || assert!(Cancelled::caused(&TcpStream::connect(address).unwrap_err()));
    let report = Sim::new(1).run(connects).unwrap_err().to_string();
    assert!(report.contains("an answer to a connect at ") && report.contains("tests/sources/simulated.rs"), "{report}");
}

/// Something that waits for the network, and the line that it begins in.
struct Row(u32, fn());

#[track_caller]
fn row(stuck: fn()) -> Row {
    Row(Location::caller().line(), stuck)
}

fn pair() -> (UnixStream, UnixStream) {
    UnixStream::pair().unwrap()
}

fn child(mut command: Command) -> Child {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    process::spawn(&mut command).unwrap().kill_on_drop(true)
}

/// A child that goes on until its input ends.
fn cat() -> Child {
    child(Command::new("cat"))
}

fn sleep_long() -> Command {
    let mut command = Command::new("sleep");
    command.arg("1000");
    command
}

/// A listener, and a file in the place of which it is.
fn unix_listener() -> (NamedTempFile, UnixListener) {
    let place = NamedTempFile::new().unwrap();
    std::fs::remove_file(place.path()).unwrap();
    let listener = UnixListener::bind(place.path()).unwrap();
    (place, listener)
}

/// A file that is locked as long as what comes with it.
fn locked() -> (NamedTempFile, File) {
    let place = NamedTempFile::new().unwrap();
    let file = File::open(place.path()).unwrap();
    file.lock().unwrap();
    (place, file)
}

/// The place of a pipe with a name that nobody has opened.
fn fifo() -> NamedTempFile {
    let place = NamedTempFile::new().unwrap();
    std::fs::remove_file(place.path()).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(place.path()).status().unwrap().success());
    place
}

#[test]
fn whatever_waits_for_the_network_is_reported_where_it_was_called() {
    /// More than there is room for.
    static MUCH: [u8; 1 << 23] = [0; 1 << 23];

    let table = [
        row(|| _ = listener().0.accept()),
        row(|| _ = listener().0.incoming().next()),
        row(|| {
            for stream in listener().0.incoming() {
                drop(stream);
            }
        }),
        row(|| _ = listener().0.readable_source().wait()),
        row(|| _ = pair().0.read(&mut [0])),
        row(|| _ = pair().0.peek(&mut [0])),
        row(|| _ = pair().0.read_exact(&mut [0])),
        row(|| _ = (&pair().0).read_exact(&mut [0])),
        row(|| _ = pair().0.write_all(&MUCH)),
        row(|| _ = (&pair().0).write_all(&MUCH)),
        row(|| {
            let (stream, _other) = pair();
            let (mut reads, mut writes) = stream.into_split();
            _ = writes.write_all(&MUCH).and_then(|()| reads.read_exact(&mut [0]));
        }),
        row(|| {
            let (stream, _other) = pair();
            let (mut reads, _writes) = stream.into_split();
            _ = reads.read_exact(&mut [0]);
        }),
        row(|| _ = UdpSocket::bind("127.0.0.1:0").unwrap().recv_from(&mut [0])),
        row(|| {
            let (mut reader, _writer) = pipe().unwrap();
            _ = reader.read_exact(&mut [0]);
        }),
        row(|| {
            let (_reader, mut writer) = pipe().unwrap();
            _ = writer.write_all(&MUCH);
        }),
        row(|| _ = pair().0.read_to_end(&mut Vec::new())),
        row(|| _ = (&pair().0).read_to_string(&mut String::new())),
        row(|| {
            let (stream, _other) = pair();
            _ = stream.into_split().0.read_to_end(&mut Vec::new());
        }),
        row(|| {
            let (mut reader, _writer) = pipe().unwrap();
            _ = reader.read_to_end(&mut Vec::new());
        }),
        row(|| {
            let (reader, _writer) = pipe().unwrap();
            _ = (&reader).read_to_string(&mut String::new());
        }),
        row(|| {
            let ((one, _writer), (other, _far)) = (pipe().unwrap(), pair());
            _ = one.readable_source().or(other.readable_source()).wait();
        }),
        row(|| {
            let (reader, _writer) = pipe().unwrap();
            _ = segue_core::any_of([reader.readable_source(), reader.readable_source()]).wait();
        }),
        row(|| _ = Signals::new(Signal::WINCH).unwrap().recv()),
        row(|| _ = Signals::new(Signal::WINCH).unwrap().recv_source().wait()),
        // Its input ends before anybody waits.
        row(|| _ = child(sleep_long()).wait_with_output()),
        row(|| {
            let mut cat = cat();
            let _stdin = cat.stdin.take();
            _ = cat.wait();
        }),
        row(|| {
            let cat = cat();
            _ = cat.exit_source().or(cat.exit_source()).wait();
        }),
        row(|| {
            let mut cat = cat();
            cat.stderr = None;
            let _stdin = cat.stdin.take();
            _ = cat.wait_with_output();
        }),
        row(|| {
            let mut cat = cat();
            let _stdin = cat.stdin.take();
            _ = cat.wait_with_output();
        }),
        row(|| _ = process::output(&mut sleep_long())),
        row(|| _ = process::status(&mut sleep_long())),
        row(|| {
            // Nobody accepts, and the kernel tells nobody of room in a queue.
            let (place, listener) = unix_listener();
            while segue_core::timeout(Duration::from_secs(1), || UnixStream::connect(place.path())).is_ok() {}
            _ = UnixStream::connect(place.path());
            drop(listener);
        }),
        row(|| {
            let (place, file) = locked();
            _ = File::open(place.path()).unwrap().lock();
            drop(file);
        }),
        row(|| {
            let (place, file) = locked();
            _ = File::open(place.path()).unwrap().lock_shared();
            drop(file);
        }),
        // Elsewhere these wait in the kernel, and a simulation for them.
        #[cfg(linux)]
        row(|| _ = File::open(fifo().path())),
        #[cfg(linux)]
        row(|| _ = File::options().write(true).open(fifo().path())),
        #[cfg(linux)]
        row(|| _ = segue_io::fs::read(fifo().path())),
    ];
    let ends = table.iter().skip(1).map(|row| row.0).chain([u32::MAX]);
    let wrong = table.iter().zip(ends).filter_map(|(Row(line, stuck), end)| {
        let deadlock = guarded(line, || Sim::new(1).run(stuck)).unwrap_err();
        let waits = deadlock.fibers[0].waits_for.unwrap();
        let is_own = waits.at.file() == file!() && (*line..end).contains(&waits.at.line());
        (!is_own || waits.what.contains("guard")).then(|| format!("line {line}: {deadlock}"))
    });
    let wrong: Vec<_> = wrong.inspect(|wrong| eprintln!("{wrong}")).collect();
    assert!(wrong.is_empty(), "{} of {}", wrong.len(), table.len());
}

#[test]
fn a_wait_that_std_has_called_is_reported_with_the_calls_of_the_program() {
    /// The program's own, which a report is to name.
    #[inline(never)]
    fn copies_a_stream() {
        _ = std::io::copy(&mut pair().0, &mut std::io::sink());
    }
    #[inline(never)]
    fn reads_a_line() {
        _ = BufReader::new(pair().0).read_line(&mut String::new());
    }
    for (stuck, name) in [(copies_a_stream as fn(), "copies_a_stream"), (reads_a_line, "reads_a_line")] {
        let deadlock = Sim::new(1).run(stuck).unwrap_err();
        let report = deadlock.to_string();
        assert!(report.contains("data on a socket at "), "{report}");
        // Where each fiber is a thread there are no traces, and the report says so.
        let stand_in = cfg!(feature = "threads") || cfg!(miri);
        assert!(report.contains(name) || (stand_in && deadlock.fibers[0].backtrace.is_some()), "{report}");
    }
}

#[test]
fn only_the_fiber_that_waits_for_the_network_is_said_to() {
    let deadlock = Sim::new(1).run(|| {
        let (listener, address) = listener();
        // It has waited for the network before, and then waits for somebody else.
        let (told, tell) = mpsc::channel();
        let client = thread::spawn(move || {
            tell.recv().unwrap();
            drop(std::net::TcpStream::connect(address).unwrap());
        });
        let accepted = segue_core::outside_work();
        told.send(()).unwrap();
        listener.accept().unwrap();
        client.join().unwrap();
        drop(accepted);
        let nobody = segue_core::WaitQueue::<()>::new(());
        let _ = nobody.wait(segue_core::WaitsFor::new("nobody"), |()| false, |()| ());
    });
    let deadlock = deadlock.unwrap_err();
    assert!(!deadlock.fibers[0].network, "{deadlock}");
    assert!(!deadlock.to_string().contains("network"), "{deadlock}");
}

#[test]
fn an_open_simulation_gives_the_network_the_time_that_a_time_out_allows() {
    guarded("an open simulation", || {
        for seed in 0..10 {
            let run = Sim::new(seed).open().run(|| {
                let (listener, address) = listener();
                let (told, tell) = mpsc::channel();
                let client = thread::spawn(move || {
                    tell.recv().unwrap();
                    let mut client = std::net::TcpStream::connect(address).unwrap();
                    client.write_all(b"x").unwrap();
                });
                // Only once the accept below has waited.
                let teller = spawn(move || told.send(()).unwrap());
                let (mut stream, _) = timeout(Duration::from_secs(50), || listener.accept()).unwrap();
                let got = timeout(Duration::from_secs(50), || stream.read(&mut [0; 2]));
                teller.join().unwrap();
                client.join().unwrap();
                // Nobody waits for the network any more: the clock jumps.
                let before = now();
                sleep(Duration::from_secs(86_400)).unwrap();
                (got.unwrap(), now() - before)
            });
            assert_eq!(run, Ok((1, Duration::from_secs(86_400))));
        }
    });
}

#[test]
fn in_an_open_simulation_a_time_out_around_a_read_passes_in_real_time() {
    guarded("a time-out", || {
        let run = Sim::new(1).open().run(|| {
            let (listener, address) = listener();
            scope(|s| {
                let client = s.spawn(move || TcpStream::connect(address).unwrap());
                let (mut stream, _) = listener.accept().unwrap();
                let _client = client.join().unwrap();
                let (real, simulated) = (std::time::Instant::now(), now());
                let read = timeout(Duration::from_millis(20), || stream.read(&mut [0]));
                assert!(read.is_err());
                (real.elapsed() >= Duration::from_millis(20), now() - simulated)
            })
        });
        assert_eq!(run, Ok((true, Duration::from_millis(20))));
    });
}

/// A door that something from outside comes through, some ms after it has been waited at.
type Door = fn() -> bool;

/// Longer than any of these takes, and over at once where the clock jumps.
const PATIENCE: Duration = Duration::from_secs(40);

/// Whether this came, and not the time-out.
fn within<T>(wait: impl FnOnce() -> std::io::Result<T>) -> bool {
    match timeout(PATIENCE, wait) {
        Err(error) if error.kind() == std::io::ErrorKind::TimedOut => false,
        came => came.map(|_| true).unwrap(),
    }
}

fn is_left<L, R>(chosen: Either<L, R>) -> bool {
    matches!(chosen, Either::Left(_))
}

/// Does something on another thread, of which the simulation knows nothing, some ms from now.
fn soon(f: impl FnOnce() + Send + 'static) {
    thread::spawn(move || {
        // The fiber is to wait by then, and if it does not yet, nothing is tested.
        thread::sleep(Duration::from_millis(10));
        f();
    });
}

fn sh(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

#[test]
fn in_an_open_simulation_the_clock_goes_with_the_real_one_at_every_door_to_the_outside() {
    let doors: [Door; 16] = [
        || within(|| process::spawn(&mut sh("sleep 0.01")).unwrap().wait()),
        || within(|| process::status(&mut sh("sleep 0.01"))),
        || within(|| process::output(&mut sh("sleep 0.01; echo x"))),
        || {
            let child = process::spawn(&mut sh("sleep 0.01")).unwrap();
            is_left(child.exit_source().or(after(PATIENCE)).wait().unwrap())
        },
        || {
            let ends = || process::spawn(&mut sh("sleep 0.01")).unwrap();
            let (one, other) = (ends(), ends());
            is_left(any_of((one.exit_source(), other.exit_source())).or(after(PATIENCE)).wait().unwrap())
        },
        || {
            let (reader, mut writer) = pipe().unwrap();
            soon(move || writer.write_all(b"x").unwrap());
            is_left(reader.readable_source().or(after(PATIENCE)).wait().unwrap())
        },
        || {
            // The deadline comes first in the choice.
            let (reader, mut writer) = pipe().unwrap();
            soon(move || writer.write_all(b"x").unwrap());
            !is_left(after(PATIENCE).or_else(reader.readable_source()).wait().unwrap())
        },
        || {
            let (reader, mut writer) = pipe().unwrap();
            soon(move || writer.write_all(b"x").unwrap());
            merge([reader.readable_source()]).next_source().wait_until(now().checked_add(PATIENCE)).is_ok()
        },
        || {
            let (reader, mut writer) = pipe().unwrap();
            soon(move || writer.write_all(b"x").unwrap());
            is_left(reader.readable_source().boxed_local().or(after(PATIENCE)).wait().unwrap())
        },
        || {
            let (reader, mut writer) = pipe().unwrap();
            soon(move || writer.write_all(b"x").unwrap());
            let task = spawn_task(async move { reader.readable_source().or(after(PATIENCE)).await });
            is_left(task.join().unwrap())
        },
        || {
            let (listener, address) = listener();
            soon(move || drop(std::net::TcpStream::connect(address).unwrap()));
            is_left(listener.accept_source().or(after(PATIENCE)).wait().unwrap())
        },
        || {
            let signals = Signals::new(Signal::USR1).unwrap();
            let _child = process::spawn(&mut sh(&format!("sleep 0.01; kill -USR1 {}", std::process::id()))).unwrap();
            is_left(signals.recv_source().or(after(PATIENCE)).wait().unwrap())
        },
        || {
            let (place, file) = locked();
            soon(move || drop(file));
            within(|| File::open(place.path()).unwrap().lock())
        },
        || {
            let place = fifo();
            let path = place.path().to_owned();
            soon(move || drop(std::fs::File::options().write(true).open(path).unwrap()));
            within(|| File::open(place.path()))
        },
        || {
            let place = fifo();
            let path = place.path().to_owned();
            soon(move || drop(std::fs::read(path).unwrap()));
            within(|| File::options().write(true).open(place.path()))
        },
        || {
            let (place, listener) = unix_listener();
            let listener = Arc::new(listener);
            let accepts = Arc::clone(&listener);
            // Its queue is full when a connect takes longer than a moment.
            while timeout(Duration::from_millis(5), || UnixStream::connect(place.path())).is_ok() {}
            soon(move || drop(accepts.accept().unwrap()));
            within(|| UnixStream::connect(place.path()))
        },
    ];
    let timed_out = doors.into_iter().enumerate().filter(|(number, door)| {
        let run = guarded(("door", number), || {
            Sim::new(*number as u64).open().run(|| {
                let came = door();
                // Nobody waits for the outside any more: the clock jumps.
                let before = now();
                sleep(Duration::from_secs(86_400)).unwrap();
                (came, now() - before)
            })
        });
        let (came, slept) = run.unwrap();
        assert_eq!(slept, Duration::from_secs(86_400), "door {number}");
        !came
    });
    let timed_out: Vec<_> = timed_out.map(|(number, _)| number).collect();
    assert_eq!(timed_out, [] as [usize; 0], "doors at which the time-out came first");
}

#[test]
fn two_fibers_that_lock_two_files_crosswise_are_both_named() {
    guarded("a deadlock through files", || {
        let deadlock = Sim::new(1).run(|| {
            let [one, other] = [(), ()].map(|()| NamedTempFile::new().unwrap());
            let lock = |first: &NamedTempFile, second: &NamedTempFile| {
                let files = [first, second].map(|place| File::open(place.path()).unwrap());
                files[0].lock().unwrap();
                sleep(Duration::from_secs(1)).unwrap();
                assert!(Cancelled::caused(&files[1].lock().unwrap_err()));
            };
            scope(|s| {
                drop(s.spawn(|| lock(&one, &other)));
                drop(s.spawn(|| lock(&other, &one)));
            });
        });
        let report = deadlock.unwrap_err().to_string();
        assert_eq!(report.matches(" waits for a lock of a file at ").count(), 2, "{report}");
        assert!(!report.contains("the network"), "somebody of the simulation has them: {report}");
    });
}

#[test]
fn a_lock_that_a_fiber_gives_up_is_had_about_then() {
    guarded("a lock of a file", || {
        for held in [Duration::from_millis(1), Duration::from_secs(1), Duration::from_secs(86_400)] {
            let waited = Sim::new(1).run(|| {
                let (place, file) = locked();
                let (began, other) = (now(), File::open(place.path()).unwrap());
                let holder = spawn(move || {
                    sleep(held).unwrap();
                    drop(file);
                });
                other.lock().unwrap();
                holder.join().unwrap();
                now() - began
            });
            let latest = held + held / 16 + Duration::from_millis(16);
            assert!(waited.as_ref().is_ok_and(|waited| (held..=latest).contains(waited)), "{held:?}: {waited:?}");
            // One that nobody gives up ends with its time-out.
            let ended = Sim::new(1).run(|| {
                let (place, _file) = locked();
                let (began, other) = (now(), File::open(place.path()).unwrap());
                let error = timeout(held, || other.lock()).unwrap_err();
                (error.kind(), now() - began)
            });
            assert_eq!(ended, Ok((std::io::ErrorKind::TimedOut, held)));
        }
    });
}
