//! Channels against a sequential model: random sequences of calls, of tasks that are polled and
//! dropped at each step, and of ends that come and go. After each step both agree.
//!
//! The model is the table in `channel/state.rs`, on plain lists: it says of each task whether it
//! waits, was served (and with what), or was told to look again.

use crate::meet;

use meet::Task;
use segue::channel::{Exclusive, Options, Receiver, Sender, TryRecvError, TrySendError};
use segue::{Closed, Rejected};
use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::Poll;

type Value = u32;

/// What a task of the test yields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Yield {
    Sent(Result<(), Value>),
    Received(Result<Value, Closed>),
    /// What became of the value for which room was reserved, if that was used.
    Reserved(Result<Option<Result<(), Value>>, Closed>),
}

/// Where a task of the model is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Waits,
    /// In its slot is a value, or room, or nothing any more.
    Served(Option<Value>),
    Told,
    /// It has polled, and has room.
    HasRoom,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Send(Value),
    Receive,
    Reserve,
}

type Id = usize;

#[derive(Default)]
struct Model {
    capacity: usize,
    buffer: VecDeque<Value>,
    /// What an exclusive receiver has taken.
    block: VecDeque<Value>,
    exclusive: bool,
    reserved: usize,
    closed: bool,
    reserver_next: bool,
    tasks: BTreeMap<Id, (Kind, At)>,
    receivers: VecDeque<Id>,
    senders: VecDeque<Id>,
    reservers: VecDeque<Id>,
}

impl Model {
    fn has_room(&self) -> bool {
        self.buffer.len() + self.reserved < self.capacity
    }

    fn serve(&mut self, id: Id, with: Option<Value>) {
        self.tasks.get_mut(&id).unwrap().1 = At::Served(with);
    }

    fn value_of(&self, id: Id) -> Value {
        match self.tasks[&id].0 {
            Kind::Send(value) => value,
            other => unreachable!("{other:?} has no value"),
        }
    }

    fn hand_over(&mut self, value: Value) -> bool {
        let first = self.receivers.pop_front();
        first.inspect(|id| self.serve(*id, Some(value))).is_some()
    }

    fn refill(&mut self) {
        if self.senders.is_empty() && self.reservers.is_empty() {
            return; // Whose turn it is stays as it is.
        }
        while self.has_room() {
            let reserver_next = std::mem::take(&mut self.reserver_next);
            let sender = if reserver_next && !self.reservers.is_empty() { None } else { self.senders.pop_front() };
            if let Some(id) = sender {
                self.serve(id, None);
                self.buffer.push_back(self.value_of(id));
                self.reserver_next = true;
            } else if let Some(id) = self.reservers.pop_front() {
                self.serve(id, None);
                self.reserved += 1;
            } else {
                return;
            }
        }
    }

    fn send(&mut self, value: Value) -> Result<(), TrySendError> {
        if self.closed {
            return Err(TrySendError::Closed);
        }
        if !self.hand_over(value) {
            if !self.has_room() {
                return Err(TrySendError::Full);
            }
            self.buffer.push_back(value);
        }
        Ok(())
    }

    fn receive(&mut self) -> Result<Value, TryRecvError> {
        if let Some(value) = self.block.pop_front() {
            return Ok(value);
        }
        if self.exclusive && self.buffer.len() > 1 {
            self.block = std::mem::take(&mut self.buffer);
            self.refill();
            return Ok(self.block.pop_front().unwrap());
        }
        if let Some(value) = self.buffer.pop_front() {
            self.refill();
            return Ok(value);
        }
        if let Some(id) = self.senders.pop_front() {
            self.serve(id, None);
            return Ok(self.value_of(id));
        }
        Err(if self.closed { TryRecvError::Closed } else { TryRecvError::Empty })
    }

    fn unreserve(&mut self, value: Option<Value>) -> Result<(), Value> {
        self.reserved -= 1;
        if self.closed {
            return value.map_or(Ok(()), Err);
        }
        if let Some(value) = value
            && !self.hand_over(value)
        {
            self.buffer.push_back(value);
        }
        self.refill();
        Ok(())
    }

    fn close(&mut self) -> bool {
        for list in [&mut self.receivers, &mut self.senders, &mut self.reservers] {
            list.drain(..).for_each(|id| self.tasks.get_mut(&id).unwrap().1 = At::Told);
        }
        !std::mem::replace(&mut self.closed, true)
    }

