//! The name of a schedule: short text from which it is replayed.
//!
//! Printed by reports, and read from the environment.

use super::course::Strategy;
use super::strategies::{Pct, Random, Replay};
use std::fmt;
use std::str::FromStr;

/// A schedule, in the form in which reports name it.
///
/// | text | what it is |
/// | --- | --- |
/// | `random-7` | drawn from seed 7 |
/// | `pct-3-120-7` | by priorities, for bugs of depth 3, among 120 steps, from seed 7 |
/// | `choices-0.2.1` | these choices, where there is one, and then always the first |
/// | `plain` | always the first: the fiber that has waited longest, and nobody is preempted |
/// | `choices-0.2.1-7`, `plain-7` | the same, with the [random](segue_core::random) numbers of seed 7, and not of 0 |
///
/// # Examples
///
/// ```
/// use segue_sched::Schedule;
///
/// let schedule: Schedule = "pct-3-120-7".parse().unwrap();
/// assert_eq!(schedule, Schedule::Pct { depth: 3, steps: 120, seed: 7 });
/// assert_eq!(schedule.to_string(), "pct-3-120-7");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// Each choice is drawn from all that could go on.
    Random {
        /// What it is drawn from.
        seed: u64,
    },
    /// Random priorities, which change at `depth - 1` of the first `steps` steps.
    Pct {
        /// The depth of the bugs that it looks for.
        depth: u32,
        /// How many steps the program is thought to have.
        steps: u64,
        /// What priorities and changes are drawn from.
        seed: u64,
    },
    /// These choices, and 0 wherever there are more: at a preemption point to go on, elsewhere to
    /// run what was ready first.
    Choices {
        /// The choices.
        choices: Vec<u32>,
        /// What [random](segue_core::random) numbers follow from.
        seed: u64,
    },
}

impl Schedule {
    pub(crate) fn strategy(&self) -> Box<dyn Strategy> {
        match self {
            Self::Random { seed } => Box::new(Random::new(*seed)),
            Self::Pct { depth, steps, seed } => Box::new(Pct::new(*seed, *depth, *steps)),
            Self::Choices { choices, .. } => Box::new(Replay::new(choices.clone())),
        }
    }

    /// The seed of random numbers.
    pub(crate) fn seed(&self) -> u64 {
        let (Self::Random { seed } | Self::Pct { seed, .. } | Self::Choices { seed, .. }) = self;
        *seed
    }

    /// The choices, without those at the end that would be made anyway.
    pub(crate) fn of_choices(mut choices: Vec<u32>, seed: u64) -> Self {
        while choices.pop_if(|last| *last == 0).is_some() {}
        Self::Choices { choices, seed }
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Random { seed } => write!(f, "random-{seed}"),
            Self::Pct { depth, steps, seed } => write!(f, "pct-{depth}-{steps}-{seed}"),
            Self::Choices { choices, seed } => {
                match choices.is_empty() {
                    true => f.write_str("plain")?,
                    false => f.write_str("choices-")?,
                }
                let mut dot = "";
                choices.iter().try_for_each(|choice| write!(f, "{}{choice}", std::mem::replace(&mut dot, ".")))?;
                if *seed == 0 { Ok(()) } else { write!(f, "-{seed}") }
            }
        }
    }
}

/// Text that names no schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadSchedule(String);

impl fmt::Display for BadSchedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` names no schedule; write random-SEED, pct-DEPTH-STEPS-SEED, choices-0.2.1 or plain, as a report prints it",
            self.0
        )
    }
}

impl std::error::Error for BadSchedule {}

impl FromStr for Schedule {
    type Err = BadSchedule;

    fn from_str(text: &str) -> Result<Self, BadSchedule> {
        parse(text).ok_or_else(|| BadSchedule(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<Schedule> {
    if text == "plain" {
        return Some(Schedule::Choices { choices: Vec::new(), seed: 0 });
    }
    let (kind, rest) = text.split_once('-')?;
    Some(match kind {
        "random" => Schedule::Random { seed: rest.parse().ok()? },
        "pct" => {
            let mut parts = rest.splitn(3, '-');
            let depth = parts.next()?.parse().ok().filter(|depth| *depth > 0)?;
            let steps = parts.next()?.parse().ok()?;
            Schedule::Pct { depth, steps, seed: parts.next()?.parse().ok()? }
        }
        "plain" => Schedule::Choices { choices: Vec::new(), seed: rest.parse().ok()? },
        "choices" => {
            let (choices, seed) = match rest.split_once('-') {
                Some((choices, seed)) => (choices, seed.parse().ok()?),
                None => (rest, 0),
            };
            let choices = match choices {
                "" => Vec::new(),
                _ => choices.split('.').map(str::parse).collect::<Result<_, _>>().ok()?,
            };
            Schedule::Choices { choices, seed }
        }
        _ => return None,
    })
}
