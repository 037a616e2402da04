//! The engine at a server of NATS with JetStream.
//!
//! Used by `Pool::nats`.
//!
//! A pool `p` has three streams. `SEGUE_p_JOBS` is the queue: a job is the message
//! `segue.p.job.NAME.VERSION.ID`, which stays until it is acknowledged. Each kind of jobs has one
//! durable consumer there, which all workers of that kind share, and which delivers a message anew
//! that was not acknowledged in time. `KV_SEGUE_p_RESULTS` is the bucket of records, by id: a
//! record is published with the condition that its subject has no message yet, so the server
//! decides which is the first. `SEGUE_p_DEAD` has the dead letters, by id and the job's sequence
//! in the queue, under the same condition.
//!
//! Hints are plain messages, which no stream keeps: `segue.p.done.PREFIX` to one submitter,
//! `segue.p.done.key` to all, for jobs with a key; `segue.p.cancel` to all workers. So a submitter
//! has no consumer at the server, and nothing is left behind by one that goes.
//!
//! **Order.** A record is stored, then the job is acknowledged and the hint sent. A worker that
//! dies before the acknowledgement leaves a job that has a record; the next worker reads that,
//! since the delivery is not the first. Without a record in the bucket and a message in the queue
//! there will never be one.
//!
//! **An answer that does not come** says nothing: the publish may have happened. The caller repeats
//! the call. A job that is published twice has one message id, so the server drops the second, for
//! two minutes; after that its second execution finds the first one's record. A job with a key has
//! no message id, but the condition that its subject has no message.
//!
//! **Records stay** for their time, though their submitter has read them: a worker that was stopped
//! may end its job much later, and that result must find the first one.
//!
//! * `client.rs`: the operations; `shared.rs`: the requests that they are made of.
//! * `connection.rs`: the thread of the client, and the hints that come.
//! * `durability.rs`: how often the server syncs.
//! * `setup.rs`: streams, their settings, and subjects.
//! * `leases.rs`: pull requests; `inbox.rs`: the messages that have come.
//! * `wire.rs`: headers, and the server's errors.

mod client;
mod connection;
mod durability;
mod inbox;
mod leases;
mod setup;
mod shared;
mod wire;

pub(crate) use client::Nats;