    /// A look of a task, which waits if it is in vain.
    fn look(&mut self, id: Id, kind: Kind) -> Option<Yield> {
        let seen = match kind {
            Kind::Send(value) => match self.send(value) {
                Ok(()) => Some(Yield::Sent(Ok(()))),
                Err(TrySendError::Closed) => Some(Yield::Sent(Err(value))),
                Err(TrySendError::Full) => None,
            },
            Kind::Receive => match self.receive() {
                Ok(value) => Some(Yield::Received(Ok(value))),
                Err(TryRecvError::Closed) => Some(Yield::Received(Err(Closed))),
                Err(TryRecvError::Empty) => None,
            },
            Kind::Reserve if self.closed => Some(Yield::Reserved(Err(Closed))),
            Kind::Reserve if self.has_room() => {
                self.reserved += 1;
                self.tasks.insert(id, (kind, At::HasRoom));
                return None;
            }
            Kind::Reserve => None,
        };
        match seen {
            Some(_) => drop(self.tasks.remove(&id)),
            None => {
                self.tasks.insert(id, (kind, At::Waits));
                self.list(kind).push_back(id);
            }
        }
        seen
    }

    fn list(&mut self, kind: Kind) -> &mut VecDeque<Id> {
        match kind {
            Kind::Send(_) => &mut self.senders,
            Kind::Receive => &mut self.receivers,
            Kind::Reserve => &mut self.reservers,
        }
    }

    fn poll(&mut self, id: Id) -> Option<Yield> {
        let (kind, at) = self.tasks[&id];
        let done = match (kind, at) {
            (_, At::Waits | At::HasRoom) => return None,
            (Kind::Reserve, _) if self.closed => Yield::Reserved(Err(Closed)),
            (Kind::Reserve, At::Served(_)) => {
                self.tasks.insert(id, (kind, At::HasRoom));
                return None;
            }
            (Kind::Send(_), At::Served(_)) => Yield::Sent(Ok(())),
            (Kind::Receive, At::Served(value)) => Yield::Received(Ok(value.unwrap())),
            (_, At::Told) => return self.look(id, kind),
        };
        self.tasks.remove(&id);
        Some(done)
    }

    /// The task is dropped, or uses its room first.
    fn end(&mut self, id: Id, uses: Option<Value>) -> Option<Result<(), Value>> {
        let (kind, at) = self.tasks.remove(&id).unwrap();
        match (kind, at) {
            (_, At::Waits) => self.list(kind).retain(|other| *other != id),
            (Kind::Reserve, At::HasRoom) => {
                let used = self.unreserve(uses);
                return uses.map(|_| used);
            }
            (Kind::Reserve, At::Served(_)) if !self.closed => _ = self.unreserve(None),
            (Kind::Receive, At::Served(Some(value))) if !self.hand_over(value) => self.buffer.push_front(value),
            _ => {}
        }
        None
    }
}

/// An exclusive receiver, on loan to one task at a time.
struct Lent(Option<Exclusive<Value>>, Home);

type Home = Arc<Mutex<Option<Exclusive<Value>>>>;

impl Drop for Lent {
    fn drop(&mut self) {
        *self.1.lock().unwrap() = self.0.take();
    }
}

/// What a task does with its room, once it is told.
type Uses = Arc<Mutex<Option<Value>>>;

/// The real channel, and the tasks on it.
struct Real {
    senders: Vec<Arc<Sender<Value>>>,
    receivers: Vec<Arc<Receiver<Value>>>,
    exclusive: Home,
    tasks: BTreeMap<Id, (Task<'static, Yield>, Uses)>,
    undelivered: Arc<Mutex<Vec<Value>>>,
}

impl Real {
    fn new(capacity: usize) -> Self {
        let undelivered = Arc::<Mutex<Vec<Value>>>::default();
        let sees = undelivered.clone();
        let builder = if capacity == usize::MAX { Options::unbounded() } else { Options::bounded(capacity) };
        let (sender, receiver) = builder.on_undelivered(move |value| sees.lock().unwrap().push(value)).build();
        let (senders, receivers) = (vec![Arc::new(sender)], vec![Arc::new(receiver)]);
        Self { senders, receivers, exclusive: Home::default(), tasks: BTreeMap::new(), undelivered }
    }

