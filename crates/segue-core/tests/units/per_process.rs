//! A lock that another thread holds at a fork: the child takes the lock, with a value of its own.

#![allow(unsafe_code)] // `fork`.

use super::PerProcess;
use std::sync::mpsc;
use std::thread;

unsafe extern "C" {
    fn fork() -> i32;
    fn _exit(status: i32) -> !;
    fn waitpid(child: i32, status: *mut i32, options: i32) -> i32;
    fn alarm(seconds: u32) -> u32;
}

static LIST: PerProcess<Vec<u32>> = PerProcess::new(Vec::new);

#[test]
fn a_child_takes_a_lock_that_a_thread_of_its_parent_holds() {
    let (holds, held) = mpsc::channel::<()>();
    let (over, is_over) = mpsc::channel::<()>();
    let holder = thread::spawn(move || {
        let mut list = LIST.lock();
        list.push(1);
        holds.send(()).unwrap();
        is_over.recv().unwrap();
    });
    held.recv().unwrap();
    assert!(LIST.try_lock().is_none(), "one thread of a process has the lock");
    // SAFETY: the child takes the lock, and ends, by an alarm if it waits for ever.
    let status = unsafe {
        let child = fork();
        if child == 0 {
            alarm(20);
            let mut list = LIST.lock();
            let was_empty = list.is_empty();
            list.push(7);
            drop(list);
            _exit(if was_empty && *LIST.lock() == [7] { 7 } else { 8 });
        }
        let mut status = 0;
        assert_eq!(waitpid(child, &mut status, 0), child);
        status
    };
    assert_eq!(status, 7 << 8, "{status:#x}");
    over.send(()).unwrap();
    holder.join().unwrap();
    assert_eq!(*LIST.lock(), [1]);
}
