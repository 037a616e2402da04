//! The table of cases, as `cases.txt` has it, and what one of them makes of a run.

use crate::run::{Observed, Reply};
use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Must,
    Should,
    May,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Level::Must => "MUST",
            Level::Should => "SHOULD",
            Level::May => "MAY",
        })
    }
}

pub struct Case {
    pub group: String,
    pub name: String,
    pub level: Level,
    pub section: String,
    pub request: Vec<u8>,
    /// Nothing follows the request.
    pub alone: bool,
    /// Which final responses answer HEAD requests.
    pub head: Option<usize>,
    acceptable: Vec<Way>,
}

#[derive(Default)]
struct Way {
    statuses: Vec<u16>,
    any_4xx: bool,
    no_response: bool,
    next: bool,
    shut: bool,
    count: Option<usize>,
    last: Option<u16>,
    full: bool,
    bare: bool,
    interim: Option<bool>,
    has: Vec<Vec<u8>>,
    not: Vec<Vec<u8>>,
    once: Vec<Vec<u8>>,
    order: Vec<Vec<u8>>,
}

/// Reads the table.
pub fn parse(text: &str) -> Vec<Case> {
    let mut group = "";
    let mut cases = Vec::new();
    // The head comment ends with the first empty line.
    for line in text.lines().skip_while(|line| !line.is_empty()) {
        if let Some(heading) = line.strip_prefix("# ") {
            group = heading;
        } else if !line.is_empty() {
            cases.push(Case::parse(group, line));
        }
    }
    cases
}

impl Case {
    pub fn parse(group: &str, line: &str) -> Case {
        let parts: Vec<&str> = line.splitn(5, " | ").collect();
        let &[level, section, acceptable, name, request] = &parts[..] else { panic!("a case has five parts: {line}") };
        let mut case = Case {
            group: group.to_owned(),
            name: name.to_owned(),
            level: match level.trim() {
                "MUST" => Level::Must,
                "SHOULD" => Level::Should,
                "MAY" => Level::May,
                other => panic!("no level: {other}"),
            },
            section: section.trim().to_owned(),
            request: expand(request),
            alone: false,
            head: None,
            acceptable: Vec::new(),
        };
        let mut way = None;
        for word in acceptable.split(' ') {
            match word {
                "or" => case.acceptable.extend(way.take()),
                "alone" => case.alone = true,
                "head" => case.head = Some(0),
                "head@1" => case.head = Some(1),
                word => match &mut way {
                    None => way = Some(Way::new(word)),
                    Some(way) => way.add(word),
                },
            }
        }
        case.acceptable.extend(way);
        case
    }

    /// Whether what was seen is acceptable; if not, what was seen.
    pub fn judge(&self, seen: &Result<Observed, String>) -> Result<(), String> {
        let seen = seen.as_ref().map_err(Clone::clone)?;
        seen.is_sane()?;
        let fits = self.acceptable.iter().any(|way| way.fits(seen, self.alone));
        if fits { Ok(()) } else { Err(seen.to_string()) }
    }
}

impl Way {
    fn new(statuses: &str) -> Way {
        let mut way = Way::default();
        for status in statuses.split(',') {
            match status {
                "none" => way.no_response = true,
                "4xx" => way.any_4xx = true,
                code => way.statuses.push(code.parse().unwrap_or_else(|_| panic!("no status: {code}"))),
            }
        }
        way
    }

    fn add(&mut self, word: &str) {
        let plain = |text: &str| expand(&text.replace('_', " ")).to_ascii_lowercase();
        match word.split_once('=') {
            None => match word {
                "next" => self.next = true,
                "shut" => self.shut = true,
                "full" => self.full = true,
                "bare" => self.bare = true,
                "100" => self.interim = Some(true),
                "no100" => self.interim = Some(false),
                other => panic!("not known: {other}"),
            },
            Some(("n", count)) => self.count = Some(count.parse().unwrap()),
            Some(("last", status)) => self.last = Some(status.parse().unwrap()),
            Some(("has", text)) => self.has.push(plain(text)),
            Some(("not", text)) => self.not.push(plain(text)),
            Some(("once", text)) => self.once.push(plain(text)),
            Some(("order", texts)) => self.order = texts.split(',').map(plain).collect(),
            Some((other, _)) => panic!("not known: {other}"),
        }
    }

    fn fits(&self, seen: &Observed, alone: bool) -> bool {
        let finals: Vec<&Reply> = seen.finals().collect();
        let Some(first) = finals.first() else {
            return self.no_response && (alone || seen.closed) && self.fits_output(seen);
        };
        let status = first.status;
        let count = self.count.unwrap_or(1);
        let probe_answered = finals.last().is_some_and(|reply| reply.answers_probe());
        (self.statuses.contains(&status) || (self.any_4xx && (400..500).contains(&status)))
            && (!self.next || (finals.len() == count + 1 && probe_answered))
            && (!self.shut || (finals.len() == count && !probe_answered && (alone || seen.closed)))
            && finals.len() <= count + 1
            && self.last.is_none_or(|last| finals.get(count - 1).is_some_and(|reply| reply.status == last))
            && (!self.full || !first.body.is_empty())
            && (!self.bare || first.body.is_empty())
            && self.fits_output(seen)
    }

    fn fits_output(&self, seen: &Observed) -> bool {
        let output = seen.output.to_ascii_lowercase();
        let count = |text: &Vec<u8>| output.windows(text.len()).filter(|window| *window == text).count();
        let mut bodies = seen.finals().map(|reply| reply.body.to_ascii_lowercase());
        self.interim.is_none_or(|wanted| seen.replies.iter().any(|reply| reply.status == 100) == wanted)
            && self.has.iter().all(|text| count(text) > 0)
            && self.not.iter().all(|text| count(text) == 0)
            && self.once.iter().all(|text| count(text) == 1)
            // Each is looked for behind the body that had the one before it.
            && self.order.iter().all(|text| bodies.any(|body| body.windows(text.len()).any(|window| window == text)))
    }
}

/// The octets that a text of the table stands for.
fn expand(text: &str) -> Vec<u8> {
    let mut octets = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        rest = &rest[first.len_utf8()..];
        match first {
            '~' => octets.extend(b"\r\n"),
            '{' => {
                let (inside, after) = rest.split_once('}').expect("a brace is closed");
                let (count, repeated) = inside.split_once('*').expect("how often, and what");
                octets.extend(expand(repeated).repeat(count.parse().expect("how often")));
                rest = after;
            }
            '\\' => {
                let kind = rest.chars().next().expect("what is escaped");
                rest = &rest[1..];
                octets.push(match kind {
                    'r' => b'\r',
                    'n' => b'\n',
                    't' => b'\t',
                    '0' => 0,
                    '\\' => b'\\',
                    'x' => {
                        let octet = u8::from_str_radix(&rest[..2], 16).expect("two digits");
                        rest = &rest[2..];
                        octet
                    }
                    other => panic!("no such escape: {other}"),
                });
            }
            other => {
                assert!(other.is_ascii(), "others than ASCII are written as octets");
                octets.push(other as u8);
            }
        }
    }
    octets
}
