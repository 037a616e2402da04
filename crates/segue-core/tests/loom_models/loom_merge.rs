//! Every interleaving of a merge that waits, is looked at, and goes, with those who serve its arms.

use crate::mailbox;
use crate::models;

use loom::thread;
use mailbox::{Mailbox, poll};
use models::{Reached, check, model};
use segue_core::merge;
use std::future::IntoFuture;
use std::sync::Arc;
use std::task::{Poll, Waker};

fn mailboxes() -> [Arc<Mailbox<u32>>; 2] {
    [Arc::new(Mailbox::new()), Arc::new(Mailbox::new())]
}

fn messages(mailbox: Arc<Mailbox<u32>>) -> Vec<u32> {
    Arc::into_inner(mailbox).expect("the threads have ended").into_messages()
}

#[test]
fn conservation_when_a_merge_goes_while_its_arms_are_served() {
    static RECEIVED: Reached = Reached::new("received");
    static GIVEN_BACK: Reached = Reached::new("given back");
    static KEPT: Reached = Reached::new("kept, since the arm had gone or was not there yet");
    model(5, || {
        let mailbox = Arc::new(Mailbox::new());
        let sender = thread::spawn({
            let mailbox = Arc::clone(&mailbox);
            move || mailbox.send(7)
        });
        let received = {
            let mut merged = merge([mailbox.receive_source()]);
            merged.try_next().or_else(|| merged.try_next())
        };
        let handed = sender.join().unwrap();
        let mut all = messages(mailbox);
        GIVEN_BACK.note_if(handed && received.is_none());
        KEPT.note_if(!handed && received.is_none());
        RECEIVED.note_if(received.is_some());
        all.extend(received.map(|(_, message)| message));
        assert_eq!(all, [7], "lost or doubled");
    });
    check(&[&RECEIVED, &GIVEN_BACK, &KEPT]);
}

#[test]
fn a_wait_hears_of_both_arms() {
    static LEFT: Reached = Reached::new("left first");
    static RIGHT: Reached = Reached::new("right first");
    model(3, || {
        let all = mailboxes();
        let senders = [0, 1].map(|index| {
            let mailbox = Arc::clone(&all[index]);
            // One is handed, the other is told.
            thread::spawn(move || if index == 0 { _ = mailbox.send(1) } else { mailbox.leave(2) })
        });
        {
            let mut merged = merge(all.iter().map(|mailbox| mailbox.receive_source()));
            // A wake-up that is lost would leave it waiting for ever, which the model reports.
            let both = [merged.next().expect("nobody cancels"), merged.next().expect("nobody cancels")];
            LEFT.note_if(both == [(0, 1), (1, 2)]);
            RIGHT.note_if(both == [(1, 2), (0, 1)]);
            assert_ne!(both[0], both[1]);
        }
        _ = senders.map(|sender| sender.join().unwrap());
        assert!(all.map(messages).iter().all(Vec::is_empty));
    });
    check(&[&LEFT, &RIGHT]);
}

#[test]
fn a_dropped_wait_leaves_what_its_arm_was_handed() {
    static LEFT: Reached = Reached::new("handed while the task waited, and left to the next look");
    static YIELDED: Reached = Reached::new("yielded to the task");
    static GIVEN_BACK: Reached = Reached::new("given back with the arm");
    model(5, || {
        let mailbox = Arc::new(Mailbox::new());
        let sender = thread::spawn({
            let mailbox = Arc::clone(&mailbox);
            move || mailbox.send(7)
        });
        let (awaited, later) = {
            let mut merged = merge([mailbox.receive_source()]);
            let awaited = {
                let mut future = Box::pin(merged.next_source().into_future());
                match poll(future.as_mut(), Waker::noop()) {
                    Poll::Pending => poll(future.as_mut(), Waker::noop()),
                    ready => ready,
                }
            };
            let later = if awaited.is_pending() { merged.try_next() } else { None };
            merged.remove(0);
            (awaited, later)
        };
        let handed = sender.join().unwrap();
        YIELDED.note_if(awaited.is_ready());
        LEFT.note_if(later.is_some());
        GIVEN_BACK.note_if(handed && awaited.is_pending() && later.is_none());
        let got = usize::from(awaited.is_ready()) + usize::from(later.is_some());
        assert_eq!(got + messages(mailbox).len(), 1, "lost or doubled");
    });
    check(&[&LEFT, &YIELDED, &GIVEN_BACK]);
}