    fn start(&mut self, id: Id, kind: Kind, pick: usize) {
        let uses = Uses::default();
        let sender = || Arc::clone(&self.senders[pick % self.senders.len()]);
        let task = match kind {
            Kind::Send(value) => {
                let sender = sender();
                Task::new(Box::pin(async move {
                    let mut sending = sender.send_source(value);
                    let sent = sending.by_ref().await;
                    Yield::Sent(sent.map_err(|Closed| sending.into_value().expect("it was not sent")))
                }))
            }
            Kind::Reserve => {
                let (sender, uses) = (sender(), uses.clone());
                Task::new(Box::pin(async move {
                    let Ok(room) = sender.reserve_source().await else { return Yield::Reserved(Err(Closed)) };
                    let used = || uses.lock().unwrap().take().map_or(Poll::Pending, Poll::Ready);
                    let value = poll_fn(|_| used()).await;
                    Yield::Reserved(Ok(Some(room.send(value).map_err(|Rejected { value, .. }| value))))
                }))
            }
            Kind::Receive if self.receivers.is_empty() => {
                let exclusive = self.exclusive.lock().unwrap().take();
                let mut lent = Lent(exclusive, Arc::clone(&self.exclusive));
                Task::new(Box::pin(async move {
                    let exclusive = lent.0.as_mut().expect("one task has it");
                    Yield::Received(exclusive.recv_source().await)
                }))
            }
            Kind::Receive => {
                let receiver = Arc::clone(&self.receivers[pick % self.receivers.len()]);
                Task::new(Box::pin(async move { Yield::Received(receiver.recv_source().await) }))
            }
        };
        self.tasks.insert(id, (task, uses));
    }

