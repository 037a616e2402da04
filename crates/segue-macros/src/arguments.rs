//! The arguments of the attribute, and the exploration that they ask for.
//!
//! Used by the attribute. Each is `name = value`, in any order, each at most once.

use super::Error;
use proc_macro::{Delimiter, Group, Span, TokenStream, TokenTree};
use std::iter::Peekable;

/// How many schedules are tried if nothing is said.
const SCHEDULES: u64 = 200;

const NAMES: &str = "there are `policy`, `schedules`, `seed`, `leaks` and `preempt`";
const POLICIES: &str = "there are `random`, `pct(depth)`, `exhaustive(limit)` and `plain`";

type Tokens = Peekable<proc_macro::token_stream::IntoIter>;

/// What was said, with the place where it was.
#[derive(Default)]
struct Arguments {
    policy: Option<(Span, Policy)>,
    schedules: Option<(Span, u64)>,
    seed: Option<(Span, u64)>,
    leaks: Option<(Span, bool)>,
    preempt: Option<(Span, bool)>,
}

#[derive(Clone, Copy)]
enum Policy {
    Random,
    Pct(u64),
    Exhaustive(u64),
    Plain,
}

/// The expression that makes the exploration, in text.
pub(crate) fn parse(tokens: TokenStream) -> Result<String, Error> {
    let mut arguments = Arguments::default();
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        arguments.accept(token, &mut tokens)?;
        match tokens.next() {
            None => break,
            Some(TokenTree::Punct(comma)) if comma.as_char() == ',' => {}
            Some(other) => return Err(Error::new(other.span(), "expected a comma")),
        }
    }
    arguments.explore()
}

impl Arguments {
    fn accept(&mut self, name: TokenTree, tokens: &mut Tokens) -> Result<(), Error> {
        let span = name.span();
        let name = name.to_string();
        if !["policy", "schedules", "seed", "leaks", "preempt"].contains(&name.as_str()) {
            return Err(Error::new(span, format!("`{name}` is no argument of `segue::test`; {NAMES}")));
        }
        match tokens.next() {
            Some(TokenTree::Punct(equals)) if equals.as_char() == '=' => {}
            _ => return Err(Error::new(span, format!("`{name}` takes a value: `{name} = ...`"))),
        }
        let value = tokens.next().ok_or_else(|| Error::new(span, format!("`{name}` takes a value: `{name} = ...`")))?;
        let first = match name.as_str() {
            "policy" => self.policy.replace((span, policy(&value, tokens)?)).is_none(),
            "schedules" => self.schedules.replace((span, number(&value, 1, "the number of schedules")?)).is_none(),
            "seed" => self.seed.replace((span, number(&value, 0, "a seed")?)).is_none(),
            "leaks" => self.leaks.replace((span, one_of(&value, ["allow", "forbid"])?)).is_none(),
            _ => self.preempt.replace((span, one_of(&value, ["false", "true"])?)).is_none(),
        };
        if first { Ok(()) } else { Err(Error::new(span, format!("`{name}` is there twice"))) }
    }

    fn explore(&self) -> Result<String, Error> {
        let schedules = self.schedules.map_or(SCHEDULES, |(_, schedules)| schedules);
        let drawn = |argument: Option<(Span, u64)>, why| argument.map_or(Ok(()), |(at, _)| Err(Error::new(at, why)));
        let mut explore = match self.policy.map_or(Policy::Random, |(_, policy)| policy) {
            Policy::Random => format!("random({schedules})"),
            Policy::Pct(depth) => format!("pct({depth}, {schedules})"),
            Policy::Plain => {
                drawn(self.schedules, "`plain` is one schedule")?;
                drawn(self.seed, "`plain` draws nothing: it has no seed")?;
                "plain()".to_owned()
            }
            Policy::Exhaustive(limit) => {
                drawn(self.schedules, "`exhaustive(limit)` says itself how many schedules are tried at most")?;
                drawn(self.seed, "`exhaustive(limit)` draws nothing: it has no seed")?;
                format!("exhaustive({limit})")
            }
        };
        if let Some((_, seed)) = self.seed {
            explore += &format!(".seed({seed})");
        }
        if let Some((_, true)) = self.leaks {
            explore += ".leaks(::segue::sched::Leaks::Forbid)";
        }
        if let Some((_, false)) = self.preempt {
            explore += ".preemptive(false)";
        }
        Ok(format!("::segue::sched::Explore::{explore}"))
    }
}

fn policy(name: &TokenTree, tokens: &mut Tokens) -> Result<Policy, Error> {
    let group = match tokens.peek() {
        Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Parenthesis => Some(group.clone()),
        _ => None,
    };
    if group.is_some() {
        tokens.next();
    }
    match (name.to_string().as_str(), group) {
        ("random", None) => Ok(Policy::Random),
        ("random", Some(group)) => {
            Err(Error::new(group.span(), "`random` takes no argument; say `schedules = ...` beside it"))
        }
        ("plain", None) => Ok(Policy::Plain),
        ("plain", Some(group)) => Err(Error::new(group.span(), "`plain` takes no argument")),
        ("pct", group) => {
            let depth = only(name, group, "pct(depth)", "the depth of the bugs that are looked for")?;
            // A greater one is a mistake: each further step of depth divides the probability by the
            // length of the program.
            if depth.1 > 100 { Err(Error::new(depth.0, "a depth is at most 100")) } else { Ok(Policy::Pct(depth.1)) }
        }
        ("exhaustive", group) => only(name, group, "exhaustive(limit)", "the limit of an exhaustive search")
            .map(|limit| Policy::Exhaustive(limit.1)),
        (other, _) => Err(Error::new(name.span(), format!("`{other}` is no policy of `segue::test`; {POLICIES}"))),
    }
}

/// The one number in the parentheses.
fn only(name: &TokenTree, group: Option<Group>, form: &str, what: &str) -> Result<(Span, u64), Error> {
    let wrong = |span| Error::new(span, format!("write `{form}`, with a number"));
    let group = group.ok_or_else(|| wrong(name.span()))?;
    let mut inside = group.stream().into_iter();
    let value = inside.next().ok_or_else(|| wrong(group.span()))?;
    match inside.next() {
        None => Ok((value.span(), number(&value, 1, what)?)),
        Some(more) => Err(wrong(more.span())),
    }
}

fn number(value: &TokenTree, least: u64, what: &str) -> Result<u64, Error> {
    let text = value.to_string().replace('_', "");
    let text = text.strip_suffix("u64").unwrap_or(&text);
    let number = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    let number = number.ok().filter(|number| *number >= least);
    number
        .ok_or_else(|| Error::new(value.span(), format!("{what} is a whole number from {least} on, and not `{value}`")))
}

/// Whether it is the second of two words.
fn one_of(value: &TokenTree, words: [&str; 2]) -> Result<bool, Error> {
    let text = value.to_string();
    let index = words.iter().position(|word| *word == text);
    index.map(|index| index == 1).ok_or_else(|| {
        Error::new(value.span(), format!("expected `{}` or `{}`, and not `{value}`", words[0], words[1]))
    })
}
