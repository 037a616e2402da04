//! Every interleaving of a task that is polled and dropped with whoever serves it, and of a choice
//! with those who serve its arms.

use crate::mailbox;
use crate::models;

use loom::thread;
use mailbox::{Mailbox, poll};
use models::{Reached, check, model};
use segue_core::Either;
use segue_core::scheduling::Family;
use std::future::IntoFuture;
use std::sync::Arc;
use std::task::{Poll, Waker};

fn messages(mailbox: Arc<Mailbox<u32>>) -> Vec<u32> {
    Arc::into_inner(mailbox).expect("the threads have ended").into_messages()
}

#[test]
fn conservation_when_a_task_is_dropped_while_it_is_served() {
    static RECEIVED: Reached = Reached::new("received");
    static GIVEN_BACK: Reached = Reached::new("given back by a dropped task");
    static KEPT: Reached = Reached::new("kept, since the task had gone");
    model(5, || {
        let mailbox = Arc::new(Mailbox::new());
        let sender = thread::spawn({
            let mailbox = Arc::clone(&mailbox);
            move || mailbox.send(7)
        });
        let received = {
            let mut future = Box::pin(mailbox.receive_source().into_future());
            match poll(future.as_mut(), Waker::noop()) {
                Poll::Ready(message) => Some(message),
                Poll::Pending => match poll(future.as_mut(), Waker::noop()) {
                    Poll::Ready(message) => Some(message),
                    Poll::Pending => None,
                },
            }
        };
        let handed = sender.join().unwrap();
        let mut all = messages(mailbox);
        GIVEN_BACK.note_if(handed && received.is_none());
        KEPT.note_if(!handed && received.is_none());
        RECEIVED.note_if(received.is_some());
        all.extend(received);
        assert_eq!(all, [7], "lost or doubled");
    });
    check(&[&RECEIVED, &GIVEN_BACK, &KEPT]);
}

#[test]
fn what_a_dropped_task_was_told_reaches_a_thread_that_waits() {
    static TOLD: Reached = Reached::new("passed on or received");
    model(3, || {
        let mailbox = Arc::new(Mailbox::new());
        let mut future = Box::pin(mailbox.receive_source().into_future());
        assert_eq!(poll(future.as_mut(), Waker::noop()), Poll::Pending);
        let waiter = thread::spawn({
            let mailbox = Arc::clone(&mailbox);
            move || mailbox.receive().expect("nobody cancels it")
        });
        let sender = thread::spawn({
            let mailbox = Arc::clone(&mailbox);
            move || mailbox.leave(7)
        });
        drop(future);
        // A wake-up that is lost would leave it waiting for ever, which the model reports.
        assert_eq!(waiter.join().unwrap(), 7);
        sender.join().unwrap();
        TOLD.note();
        assert!(messages(mailbox).is_empty());
    });
    check(&[&TOLD]);
}

#[test]
fn conservation_in_a_choice_that_is_served_on_both_sides() {
    static LEFT: Reached = Reached::new("left");
    static RIGHT: Reached = Reached::new("right");
    model(3, || {
        let (left, right) = (Arc::new(Mailbox::new()), Arc::new(Mailbox::new()));
        let senders = [(1, &left), (2, &right)].map(|(message, mailbox)| {
            let mailbox = Arc::clone(mailbox);
            thread::spawn(move || mailbox.send(message))
        });
        let chosen = left.receive_source().or(right.receive_source()).wait().expect("nobody cancels");
        let _ = senders.map(|sender| sender.join().unwrap());
        let rest = [messages(left), messages(right)].concat();
        match chosen {
            Either::Left(message) => {
                LEFT.note();
                assert_eq!((message, rest), (1, vec![2]));
            }
            Either::Right(message) => {
                RIGHT.note();
                assert_eq!((message, rest), (2, vec![1]));
            }
        }
    });
    check(&[&LEFT, &RIGHT]);
}

#[test]
fn conservation_in_an_awaited_choice_that_is_served_on_both_sides() {
    static RECEIVED: Reached = Reached::new("received, and the other one kept");
    static DROPPED: Reached = Reached::new("dropped, and both kept");
    model(3, || {
        let (left, right) = (Arc::new(Mailbox::new()), Arc::new(Mailbox::new()));
        let mut choice = Box::pin(left.receive_source().or(right.receive_source()).into_future());
        assert_eq!(poll(choice.as_mut(), Waker::noop()), Poll::Pending);
        let senders = [&left, &right].map(|mailbox| {
            let mailbox = Arc::clone(mailbox);
            thread::spawn(move || mailbox.send(1))
        });
        let received = poll(choice.as_mut(), Waker::noop()).is_ready();
        drop(choice);
        let _ = senders.map(|sender| sender.join().unwrap());
        let kept = messages(left).len() + messages(right).len();
        assert_eq!(usize::from(received) + kept, 2, "lost or doubled");
        RECEIVED.note_if(received);
        DROPPED.note_if(!received);
    });
    check(&[&RECEIVED, &DROPPED]);
}

#[test]
fn conservation_in_a_choice_that_is_served_and_cancelled() {
    static LEFT: Reached = Reached::new("left");
    static CANCELLED: Reached = Reached::new("cancelled");
    model(3, || {
        let (left, right) = (Arc::new(Mailbox::new()), Arc::new(Mailbox::<u32>::new()));
        let family = Arc::new(Family::detached());
        let sender = thread::spawn({
            let left = Arc::clone(&left);
            move || left.send(1)
        });
        let canceller = thread::spawn({
            let token = family.token();
            move || token.cancel()
        });
        let chosen = family.enter_context(|| right.receive_source().or(left.receive_source()).wait());
        let handed = sender.join().unwrap();
        canceller.join().unwrap();
        LEFT.note_if(chosen.is_ok());
        CANCELLED.note_if(chosen.is_err());
        let mut all = messages(left);
        assert!(!handed || chosen.is_ok(), "what was handed over was not received");
        all.extend(chosen.ok().map(|either| match either {
            Either::Left(message) | Either::Right(message) => message,
        }));
        assert_eq!(all, [1], "lost or doubled");
        assert!(messages(right).is_empty());
    });
    check(&[&LEFT, &CANCELLED]);
}

/// Two choices that meet at both of their mailboxes, in opposite orders: no order of locks is
/// needed.
#[test]
fn two_choices_across_each_other() {
    static DONE: Reached = Reached::new("done");
    model(2, || {
        let (a, b) = (Arc::new(Mailbox::new()), Arc::new(Mailbox::new()));
        let other = thread::spawn({
            let (a, b) = (Arc::clone(&a), Arc::clone(&b));
            move || b.receive_source().or(a.receive_source()).wait().expect("nobody cancels")
        });
        a.send(1);
        b.send(2);
        let mine = a.receive_source().or(b.receive_source()).wait().expect("nobody cancels");
        let both = [mine, other.join().unwrap()].map(|either| match either {
            Either::Left(message) | Either::Right(message) => message,
        });
        assert_eq!(both[0] + both[1], 3, "lost or doubled: {both:?}");
        DONE.note();
        assert!(messages(a).is_empty() && messages(b).is_empty());
    });
    check(&[&DONE]);
}
