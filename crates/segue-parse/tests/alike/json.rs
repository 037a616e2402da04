//! JSON, beside serde_json.

use super::json_grammar::{Value, document};
use super::{Grammar, Outcome};
use segue_parse::{Error, Input, Refill};
use serde_json::Value as Theirs;

/// A document.
#[derive(Clone, Copy)]
pub struct Json;

impl Grammar for Json {
    type Value = Value;
    fn parse<S: Refill>(self, input: &mut Input<S>) -> Result<Value, Error> {
        document(input)
    }

    fn beside(self, input: &[u8], outcome: &Outcome<Self>) {
        // Of the depth the two have other limits.
        if matches!(outcome, Err(report) if report.contains("TooDeep")) {
            return;
        }
        let ours = outcome.clone().ok().map(|(value, _)| theirs(value));
        assert_eq!(ours, parsed_by_serde(input), "{}: {outcome:?}", input.escape_ascii());
    }
}

/// A value as serde_json has it: of names that come again the last one counts.
pub fn theirs(value: Value) -> Theirs {
    match value {
        Value::Null => Theirs::Null,
        Value::Bool(value) => value.into(),
        Value::Number(number) => number.into(),
        Value::String(text) => text.into(),
        Value::Array(values) => values.into_iter().map(theirs).collect(),
        Value::Object(members) => members.into_iter().map(|(name, value)| (name, theirs(value))).collect(),
    }
}

/// serde_json's value with all numbers rounded to `f64`, or its rejection.
pub fn parsed_by_serde(input: &[u8]) -> Option<Theirs> {
    fn rounded(value: Theirs) -> Theirs {
        match value {
            Theirs::Number(number) => number.as_f64().unwrap().into(),
            Theirs::Array(values) => values.into_iter().map(rounded).collect(),
            Theirs::Object(members) => members.into_iter().map(|(name, value)| (name, rounded(value))).collect(),
            other => other,
        }
    }
    serde_json::from_slice(input).ok().map(rounded)
}
