//! Who waits for the children that nobody else will wait for.
//!
//! Used when a `Child` is dropped while its process runs: else that would be a zombie when it ends,
//! for as long as this process lives.
//!
//! # The idea
//!
//! One thread polls what the abandoned children become readable by, and looks. It is started for
//! the first of them and ends with the last. It is a plain thread with a plain `poll`, since a
//! child may be dropped where there is no scheduler, or while one ends.
//!
//! **States**: `bell` is there exactly while a thread watches. All of it changes under the lock;
//! the thread ends under it too, so a child is either seen by that thread or starts another. **The
//! race to fear**: a child that is added while the thread is on its way into `poll`. The bell is
//! rung after the adding, and stays readable.

use super::exit::Exit;
use crate::bell::Bell;
use crate::fork::Birth;
use rustix::event::{PollFd, PollFlags};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

struct Orphans {
    list: Vec<Arc<Exit>>,
    /// Of the thread that watches them, and the process that it is in.
    bell: Option<(Birth, Arc<Bell>)>,
}

static ORPHANS: Mutex<Orphans> = Mutex::new(Orphans { list: Vec::new(), bell: None });

fn orphans() -> MutexGuard<'static, Orphans> {
    ORPHANS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sees to it that a child is waited for. If there is no thread or no descriptor to be had, that is
/// tried again with the next one.
pub(super) fn adopt(exit: Arc<Exit>) {
    let mut orphans = orphans();
    if orphans.bell.as_ref().is_some_and(|(birth, _)| !birth.is_here()) {
        // The child of a fork: these are its parent's.
        (orphans.bell, orphans.list) = (None, Vec::new());
    }
    orphans.list.push(exit);
    if let Some((_, bell)) = &orphans.bell {
        bell.ring();
        return;
    }
    let Ok(bell) = Bell::new().map(Arc::new) else { return };
    let threads = Arc::clone(&bell);
    let started = std::thread::Builder::new().name("segue-reaper".to_owned()).spawn(move || watch(&threads));
    orphans.bell = started.is_ok().then(|| (Birth::now(), bell));
}

fn watch(bell: &Bell) {
    loop {
        let mut orphans = orphans();
        orphans.list.retain(|exit| matches!(exit.look(), Ok(None)));
        if orphans.list.is_empty() {
            *orphans = Orphans { list: Vec::new(), bell: None };
            return;
        }
        let watched = orphans.list.clone();
        drop(orphans);
        let mut fds = vec![PollFd::new(bell, PollFlags::IN)];
        fds.extend(watched.iter().map(|exit| PollFd::new(&**exit, PollFlags::IN)));
        // Interrupted or not, the next look tells.
        let _ = rustix::event::poll(&mut fds, None);
        bell.hear();
    }
}
