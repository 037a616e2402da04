//! The descriptor of an open file, shared with the calls that were left.
//!
//! A part of `File`. A call to another party needs the descriptor for as long as it lasts, also
//! when its caller has gone and the file was dropped. It is not duplicated for that: to close a
//! duplicate asks a server to write the file out, and gives up the process's record locks.
//!
//! To close a file of a server asks the server, too. So the last handle is closed on a thread, and
//! waited for, unless the caller was cancelled or may not be suspended.

use super::kind::Kind;
use super::system::kind_of;
use crate::apart::{self, Patience};
use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock};

pub(super) struct Held {
    /// There until this is dropped.
    fd: Option<Arc<OwnedFd>>,
    /// Asked at the first use: what a file is does not change. Nobody waits inside of the cell, who
    /// would keep others of its thread from looking.
    kind: OnceLock<Kind>,
}

impl Held {
    pub(super) fn new(fd: OwnedFd, kind: Option<Kind>) -> Self {
        Self { fd: Some(Arc::new(fd)), kind: kind.map_or_else(OnceLock::new, OnceLock::from) }
    }

    #[inline]
    pub(super) fn get(&self) -> &Arc<OwnedFd> {
        self.fd.as_ref().expect("a descriptor is held until the drop")
    }

    #[inline]
    pub(super) fn kind(&self) -> Kind {
        self.kind.get().copied().unwrap_or_else(|| self.ask())
    }

    /// If that is not known yet, the next use asks again.
    #[cold]
    fn ask(&self) -> Kind {
        let kind = kind_of(self.get());
        kind.map_or(Kind::Elsewhere, |kind| *self.kind.get_or_init(|| kind))
    }

    /// The descriptor alone, or another one if a call that was left still has it.
    ///
    /// # Panics
    /// If there is no other one to be had.
    pub(super) fn into_owned(mut self) -> OwnedFd {
        let fd = self.fd.take().expect("a descriptor is held until the drop");
        let another = |fd: Arc<OwnedFd>| fd.try_clone().expect("a call that was left has the file's last descriptor");
        Arc::try_unwrap(fd).unwrap_or_else(another)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let Some(fd) = self.fd.take() else { return };
        if self.kind.get() != Some(&Kind::Elsewhere) || Arc::strong_count(&fd) > 1 || apart::in_place() {
            return;
        }
        let mut late = Late(Some(fd));
        if apart::is_called_for() {
            // Its errors are lost, as with std.
            let _ = apart::run("a file to be closed", Patience::Server, move || {
                late.close();
                Ok(())
            });
        }
    }
}

/// What is closed on a thread if nobody has closed it.
struct Late(Option<Arc<OwnedFd>>);

impl Late {
    /// On the thread.
    fn close(&mut self) {
        self.0 = None;
    }
}

impl Drop for Late {
    fn drop(&mut self) {
        if let Some(fd) = self.0.take() {
            apart::detach(move || drop(fd));
        }
    }
}
