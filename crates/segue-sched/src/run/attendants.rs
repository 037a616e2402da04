//! The threads beside a scheduler's workers: the one that drives its shutdown, and the monitor.
//!
//! Made by the scheduler's entry points, which end them when the workers have ended.

use crate::run::monitor::{Config, Monitor, Watch};
use crate::run::shutdown::{Ending, Look, Shutdown};
use crate::worker::group::Group;
use std::io;
use std::sync::Arc;
use std::thread;

/// They end when this is dropped.
pub(crate) struct Attendants {
    _closer: Option<Closer>,
    _monitor: Option<Monitor>,
    /// What both look at workers by, if they do.
    pub(crate) watch: Option<Arc<Watch>>,
}

impl Attendants {
    /// Starts those that are asked for.
    pub(crate) fn start(shutdown: &Shutdown, monitor: &Config, group: &Arc<Group>, name: &str) -> io::Result<Self> {
        let looks = monitor.is_on() || (shutdown.reports() && !cfg!(miri));
        let watch = looks.then(|| Watch::new(group, name));
        let _monitor = watch.as_ref().map_or(Ok(None), |watch| Monitor::start(monitor, watch))?;
        let is_plain = shutdown.is_plain();
        let _closer = (!is_plain).then(|| Closer::start(shutdown, group, name, watch.as_ref())).transpose()?;
        Ok(Self { _closer, _monitor, watch })
    }
}

/// The thread that drives a shutdown.
struct Closer {
    ending: Arc<Ending>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Closer {
    fn start(shutdown: &Shutdown, group: &Arc<Group>, name: &str, watch: Option<&Arc<Watch>>) -> io::Result<Self> {
        // The group owns what this is in.
        let watch = watch.map(Arc::downgrade).unwrap_or_default();
        let look: Look = Box::new(move |worker, turn, since| watch.upgrade()?.ask(worker, turn, since));
        let ending = Ending::by_thread(shutdown.clone(), look);
        group.set_ending(Arc::<Ending>::clone(&ending));
        let (driven, of) = (Arc::clone(&ending), Arc::clone(group));
        let drive = move || driven.drive(&of);
        let thread = thread::Builder::new().name(format!("{name}-shutdown")).spawn(drive)?;
        Ok(Self { ending, thread: Some(thread) })
    }
}

impl Drop for Closer {
    fn drop(&mut self) {
        self.ending.end();
        // Not by itself: a hook may have dropped a pool.
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != thread::current().id()
        {
            // It does not unwind.
            let _ = thread.join();
        }
    }
}
