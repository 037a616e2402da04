//! The Redis protocol, beside a client.

use super::resp_grammar::{Reply, reply};
use super::{Grammar, Outcome};
use redis::Value as Theirs;
use segue_parse::{Error, Input, Refill};

/// A reply.
#[derive(Clone, Copy)]
pub struct Resp;

impl Grammar for Resp {
    type Value = Reply;
    fn parse<S: Refill>(self, input: &mut Input<S>) -> Result<Reply, Error> {
        reply(input)
    }

    /// The client also takes a number with a plus, other versions, and a line feed in a text.
    fn beside(self, input: &[u8], outcome: &Outcome<Self>) {
        if let Ok((ours, place)) = outcome {
            let theirs = redis::parse_redis_value(&input[..place.offset as usize]).unwrap();
            assert!(same(ours, &theirs), "{ours:?} {theirs:?}");
        }
    }
}

fn same(ours: &Reply, theirs: &Theirs) -> bool {
    match (ours, theirs) {
        (Reply::Nil, Theirs::Nil) => true,
        (Reply::Simple(text), Theirs::Okay) => text == "OK",
        (Reply::Simple(ours), Theirs::SimpleString(theirs)) => ours == theirs,
        (Reply::Integer(ours), Theirs::Int(theirs)) => ours == theirs,
        (Reply::Bulk(ours), Theirs::BulkString(theirs)) => ours == theirs,
        (Reply::Array(ours), Theirs::Array(theirs)) => {
            ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(ours, theirs)| same(ours, theirs))
        }
        (Reply::Error(text), Theirs::ServerError(error)) => {
            text.starts_with(error.code()) && text.ends_with(error.details().unwrap_or_default())
        }
        _ => false,
    }
}
