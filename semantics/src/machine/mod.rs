//! The abstract machine of "Retrofitting Effect Handlers onto OCaml" (2021), section "Semantics",
//! as code that can be read beside it.
//!
//! Used by the check of the runtime against it ([`crate::check`]), and by people who want to know
//! what a program with handlers means.
//!
//! It is a CEK machine whose continuation is a stack of stacks ([`config`]). A rule is a function
//! of its name: it takes the parts of a configuration that the paper's rule names on its left, and
//! answers the configuration on the right, or nothing where the rule does not apply. In every
//! configuration at most one rule applies ([`applicable`] lists them, so that this can be tested);
//! where none does, the program has ended or is stuck.
//!
//! ```text
//! StepC   || t, env, [fs, w]c ||  ->  configuration        if (t, env, fs, w) -c-> configuration          c.rs
//! StepO   || t, env, [k, g]o ||   ->  configuration        if (t, env, k, g) -o-> configuration           ocaml.rs, segue.rs
//! AdminC, AdminO: (t, env, fs) ~> (t', env', fs') on the topmost frames of either                         admin.rs
//! ```
//!
//! # Two modes
//!
//! | | [`Mode::Paper`] | [`Mode::Segue`] |
//! | --- | --- | --- |
//! | C's frames | on a stack of their own | on the fiber, between marks |
//! | an effect performed in a callback from C | does not pass C: `Unhandled` there | goes on to the handlers beyond C, and captures C's frames |
//! | a continuation | can be resumed any number of times, from copies of its frames | once; then `Already_resumed` |
//! | a continuation that nobody resumes | is leaked | is leaked by the machine, discontinued by the runtime ([`crate::observe`] says how the two are compared) |
//!
//! The main function of a program is called from C in both modes, and Segue's fibers stand over
//! that one C stack. A program that does neither perform across C nor resume twice means the same
//! in both.
//!
//! # What is not in the paper
//!
//! Events: what `EffHn`, `EffUnHn`, `ExnHn`, `RetFib` and `Resume` did, for comparison with the
//! runtime. A flag in each continuation, which is set after the step that resumes it. Numbers that
//! wrap around, and no result for a division by zero.

pub mod config;

mod admin;
mod c;
mod ocaml;
mod segue;

use std::rc::Rc;

use config::{Captured, Config, Frame, OStack, Stack, Value};

use crate::observe::{Event, Observed, Outcome};
use crate::syntax::Expr;

/// Whose semantics. The module's documentation has the differences.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// As printed.
    Paper,
    /// As the runtime has it.
    Segue,
}

macro_rules! rules {
    ($($rule:ident),* $(,)?) => {
        /// The name of a rule. Those that end in `Here` and `ResumeAgain` are Segue's.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs)] // The function of each rule says what it does.
        pub enum Rule { $($rule),* }

        impl Rule {
            /// All rules of both modes. `StepC`, `StepO`, `AdminC` and `AdminO` only say where the
            /// others apply.
            pub const ALL: [Rule; [$(Rule::$rule),*].len()] = [$(Rule::$rule),*];
        }
    };
}

rules! {
    Var, Arith1, Arith2, Arith3, App1, App2, App3, Resume1, Resume2, Perform, Raise,
    CallC, Callback, RetToO, ExnFwdO,
    CallO, ExtCall, RetToC, RetFib, Handle, ExnHn, ExnFwdC, ExnFwdFib, EffHn, EffFwd, EffUnHn, Resume,
    CallCHere, ExtCallHere, CallbackHere, RetHere, ResumeAgain,
}

impl Rule {
    /// Whether the rule can apply in this mode.
    #[must_use]
    pub fn is_in(self, mode: Mode) -> bool {
        match self {
            Rule::RetToO | Rule::ExnFwdO | Rule::ExtCall => mode == Mode::Paper,
            Rule::CallCHere | Rule::ExtCallHere | Rule::CallbackHere | Rule::RetHere | Rule::ResumeAgain => {
                mode == Mode::Segue
            }
            _ => true,
        }
    }
}

/// What a step leads to.
#[derive(Debug)]
pub struct Next {
    /// The configuration.
    pub config: Config,
    /// What happened, if it can be observed.
    pub event: Option<Event>,
    /// The continuation that this step resumed.
    pub resumed: Option<Rc<Captured>>,
}

impl From<Config> for Next {
    fn from(config: Config) -> Next {
        Next { config, event: None, resumed: None }
    }
}

