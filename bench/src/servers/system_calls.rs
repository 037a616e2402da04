//! Counts the system calls of another process: the kernel's tracepoint `raw_syscalls:sys_enter`,
//! counted for each of its threads and for those that they start. Needs the right to do so, and
//! tracefs; elsewhere nothing is counted.

#![allow(unsafe_code)] // The C library has no function for this system call.

use std::fs::File;
use std::io::Read;
use std::os::fd::FromRawFd;

/// Where tracefs may be.
const TRACEFS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// `PERF_TYPE_TRACEPOINT`.
const TRACEPOINT: u64 = 2;
/// `PERF_ATTR_SIZE_VER0`: that of the first `perf_event_attr`, which every kernel takes.
const SIZE: u64 = 64;
/// The bit `inherit`.
const INHERIT: u64 = 1 << 1;
/// `PERF_FLAG_FD_CLOEXEC`.
const CLOSE_ON_EXEC: libc::c_ulong = 1 << 3;

/// A count that runs.
pub struct Count(Vec<File>);

impl Count {
    /// Counts from now on. None if this system does not let us.
    pub fn start(process: u32) -> Option<Self> {
        let event = TRACEFS.iter().find_map(|root| {
            std::fs::read_to_string(format!("{root}/events/raw_syscalls/sys_enter/id")).ok()?.trim().parse().ok()
        })?;
        let threads = std::fs::read_dir(format!("/proc/{process}/task")).ok()?.flatten();
        let threads = threads.filter_map(|thread| thread.file_name().to_str()?.parse().ok());
        threads.map(|thread| of_thread(thread, event)).collect::<Option<_>>().map(Self)
    }

    /// How many there have been.
    pub fn stop(self) -> Option<u64> {
        let read = |mut file: File| {
            let mut count = [0; 8];
            file.read_exact(&mut count).ok()?;
            Some(u64::from_ne_bytes(count))
        };
        self.0.into_iter().map(read).sum()
    }
}

fn of_thread(thread: libc::pid_t, event: u64) -> Option<File> {
    // `perf_event_attr`: its type and size, two halves of a word; the event; a period, what to
    // sample and how to read, none; its flags; wake-ups, none.
    let (low, high) = if cfg!(target_endian = "little") { (TRACEPOINT, SIZE) } else { (SIZE, TRACEPOINT) };
    let attributes = [low | high << 32, event, 0, 0, 0, INHERIT, 0, 0];
    let (any_cpu, no_group): (libc::c_int, libc::c_int) = (-1, -1);
    // SAFETY: the kernel reads the 64 bytes that the second word of the attributes promises.
    let descriptor = unsafe {
        let attributes: *const [u64; 8] = &attributes;
        libc::syscall(libc::SYS_perf_event_open, attributes, thread, any_cpu, no_group, CLOSE_ON_EXEC)
    };
    // SAFETY: the kernel has just made it for us.
    (descriptor >= 0).then(|| unsafe { File::from_raw_fd(descriptor as i32) })
}
