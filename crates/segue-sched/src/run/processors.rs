//! The processors that workers are bound to.
//!
//! Used by `runtime` and `hooks`, for [`Runtime::pin`](crate::Runtime::pin).

pub(crate) use system::{Bound, Processors};

/// By two calls of the C library: a crate that makes them in safe Rust takes a tenth of a program's
/// first build.
#[cfg(target_os = "linux")]
#[allow(unsafe_code)] // The calls are told where a set of processors lies.
mod system {
    use std::io;

    type Word = libc::c_ulong;
    const BITS: usize = Word::BITS as usize;
    /// As many as the C library's sets have.
    const PROCESSORS: usize = libc::CPU_SETSIZE as usize;

    /// A set of processors, a bit for each.
    struct Set([Word; PROCESSORS / BITS]);

    impl Set {
        const EMPTY: Set = Set([0; PROCESSORS / BITS]);

        /// Those that the calling thread may use.
        fn of_thread() -> io::Result<Self> {
            let mut set = Self::EMPTY;
            // SAFETY: the call writes into the array, at most as many bytes as it is told.
            done(unsafe { libc::sched_getaffinity(0, size_of_val(&set.0), (&raw mut set.0).cast()) })?;
            Ok(set)
        }

        /// Binds the calling thread to these.
        fn bind(&self) -> io::Result<()> {
            // SAFETY: the call reads the array, as many bytes as it is told.
            done(unsafe { libc::sched_setaffinity(0, size_of_val(&self.0), (&raw const self.0).cast()) })
        }

        fn has(&self, processor: usize) -> bool {
            self.0[processor / BITS] >> (processor % BITS) & 1 == 1
        }

        fn insert(&mut self, processor: usize) {
            self.0[processor / BITS] |= 1 << (processor % BITS);
        }
    }

    fn done(result: libc::c_int) -> io::Result<()> {
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// The processors that workers are bound to, in order.
    #[derive(Debug)]
    pub(crate) struct Processors(Vec<usize>);

    /// A thread that is bound, until this is dropped: what it was allowed before.
    pub(crate) struct Bound(Set);

    impl Processors {
        /// Those that the caller may use; an error if they are fewer than `workers`.
        pub(crate) fn allowed(workers: usize) -> io::Result<Self> {
            let allowed = Set::of_thread()?;
            let all: Vec<_> = (0..PROCESSORS).filter(|&processor| allowed.has(processor)).collect();
            if all.len() < workers {
                let what =
                    format!("{workers} workers can't be bound to {} processors: ask for fewer workers", all.len());
                return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
            }
            Ok(Self(all))
        }

        /// Binds the calling thread, which is this worker's.
        pub(crate) fn bind(&self, worker: usize) -> io::Result<Bound> {
            let before = Set::of_thread()?;
            let mut own = Set::EMPTY;
            own.insert(self.0[worker]);
            own.bind()?;
            Ok(Bound(before))
        }
    }

    impl Drop for Bound {
        fn drop(&mut self) {
            // It was allowed before. If it is not any more, the thread stays where it is allowed to
            // be.
            let _ = self.0.bind();
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::io;

    /// There are none to be bound to.
    #[derive(Debug)]
    pub(crate) enum Processors {}

    pub(crate) enum Bound {}

    impl Processors {
        pub(crate) fn allowed(_workers: usize) -> io::Result<Self> {
            let what = "workers can be bound to processors on Linux only: start the scheduler without `pin`";
            Err(io::Error::new(io::ErrorKind::Unsupported, what))
        }

        pub(crate) fn bind(&self, _worker: usize) -> io::Result<Bound> {
            match *self {}
        }
    }
}
