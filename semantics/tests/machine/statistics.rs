//! The random programs do what they are for: every rule is used, every outcome reached, every shape
//! run.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use semantics::check::{FUEL, SIZE, Statistics};
use semantics::generate::generate;
use semantics::machine::config::{Captured, Config, Frame, OStack, Stack, Value, language};
use semantics::machine::{Mode, Rule, run, step};
use semantics::observe::Event;
use semantics::syntax::{ALREADY_RESUMED, Expr, Handler, Lang, UNHANDLED};

const PROGRAMS: u64 = 4_000;

#[test]
fn every_rule_is_used_and_every_outcome_reached() {
    for mode in [Mode::Paper, Mode::Segue] {
        let mut statistics = Statistics::default();
        for seed in 0..PROGRAMS {
            statistics.add(&run(&generate(seed, SIZE), mode, FUEL));
        }
        for (rule, (used, programs)) in Rule::ALL.into_iter().zip(statistics.rules) {
            assert_eq!(rule.is_in(mode), used > 0, "{rule:?} in {mode:?}");
            assert!(!rule.is_in(mode) || programs >= 25, "{rule:?} in {mode:?}: by {programs} programs only");
        }
        for outcome in ["value", "exception", "unhandled", "stuck", "resumed twice"] {
            let count = statistics.outcomes.get(outcome).copied().unwrap_or(0);
            let wanted = if outcome == "resumed twice" && mode == Mode::Paper { 0 } else { 1 };
            assert_eq!(count.min(1), wanted, "{outcome} in {mode:?}");
        }
        for event in ["effect handled", "effect unhandled", "exception caught", "resumed", "value returned"] {
            assert!(statistics.events[event] > 100, "{event} in {mode:?}");
        }
        assert_eq!(statistics.events.contains_key("refused to resume"), mode == Mode::Segue);
        assert!(statistics.abandoned > 100);
        // Nearly all of them end, and mean something.
        assert!(statistics.left_out * 500 < PROGRAMS, "{} left out", statistics.left_out);
        assert!(statistics.outcomes["stuck"] * 100 < PROGRAMS);
        assert!(statistics.outcomes["value"] * 2 > PROGRAMS);
    }
}

/// Counts what a program does in Segue's mode, by looking at each step.
#[derive(Default)]
struct Shapes(BTreeMap<&'static str, u64>);

impl Shapes {
    fn seen(&mut self, shape: &'static str, when: bool) {
        *self.0.entry(shape).or_default() += u64::from(when);
    }

    fn run(&mut self, program: &Rc<Expr>) {
        /// What is known of a continuation that was captured.
        struct Home {
            /// Alive, so that its address is its own.
            k: Rc<Captured>,
            /// The handler under that which captured it.
            under: Rc<Handler>,
            at: u32,
        }
        let mut homes: HashMap<*const Captured, Home> = HashMap::new();
        let mut config = Config::initial(program);
        for at in 0..FUEL {
            let Some((rule, next)) = step(&config, Mode::Segue) else { return };
            let fibers = |config: &Config| match &config.stack {
                Stack::O(OStack::Over(k, _)) => k.iter().cloned().collect(),
                _ => Vec::new(),
            };
            let (before, after) = (fibers(&config), fibers(&next.config));
            match rule {
                Rule::Handle => self.seen("four handlers", after.len() >= 5),
                Rule::EffFwd => self.seen("passed by a handler", before.len() > 2),
                Rule::EffHn => {
                    let h = &before[0].handler;
                    self.seen("one of several effects", h.effects.len() > 1);
                    self.seen("the second of several effects", {
                        matches!(next.event, Some(Event::Effect(label, _)) if h.effects[0].label != label)
                    });
                    self.seen("continuation given outwards", matches!(config.term.value(), Some(Value::Cont(_))));
                    // Under the parameter.
                    let Some((_, Value::Cont(k))) = next.config.env.iter().nth(1) else { unreachable!() };
                    self.seen("captured with C's frames", {
                        k.fibers.iter().any(|it| it.frames.iter().any(|it| matches!(it, Frame::Mark(Lang::C))))
                    });
                    self.seen("performed in a callback", {
                        let performer = k.fibers.iter().nth(1).expect("the performer's");
                        language(&performer.frames) == Lang::O
                            && performer.frames.iter().any(|it| matches!(it, Frame::Mark(_)))
                    });
                    homes.insert(Rc::as_ptr(k), Home { k: k.clone(), under: after[0].handler.clone(), at });
                }
                Rule::Resume => {
                    let k = next.resumed.as_ref().expect("this is what was resumed");
                    let home = &homes[&Rc::as_ptr(k)];
                    let mut frames = before[0].frames.iter().skip(1);
                    let Some(Frame::Fun(Value::Clos(f))) = frames.next() else { unreachable!() };
                    self.seen("discontinued", matches!(&*f.body, Expr::Raise(..)));
                    self.seen("resumed with a function", !matches!(&*f.body, Expr::Raise(..) | Expr::Var(_)));
                    self.seen("resumed in tail position", frames.next().is_none());
                    self.seen("resumed in non-tail position", before[0].frames.iter().nth(2).is_some());
                    self.seen("resumed under another handler", !Rc::ptr_eq(&home.under, &before[0].handler));
                    self.seen("resumed late", at - home.at > 20);
                    self.seen("several fibers resumed", k.fibers.iter().count() > 2);
                    self.seen("with C's frames resumed", {
                        k.fibers.iter().any(|it| it.frames.iter().any(|it| matches!(it, Frame::Mark(Lang::C))))
                    });
                }
                Rule::ExnHn => {
                    let label = match next.event {
                        Some(Event::Exception(label, _)) => label,
                        _ => unreachable!(),
                    };
                    self.seen("unhandled effect caught", label == UNHANDLED);
                    self.seen("second resumption caught", label == ALREADY_RESUMED);
                    let crossed = before[0].frames.iter().any(|it| matches!(it, Frame::Mark(Lang::C)));
                    self.seen("exception caught beyond C", crossed);
                    self.seen("continuation caught", matches!(config.term.value(), Some(Value::Cont(_))));
                }
                Rule::Raise => {
                    self.seen("raised while a continuation waits", homes.values().any(|it| !it.k.resumed.get()));
                }
                Rule::CallO => {
                    self.seen("continuation passed around", matches!(config.term.value(), Some(Value::Cont(_))));
                }
                _ => {}
            }
            config = next.config;
        }
    }
}

#[test]
fn every_shape_is_run() {
    let mut shapes = Shapes::default();
    for seed in 0..PROGRAMS {
        shapes.run(&generate(seed, SIZE));
    }
    println!("{:#?}", shapes.0);
    for (shape, count) in &shapes.0 {
        assert!(*count >= 10, "{shape}: {count} times only");
    }
    assert_eq!(shapes.0.len(), 21, "{:?}", shapes.0.keys());
}