    fn poll(&mut self, id: Id) -> Option<Yield> {
        let done = self.tasks.get_mut(&id).unwrap().0.poll();
        done.inspect(|_| drop(self.tasks.remove(&id)))
    }
}

/// How often each outcome was reached.
#[derive(Default)]
struct Reached(BTreeMap<&'static str, usize>);

impl Reached {
    fn note(&mut self, outcome: &'static str) {
        *self.0.entry(outcome).or_default() += 1;
    }
}

fn draws(seed: u64) -> impl FnMut(usize) -> usize {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    move |bound| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % bound
    }
}

/// One sequence of calls.
fn agree(capacity: usize, exclusive: bool, seed: u64, reached: &mut Reached) {
    let mut draw = draws(seed);
    let (mut real, mut model) = (Real::new(capacity), Model { capacity, exclusive, ..Model::default() });
    if exclusive {
        let receiver = Arc::into_inner(real.receivers.pop().unwrap()).unwrap();
        *real.exclusive.lock().unwrap() = Some(receiver.into_exclusive().unwrap());
    }
    let mut next = 0;
    for step in 0..60 {
        next += 1;
        let context = || format!("capacity {capacity}, exclusive {exclusive}, seed {seed}, step {step}");
        let (id, pick) = (step, draw(100));
        let any_task = real.tasks.keys().nth(pick % real.tasks.len().max(1)).copied();
        let free_exclusive = real.exclusive.lock().unwrap().is_some();
        match draw(24) {
            call @ 0..9 => {
                let kind = match call {
                    0..4 => Kind::Send(next),
                    4..8 => Kind::Receive,
                    _ if capacity == 0 => continue,
                    _ => Kind::Reserve,
                };
                if kind == Kind::Receive && exclusive && !free_exclusive {
                    continue;
                }
                real.start(id, kind, pick);
                assert_eq!(real.poll(id), model.look(id, kind), "{} {kind:?}", context());
                reached.note(if model.tasks.contains_key(&id) { "waits" } else { "at once" });
            }
            9..14 => {
                let Some(id) = any_task else { continue };
                let at = model.tasks[&id].1;
                let yields = real.poll(id);
                assert_eq!(yields, model.poll(id), "{} poll {id}", context());
                reached.note(match (at, yields) {
                    (At::Served(_), Some(Yield::Sent(Ok(())))) => "served sender",
                    (At::Served(_), Some(Yield::Received(Ok(_)))) => "served receiver",
                    (At::Served(_), None) => "served reserver",
                    (At::Served(_), Some(Yield::Reserved(Err(Closed)))) => "closed after it was served",
                    (At::Told, Some(Yield::Sent(Err(_)))) => "sender told of the end",
                    (At::Told, Some(Yield::Received(Err(Closed)))) => "receiver told of the end",
                    (At::Told, Some(Yield::Received(Ok(_)))) => "what came back after the end",
                    (At::Told, Some(Yield::Reserved(_))) => "reserver told of the end",
                    (_, None) => "polled in vain",
                    other => panic!("{} {other:?}", context()),
                });
            }
            14 => {
                let Some(id) = any_task else { continue };
                let uses = (pick % 2 == 0).then_some(next);
                reached.note(match model.tasks[&id] {
                    (_, At::Waits) => "dropped while it waits",
                    (Kind::Send(_), At::Served(_)) => "dropped sender had sent",
                    (Kind::Receive, At::Served(_)) => "dropped receiver gives back",
                    (Kind::Reserve, At::Served(_)) => "dropped reserver gives back",
                    (Kind::Reserve, At::HasRoom) if uses.is_some() => "room used",
                    (Kind::Reserve, At::HasRoom) => "room dropped",
                    _ => "told and dropped",
                });
                let used = if model.tasks[&id].1 == At::HasRoom { uses } else { None };
                *real.tasks[&id].1.lock().unwrap() = used;
                let expected = model.end(id, used).map(|used| Yield::Reserved(Ok(Some(used))));
                let yields = if used.is_some() { real.poll(id) } else { None };
                assert_eq!(yields, expected, "{} end of {id}", context());
                drop(real.tasks.remove(&id));
            }
            15..17 => {
                let sent = real.senders[0].try_send(next).map_err(|Rejected { value, error }| {
                    assert_eq!(value, next);
                    error
                });
                assert_eq!(sent, model.send(next), "{} try_send", context());
                reached.note(match sent {
                    Ok(()) => "try_send",
                    Err(TrySendError::Full) => "full",
                    Err(TrySendError::Closed) => "closed",
                });
            }
            17..19 => {
                let received = match &mut *real.exclusive.lock().unwrap() {
                    Some(exclusive) => exclusive.try_recv(),
                    None if exclusive => continue,
                    None => real.receivers[0].try_recv(),
                };
                assert_eq!(received, model.receive(), "{} try_recv", context());
                reached.note(match received {
                    Ok(_) => "try_recv",
                    Err(TryRecvError::Empty) => "empty",
                    Err(TryRecvError::Closed) => "received all",
                });
            }
            19 => real.senders.push(Arc::new(Sender::clone(&real.senders[0]))),
            20 if !exclusive => real.receivers.push(Arc::new(Receiver::clone(&real.receivers[0]))),
            // What a task uses lives on.
            21 if real.senders.len() > 1 => drop(real.senders.pop()),
            22 if real.receivers.len() > 1 => drop(real.receivers.pop()),
            23 if pick < 10 => {
                let closed = if pick < 5 || exclusive { real.senders[0].close() } else { real.receivers[0].close() };
                assert_eq!(closed, model.close(), "{} close", context());
                reached.note("close");
            }
            _ => {}
        }
        let sender = &real.senders[0];
        assert_eq!((sender.len(), sender.is_closed()), (model.buffer.len(), model.closed), "{}", context());
        assert!(model.closed || sender.is_full() != model.has_room(), "{}", context());
        for (id, (task, _)) in &real.tasks {
            // Who has room was served at the first poll, or was woken before it.
            if model.tasks[id].1 != At::HasRoom {
                assert_eq!(task.wakes() > 0, model.tasks[id].1 != At::Waits, "{} task {id}", context());
            }
        }
    }
    // All tasks go, and then all ends: what is left is undelivered, in its order.
    for id in real.tasks.keys().copied().collect::<Vec<_>>() {
        model.end(id, None);
        drop(real.tasks.remove(&id));
    }
    model.block.extend(model.buffer.drain(..));
    real.receivers.clear();
    drop(real.exclusive.lock().unwrap().take());
    assert_eq!(model.block, *real.undelivered.lock().unwrap(), "capacity {capacity}, seed {seed}");
    assert!(real.senders.iter().all(|sender| sender.is_closed() && sender.is_empty()));
}

#[test]
fn random_sequences_of_calls_do_what_the_model_does() {
    let sequences = if cfg!(miri) { 5 } else { 3000 };
    let mut reached = Reached::default();
    for capacity in [0, 1, 3, usize::MAX] {
        for exclusive in [false, true] {
            (0..sequences).for_each(|seed| agree(capacity, exclusive, seed, &mut reached));
        }
    }
    println!("{:#?}", reached.0);
    assert_eq!(reached.0.len(), 25, "an outcome was not reached");
    assert!(cfg!(miri) || reached.0.values().all(|count| *count > 20));
}
