//! Ends of processes on a system without pidfds. Part of `process/exit.rs`.

use super::*;
use crate::driver::run::run;
use std::process::{Command, Stdio};

/// As where there is no pidfd.
fn without_pidfd(child: &std::process::Child) -> Exit {
    let pid = Pid::from_child(child);
    let leads = rustix::process::getpgid(Some(pid)) == Ok(pid);
    Exit { pid, way: Way::by_signal().unwrap(), leads, state: Mutex::new(State::Runs) }
}

#[test]
fn without_a_pidfd_the_end_comes_with_a_signal() {
    segue_sched::Runtime::new()
        .workers(1)
        .park(crate::driver::DriverPark::new)
        .run(|| {
            let mut cats: Vec<_> = (0..50)
                .map(|_| Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap())
                .collect();
            let exits: Vec<_> = cats.iter().map(without_pidfd).collect();
            segue_core::scope(|s| {
                let waits = |exit| run(Exit::socket(exit), Ends(exit), None).unwrap();
                let all: Vec<_> = exits.iter().map(|exit| s.spawn(move || waits(exit))).collect();
                // They wait by now; and the odd ones are killed, the even ones end.
                segue_core::yield_now().unwrap();
                for (number, (cat, exit)) in cats.iter_mut().zip(&exits).enumerate() {
                    assert_eq!(exit.look().unwrap(), None);
                    if number % 2 == 1 { exit.send(Signal::KILL).unwrap() } else { drop(cat.stdin.take()) }
                }
                for (number, ended) in all.into_iter().enumerate() {
                    let status = ended.join().unwrap();
                    assert_eq!(status.signal(), (number % 2 == 1).then_some(9));
                    assert_eq!(status.success(), number % 2 == 0);
                }
            });
            assert!(exits.iter().all(|exit| exit.send(Signal::KILL).is_ok()), "an end is no error");
        })
        .unwrap();
}

#[test]
fn without_a_pidfd_a_group_keeps_its_number_as_long_as_its_leader_is_known() {
    use std::io::Read;
    use std::os::unix::process::CommandExt;
    let exists = |id: u32| std::fs::exists(format!("/proc/{id}")).unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", "cat & exit 3"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut leader = command.process_group(0).spawn().unwrap();
    let exit = without_pidfd(&leader);
    let status = run(exit.socket(), Ends(&exit), None).unwrap();
    assert_eq!((status.code(), exit.look().unwrap()), (Some(3), Some(status)));
    assert!(exists(leader.id()), "its group is anybody's");
    exit.send_to_group(Signal::KILL).unwrap();
    // The other member has ended when its output has.
    assert_eq!(leader.stdout.take().unwrap().read(&mut [0]).unwrap(), 0);
    drop(exit);
    assert!(!exists(leader.id()), "a zombie is left");
    leader.wait().unwrap_err();
}