/// Every rule that applies, with where it leads. No step is taken: nothing is marked as resumed.
pub fn applicable(config: &Config, mode: Mode) -> Vec<(Rule, Next)> {
    let mut found = Vec::new();
    each(config, mode, |rule, next| {
        found.push((rule, next));
        false
    });
    found
}

/// One step: the rule that applies, and where it leads. Nothing if the program has ended or is
/// stuck.
pub fn step(config: &Config, mode: Mode) -> Option<(Rule, Next)> {
    let mut found = None;
    each(config, mode, |rule, next| {
        found = Some((rule, next));
        true
    });
    if let Some((_, Next { resumed: Some(k), .. })) = &found {
        k.resumed.set(true);
    }
    found
}

/// **StepC** and **StepO**. Shows each rule that applies, until it is told that that is enough.
fn each(config: &Config, mode: Mode, mut enough: impl FnMut(Rule, Next) -> bool) {
    let Config { term, env, stack } = config;
    match stack {
        Stack::C(g) => {
            let (fs, w) = (&g.frames, &g.under);
            let calls = c::RULES.iter().filter_map(|(rule, apply)| Some((*rule, apply(term, env, fs, w)?)));
            c::admin_c(term, env, fs, w).chain(calls).any(|(rule, next)| enough(rule, next));
        }
        Stack::O(OStack::Over(k, g)) => {
            let rules: &[(Rule, ocaml::ORule)] = match mode {
                Mode::Paper => &ocaml::RULES,
                Mode::Segue => &segue::RULES,
            };
            let others = rules.iter().filter_map(|(rule, apply)| Some((*rule, apply(term, env, k, g)?)));
            ocaml::admin_o(term, env, k, g).chain(others).any(|(rule, next)| enough(rule, next));
        }
        Stack::O(OStack::Empty) => unreachable!("no rule leads to nothing under a term"),
    }
}

/// How a program ended at a configuration in which no rule applies.
#[must_use]
pub fn outcome(config: &Config) -> Outcome {
    let (Some(v), Stack::C(g)) = (config.term.value(), &config.stack) else { return Outcome::Stuck };
    match (g.frames.split(), &g.under) {
        (None, OStack::Empty) => Outcome::Value(v.shown()),
        (Some((Frame::Fun(Value::Exn(label)), _)), OStack::Empty) => Outcome::Exception(label, v.shown()),
        _ => Outcome::Stuck,
    }
}

/// A run of the machine.
#[derive(Clone, Debug)]
pub struct Run {
    /// What can be compared.
    pub observed: Observed,
    /// How often each rule was used, in the order of [`Rule::ALL`].
    pub used: [u32; Rule::ALL.len()],
    /// How many steps there were.
    pub steps: u32,
}

impl Run {
    /// How often a rule was used.
    #[must_use]
    pub fn count(&self, rule: Rule) -> u32 {
        self.used[rule as usize]
    }
}

/// Runs a program for at most `fuel` steps.
///
/// ```
/// use semantics::machine::{Mode, run};
/// use semantics::observe::{Outcome, Shown};
/// use semantics::syntax::*;
///
/// // match 1 + perform A 20 with { return x -> x | effect A x k -> continue k (x * 2) }
/// let body = arith(Op::Add, int(1), perform("A", int(20)));
/// let double = resume(var("k"), arith(Op::Mul, var("x"), int(2)));
/// let e = program(handle(body, Handler::identity().effect("A", "x", "k", double)));
/// assert_eq!(run(&e, Mode::Paper, 1000).observed.outcome, Outcome::Value(Shown::Int(41)));
/// ```
#[must_use]
pub fn run(program: &Rc<Expr>, mode: Mode, fuel: u32) -> Run {
    let mut config = Config::initial(program);
    let mut run = Run {
        observed: Observed { outcome: Outcome::OutOfFuel, trace: Vec::new(), abandoned: 0 },
        used: [0; Rule::ALL.len()],
        steps: 0,
    };
    let (mut captured, mut resumed) = (0usize, 0usize);
    while run.steps < fuel {
        let Some((rule, next)) = step(&config, mode) else {
            run.observed.outcome = outcome(&config);
            break;
        };
        run.steps += 1;
        run.used[rule as usize] += 1;
        captured += usize::from(rule == Rule::EffHn);
        resumed += usize::from(rule == Rule::Resume);
        run.observed.trace.extend(next.event);
        config = next.config;
    }
    // With many shots there may be more resumptions than continuations, and the figure says
    // nothing.
    run.observed.abandoned = captured.saturating_sub(resumed);
    run
}
