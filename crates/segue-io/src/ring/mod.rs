mod files;
mod flight;
mod flying;
mod limited;
mod queues;
mod request;
mod setup;

pub(crate) use files::{CURSOR, FileRequest, Flown, Landed, OpenHow, StatRoom};
pub(crate) use flying::{LazyRing, Ring};
pub(crate) use limited::Limited;
pub(crate) use request::{Answer, Request};
