//! Messages that have arrived for a worker, until a fiber takes them.
//!
//! Used by leases. The fibers of a worker may have no time: its jobs compute, or fill all slots. So
//! a task on the client's thread takes each message as the message arrives, and extends the leases
//! of those that wait here. No job goes to another worker for want of a fiber.
//!
//! **The end.** The end or the drop of an inbox ends the task, which unsubscribes, asks the server
//! for anything, and gives back the jobs that are here. The server has heard of the first when the
//! second is answered: no job that is given back comes here again. One that was on its way comes
//! back after the ack wait.

use super::shared::Shared;
use super::wire;
use async_nats::{Message, Subscriber};
use futures_core::Stream;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Instant;
use tokio::sync::{Notify, oneshot};
use tokio::time::timeout;

/// The messages, in their order. One fiber takes them.
pub(super) struct Inbox {
    arrived: Arc<Arrived>,
    /// Ends the task, which tells when that is done.
    end: Option<oneshot::Sender<oneshot::Sender<()>>>,
}

#[derive(Default)]
struct Arrived {
    state: Mutex<State>,
    notify: Notify,
}

#[derive(Default)]
struct State {
    messages: VecDeque<(Instant, Message)>,
    is_closed: bool,
}

impl Inbox {
    /// Starts the task that fills this inbox.
    pub(super) fn new(shared: &Arc<Shared>, messages: Subscriber) -> Self {
        let (end, ended) = oneshot::channel();
        let arrived = Arc::new(Arrived::default());
        let task = fill(Arc::clone(shared), Arc::clone(&arrived), messages, ended);
        shared.connection.runtime.handle.spawn(task);
        Self { arrived, end: Some(end) }
    }

    /// The first message, which stays here, and since when; none if there will be no more.
    pub(super) async fn first(&self) -> Option<(Instant, Message)> {
        loop {
            {
                let state = self.arrived.state();
                if let Some(first) = state.messages.front() {
                    return Some(first.clone());
                }
                if state.is_closed {
                    return None;
                }
            }
            self.arrived.notify.notified().await;
        }
    }

    /// Ends the task, and waits for that.
    pub(super) async fn end(&mut self) {
        if let Some(end) = self.end.take() {
            let (tells, told) = oneshot::channel();
            let _has_ended = end.send(tells);
            let _or_the_client_has = told.await;
        }
    }

    /// Takes the first message out.
    pub(super) fn remove_first(&self) {
        self.arrived.state().messages.pop_front();
    }
}

impl Arrived {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum Event {
    Message(Option<Message>),
    End(Option<oneshot::Sender<()>>),
}

async fn fill(
    shared: Arc<Shared>,
    arrived: Arc<Arrived>,
    mut messages: Subscriber,
    mut ended: oneshot::Receiver<oneshot::Sender<()>>,
) {
    let every = shared.names.extend_every();
    let (mut extended, mut is_over, mut tells) = (Instant::now(), false, None);
    loop {
        let event = poll_fn(|task| {
            if !is_over && let Poll::Ready(told) = Pin::new(&mut ended).poll(task) {
                is_over = true;
                return Poll::Ready(Event::End(told.ok()));
            }
            Pin::new(&mut messages).poll_next(task).map(Event::Message)
        });
        match timeout(every.saturating_sub(extended.elapsed()), event).await {
            Ok(Event::Message(Some(message))) => {
                arrived.state().messages.push_back((Instant::now(), message));
                arrived.notify.notify_one();
            }
            Ok(Event::Message(None)) => break,
            // The stream ends with the messages that have arrived.
            Ok(Event::End(told)) => {
                tells = told;
                let _away = messages.unsubscribe().await;
            }
            Err(_) => {}
        }
        if extended.elapsed() >= every {
            extended = Instant::now();
            let jobs = |(_, message): &(Instant, Message)| message.reply.clone().filter(|_| message.status.is_none());
            let waiting: Vec<_> = arrived.state().messages.iter().filter_map(jobs).collect();
            for reply in waiting {
                let _next_may_arrive = shared.tell(reply.to_string(), b"+WPI".to_vec()).await;
            }
        }
    }
    if is_over {
        let _heard_or_away = shared.context().query_account().await;
        let left = std::mem::take(&mut arrived.state().messages);
        for lease in left.into_iter().filter_map(|(_, message)| wire::lease(message)) {
            let _comes_back_later = shared.give_back(&lease).await;
        }
        drop(tells);
    } else {
        arrived.state().is_closed = true;
        arrived.notify.notify_one();
    }
}
