//! What the caller has vouched for, and did not keep: a lock of std's is held across a call, and
//! another fiber of the worker wants it. The worker stands still, and its monitor says where.
#![cfg(not(miri))]

mod common;

use common::unblock;
use segue_core::{scope, yield_now};
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

const CHILD: &str = "SEGUE_UNBLOCK_STUCK";

#[test]
fn a_lock_that_is_held_across_a_call_ends_in_the_monitors_report() {
    if std::env::var_os(CHILD).is_some() {
        stand_still();
        return;
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["a_lock_that_is_held_across_a_call_ends_in_the_monitors_report", "--exact", "--nocapture"]);
    let mut child =
        command.env(CHILD, "1").stdin(Stdio::piped()).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut said = Vec::new();
    for line in BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok) {
        said.push(line);
        // The report names the frame that wants the lock: all is said.
        if said.last().unwrap().contains("stand_still") {
            break;
        }
    }
    // It stands still for good.
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(said.iter().any(|line| line.contains("has been in fiber") && line.contains("worker stuck-0")), "{said:#?}");
    assert!(said.iter().any(|line| line.contains("stand_still")), "{said:#?}");
}

/// Does what the safety section forbids: one fiber holds the lock while it reads what nobody
/// writes, and another asks for it.
fn stand_still() {
    let lock = Mutex::new(());
    let run = || {
        scope(|s| {
            s.spawn(|| {
                unblock(|| {
                    let _held = lock.lock().unwrap();
                    std::io::stdin().read_exact(&mut [0]).unwrap();
                });
            });
            yield_now().unwrap();
            drop(lock.lock().unwrap());
        });
    };
    segue::runtime().workers(1).name("stuck").monitor(Duration::from_millis(50)).run(run).unwrap();
}
