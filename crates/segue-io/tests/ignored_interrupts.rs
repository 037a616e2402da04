//! A process that ignores Ctrl-C, as a shell's background jobs do: its terminals interrupt all the
//! same. In a program of its own, as what is ignored is the whole process's.
#![cfg(target_os = "linux")]
#![allow(unsafe_code)] // What this process ignores.

use segue_io::{process, pty::Pty};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

#[test]
fn a_program_on_a_terminal_is_interrupted_where_this_process_ignores_that() {
    for signal in [libc::SIGINT, libc::SIGQUIT] {
        // SAFETY: nothing here waits for these signals.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    for (key, signal) in [(b"\x03", libc::SIGINT), (b"\x1c", libc::SIGQUIT)] {
        let terminal = Pty::open().unwrap();
        let mut command = Command::new("sh");
        // A core would be written for the second.
        terminal.attach(command.args(["-c", "ulimit -c 0; echo begin; exec cat"])).unwrap();
        let mut child = process::spawn(&mut command).unwrap().kill_on_drop(true);
        let mut begin = String::new();
        BufReader::new(&terminal).read_line(&mut begin).unwrap();
        assert_eq!(begin, "begin\r\n");
        (&terminal).write_all(key).unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(signal));
    }
}
