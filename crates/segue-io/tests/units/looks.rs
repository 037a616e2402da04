//! A look at the reactor of a worker that is away passes on the notification it takes. Part of
//! `driver/looks.rs`.

use super::*;
use crate::driver::presence::Was;
use crate::selector::Backend;

/// A worker that has come back and gone into the kernel, and is notified there, while another
/// thread takes reports.
#[test]
fn a_notification_that_others_have_taken_is_sent_again() {
    for backend in [Backend::Native, Backend::Polling, Backend::PollingOneShot] {
        let reactor = Arc::new(Reactor::new(backend).unwrap());
        reactor.open();
        assert!(reactor.presence.lie_down(true));
        assert_eq!(reactor.presence.unpark(), Was::Parked { unwatched: false });
        reactor.notify();
        reactor.turn_for_worker();
        let began = Instant::now();
        let _ = reactor.turn(&mut Found::default(), Some(Duration::from_secs(20)));
        assert!(began.elapsed() < Duration::from_secs(10), "the worker sleeps on, over {backend:?}");
    }
}
