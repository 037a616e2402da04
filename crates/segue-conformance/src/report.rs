//! What a case is, and what is said when it has run.
//!
//! Used by the suite, which fills a report in, and by harnesses that list cases or read one.

use crate::probe::{Need, Probe, Violation};
use std::fmt;

/// One program that runs on the scheduler under test, and the clauses that it looks at.
pub struct Case {
    /// What it is called by.
    pub name: &'static str,
    /// The clauses of `docs/contract.md` that it checks.
    pub clauses: &'static [&'static str],
    /// What is to hold, in a sentence.
    pub about: &'static str,
    pub(crate) needs: &'static [Need],
    run: fn(&Probe),
    /// Whether `run` is to be called around a run, on a plain thread, and not as the first fiber.
    around: bool,
}

impl Case {
    /// What the first fiber does.
    pub(crate) const fn new(name: &'static str, run: fn(&Probe)) -> Self {
        Self { name, clauses: &[], about: "", needs: &[], run, around: false }
    }

    /// What calls [`Probe::run`] itself.
    pub(crate) const fn around(name: &'static str, run: fn(&Probe)) -> Self {
        Self { around: true, ..Self::new(name, run) }
    }

    pub(crate) const fn checks(self, clauses: &'static [&'static str], about: &'static str) -> Self {
        Self { clauses, about, ..self }
    }

    pub(crate) const fn needs(self, needs: &'static [Need]) -> Self {
        Self { needs, ..self }
    }

    pub(crate) fn run(&self, probe: &Probe) {
        if self.around { (self.run)(probe) } else { probe.run(self.run) }
    }
}

segue_core::impl_debug!([] Case, |it| name: it.name, clauses: it.clauses);

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.clause {
            Some(clause) => write!(f, "clause {clause}: {}", self.seen),
            None => write!(f, "no clause by name: {}", self.seen),
        }
    }
}

/// How a case ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing was seen broken.
    Passed,
    /// This was.
    Failed(Vec<Violation>),
    /// The scheduler is not of a kind that the case speaks of; why.
    Skipped(&'static str),
}

/// How all cases ended. Its `Display` is what a failed [`Suite::check`](super::Suite::check) says.
#[derive(Debug)]
pub struct Report {
    pub(crate) scheduler: String,
    pub(crate) results: Vec<(&'static Case, Verdict)>,
}

impl Report {
    /// Each case that was asked for, with its end.
    pub fn results(&self) -> impl Iterator<Item = (&'static Case, &Verdict)> {
        self.results.iter().map(|(case, verdict)| (*case, verdict))
    }

    /// What was seen broken, and by which case.
    pub fn violations(&self) -> impl Iterator<Item = (&'static Case, &Violation)> {
        self.results().flat_map(|(case, verdict)| {
            let violations: &[Violation] = match verdict {
                Verdict::Failed(violations) => violations,
                _ => &[],
            };
            violations.iter().map(move |violation| (case, violation))
        })
    }

    /// Whether no clause was seen broken.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.violations().next().is_none()
    }

    /// Returns if no clause was seen broken.
    ///
    /// # Panics
    /// With the report if one was.
    #[track_caller]
    pub fn unwrap(&self) {
        assert!(self.passed(), "{self}");
    }

    fn count(&self, is: impl Fn(&Verdict) -> bool) -> usize {
        self.results().filter(|(_, verdict)| is(verdict)).count()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let passed = self.count(|verdict| *verdict == Verdict::Passed);
        let failed = self.count(|verdict| matches!(verdict, Verdict::Failed(_)));
        let skipped = self.count(|verdict| matches!(verdict, Verdict::Skipped(_)));
        let judgement = if failed == 0 { "was not seen to break" } else { "breaks" };
        writeln!(f, "`{}` {judgement} the contract (docs/contract.md)", self.scheduler)?;
        writeln!(f, "{passed} cases passed, {failed} failed, {skipped} do not apply")?;
        for (case, verdict) in self.results() {
            match verdict {
                Verdict::Passed => {}
                Verdict::Skipped(why) => writeln!(f, "  skipped {}: {why}", case.name)?,
                Verdict::Failed(violations) => {
                    writeln!(f, "  FAILED {} ({}): {}", case.name, case.clauses.join(", "), case.about)?;
                    for violation in violations {
                        writeln!(f, "    {violation}")?;
                    }
                }
            }
        }
        Ok(())
    }
}
