//! std's children, with pipes that are read and written in the scope; and standard input.

mod common;

use common::{beside, everywhere, terminal, unblock};
use segue_core::{scope, yield_now};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};

#[test]
fn pipes_of_a_child_suspend_the_fiber() {
    everywhere(|| {
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (mut input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        scope(|s| {
            let reads = s.spawn(|| unblock(|| BufReader::new(output).lines().map_while(Result::ok).count()));
            s.spawn(move || {
                unblock(|| {
                    // More than the two pipes hold.
                    for n in 0..20_000 {
                        writeln!(input, "line {n}").unwrap();
                    }
                });
            });
            assert_eq!(reads.join().unwrap(), 20_000);
        });
        assert!(child.wait().unwrap().success());
    });
}

/// A terminal and its other side.
fn files(bytes: u8, tenths: u8) -> (File, File) {
    let (this, other) = terminal(bytes, tenths);
    (this.into(), other.into())
}

#[test]
fn a_terminal_suspends_the_fiber_that_reads_it_and_takes_what_is_written() {
    everywhere(|| {
        // What is typed is passed on as it is: else a terminal may drop what it echoes.
        let (theirs, ours) = files(1, 0);
        scope(|s| {
            let reads = s.spawn(|| {
                let lines = BufReader::new(&theirs).lines().map_while(Result::ok);
                unblock(|| lines.take(300).map(|line| line.len()).sum::<usize>())
            });
            s.spawn(|| {
                let line = format!("{}\n", "x".repeat(100));
                unblock(|| (0..300).for_each(|_| (&ours).write_all(line.as_bytes()).unwrap()));
            });
            assert_eq!(reads.join().unwrap(), 300 * 100);
        });
    });
}

#[test]
fn a_terminal_that_waits_for_nobody_says_so() {
    everywhere(|| {
        let (this, other) = files(0, 0);
        assert_eq!(unblock(|| (&this).read(&mut [0; 9])).unwrap(), 0);
        unblock(|| (&other).write_all(b"abc")).unwrap();
        let mut bytes = [0; 9];
        let mut read = 0;
        while read < 3 {
            read += unblock(|| (&this).read(&mut bytes[read..])).unwrap();
        }
        assert_eq!(&bytes[..3], b"abc");
    });
}

#[test]
fn a_terminal_that_waits_for_a_time_says_so_when_it_is_over() {
    everywhere(|| {
        let (this, other) = files(0, 1);
        let begun = std::time::Instant::now();
        assert_eq!(unblock(|| (&this).read(&mut [0; 9])).unwrap(), 0);
        assert!(begun.elapsed() >= std::time::Duration::from_millis(90));
        // A byte ends it before.
        let (this, other_of_long) = files(0, 255);
        drop(other);
        assert_eq!(beside(|| (&this).read(&mut [0; 9]), || (&other_of_long).write_all(b"x").unwrap()).unwrap(), 1);
    });
}

#[test]
fn a_terminal_that_wants_three_bytes_waits_for_three_or_for_as_many_as_are_asked_for() {
    everywhere(|| {
        let (this, other) = files(3, 0);
        let pieces = || {
            for piece in [b"a", b"b", b"c"] {
                (&other).write_all(piece).unwrap();
                (0..5).for_each(|_| yield_now().unwrap());
            }
        };
        let mut bytes = [0; 9];
        assert_eq!(beside(|| (&this).read(&mut bytes), pieces).unwrap(), 3);
        assert_eq!(&bytes[..3], b"abc");
        // It is not ready for one byte, and gives it.
        assert_eq!(beside(|| (&this).read(&mut [0]), || (&other).write_all(b"d").unwrap()).unwrap(), 1);
    });
}

const CHILD: &str = "SEGUE_UNBLOCK_STDIN";

/// In the child: one fiber reads the standard input, and the other has turns meanwhile, of which
/// the first makes the parent write.
#[test]
fn standard_input_suspends_the_fiber() {
    if std::env::var_os(CHILD).is_some() {
        everywhere(|| {
            scope(|s| {
                let line = s.spawn(|| unblock(|| std::io::stdin().lines().next().unwrap().unwrap()));
                (0..3).for_each(|_| yield_now().unwrap());
                eprintln!("asks");
                assert_eq!(line.join().unwrap(), "answer");
            });
        });
        return;
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["standard_input_suspends_the_fiber", "--exact", "--nocapture"]).env(CHILD, "1");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut asked = 0;
    for line in BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok) {
        if line == "asks" {
            input.write_all(b"answer\n").unwrap();
            asked += 1;
        } else {
            eprintln!("{line}");
        }
    }
    assert!(child.wait().unwrap().success());
    assert_eq!(asked, 5);
}

#[test]
fn files_and_directories_are_passed_through() {
    everywhere(|| {
        let before = segue_unblock::waits();
        unblock(|| {
            let path = std::env::temp_dir().join(format!("segue-unblock-{}", std::process::id()));
            std::fs::write(&path, vec![b'x'; 3_000_000]).unwrap();
            let mut text = String::new();
            std::fs::File::open(&path).unwrap().read_to_string(&mut text).unwrap();
            assert_eq!(text.len(), 3_000_000);
            std::fs::remove_file(&path).unwrap();
            assert!(std::fs::read(std::env::temp_dir()).is_err());
            // Devices that never wait.
            std::fs::File::open("/dev/zero").unwrap().read_exact(&mut [0; 5_000]).unwrap();
            std::fs::write("/dev/null", vec![0; 100_000]).unwrap();
            assert!(std::fs::write("/dev/full", "x").is_err());
        });
        assert_eq!(segue_unblock::waits(), before);
    });
}
