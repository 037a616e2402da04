//! The choice between the ways of a send, with costs that the tests make up. Part of
//! `ring/sends.rs`.

use super::*;

/// Small numbers without a pattern.
struct Random(u64);

impl Random {
    /// A factor around one, at most so far from it.
    fn around_one(&mut self, spread: f64) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        let unit = (self.0 >> 11) as f64 / (1_u64 << 53) as f64;
        1.0 + spread * (2.0 * unit - 1.0)
    }
}

/// What came of some windows.
#[derive(Debug, Default)]
struct Course {
    /// How many windows each way had.
    had: [u32; 2],
    /// How often the kept way changed.
    changes: u32,
    cost: f64,
}

/// So many windows, each of which costs what the function says.
fn windows(chooser: &mut Chooser, count: u32, mut cost: impl FnMut(Way) -> f64) -> Course {
    let mut course = Course::default();
    for _ in 0..count {
        let (way, kept) = (chooser.way(), chooser.kept);
        let cost = cost(way);
        course.had[way as usize] += 1;
        course.cost += cost;
        chooser.over(cost);
        course.changes += u32::from(chooser.kept != kept);
    }
    course
}

fn costs(fly: f64, now: f64) -> impl Fn(Way) -> f64 {
    move |way| if way == Way::Fly { fly } else { now }
}

/// The windows before the first change of the kept way, at the earliest.
const CONVERGED: u32 = FIRST_HOLD + 4 * WINS as u32;

#[test]
fn the_cheaper_way_is_kept_whichever_that_is_and_whichever_was_first() {
    for first in [Way::Fly, Way::Now] {
        for (fly, now) in [(1.0, 1.05), (1.0, 1.8), (1.05, 1.0), (5.0, 1.0)] {
            let cheaper = if fly < now { Way::Fly } else { Way::Now };
            let mut chooser = Chooser::new(first);
            windows(&mut chooser, CONVERGED, costs(fly, now));
            assert_eq!(chooser.kept, cheaper, "{fly} to fly, {now} at once");
            let course = windows(&mut chooser, 100_000, costs(fly, now));
            assert_eq!(course.changes, 0);
        }
    }
}

#[test]
fn probes_of_a_way_that_costs_twice_as_much_cost_under_a_hundredth_in_the_long_run() {
    let mut chooser = Chooser::new(Way::Now);
    let begin = windows(&mut chooser, 400, costs(2.0, 1.0));
    assert!(begin.cost < 400.0 * 1.03, "the first 400 windows cost {}", begin.cost);
    let later = windows(&mut chooser, 10_000, costs(2.0, 1.0));
    assert!(later.cost < 10_000.0 * 1.01, "10,000 windows cost {}", later.cost);
    assert!(later.had[Way::Fly as usize] >= 2 * 10_000 / 300, "the other way is tried no more");
}

#[test]
fn a_workload_that_changes_is_noticed_when_the_longest_hold_is_over_at_the_latest() {
    let mut chooser = Chooser::new(Way::Now);
    for round in 0..20 {
        let (cheaper, costs) = if round % 2 == 0 { (Way::Fly, costs(1.0, 1.3)) } else { (Way::Now, costs(1.3, 1.0)) };
        windows(&mut chooser, LONGEST_HOLD + 4 * (u32::from(WINS) + 1), &costs);
        assert_eq!(chooser.kept, cheaper, "round {round}");
        windows(&mut chooser, 50 * round, &costs);
        assert_eq!(chooser.kept, cheaper, "round {round}");
    }
}

#[test]
fn noise_alone_hardly_ever_changes_the_kept_way() {
    let mut random = Random(88);
    for spread in [0.02, 0.1, 0.3] {
        let mut chooser = Chooser::new(Way::Now);
        let course = windows(&mut chooser, 100_000, |_| random.around_one(spread));
        assert!(course.changes < 60, "{} changes within {spread}", course.changes);
    }
}

#[test]
fn noise_does_not_hide_the_cheaper_way() {
    let mut random = Random(5);
    for cheaper in [Way::Fly, Way::Now] {
        let mut chooser = Chooser::new(cheaper.other());
        windows(&mut chooser, 1_000, |way| random.around_one(0.15) * if way == cheaper { 1.0 } else { 1.25 });
        let course =
            windows(&mut chooser, 100_000, |way| random.around_one(0.15) * if way == cheaper { 1.0 } else { 1.25 });
        assert!(course.had[cheaper as usize] > 95_000, "{course:?}");
    }
}

#[test]
fn what_both_ways_suffer_alike_changes_nothing() {
    let mut chooser = Chooser::new(Way::Now);
    // Dearer and dearer, by a percent in each window.
    let mut grown = 1.0;
    let course = windows(&mut chooser, 2_000, |_| {
        grown *= 1.01;
        grown
    });
    assert_eq!(course.changes, 0);
    // And a window now and then in which somebody else had the processor.
    let mut window = 0;
    let course = windows(&mut chooser, 20_000, |_| {
        window += 1;
        if window % 97 == 0 { 50.0 } else { 1.0 }
    });
    assert_eq!(course.changes, 0);
}

#[test]
fn a_way_that_is_cheaper_by_less_than_the_margin_does_not_replace_the_other() {
    for first in [Way::Fly, Way::Now] {
        let mut chooser = Chooser::new(first);
        let course = windows(&mut chooser, 10_000, |way| if way == first { 1.0 } else { 0.97 });
        assert_eq!(course.changes, 0);
    }
}

#[test]
fn windows_that_cost_nothing_change_nothing() {
    let mut chooser = Chooser::new(Way::Now);
    assert_eq!(windows(&mut chooser, 1_000, |_| 0.0).changes, 0);
}

#[test]
fn a_window_is_over_at_a_look_after_its_sends_and_no_earlier() {
    let sends = Sends::new(Rule::Auto);
    let (mut windows, mut ways) = (0, [0; 2]);
    for _ in 0..40 {
        // The first and each one after a change only settles.
        let due = sends.left.get();
        assert!((SETTLING..=LONGEST_WINDOW).contains(&due));
        for left in (0..due).rev() {
            sends.look(10);
            let way = sends.next();
            ways[way as usize] += 1;
            sends.sent(100, way);
            assert_eq!(sends.left.get(), left, "the window was over too early");
        }
        sends.look(3_000);
        assert!(sends.left.get() > 0 && sends.work.get() == 0, "the window went on");
        windows += u32::from(due >= WINDOW);
    }
    assert!(windows >= 20 && ways[0] > 0 && ways[1] > 0, "{windows} windows, {ways:?}");
}

#[test]
fn a_rule_for_good_measures_nothing_and_turns_take_turns() {
    for (rule, ways) in [
        (Rule::Always(Way::Fly), [Way::Fly; 4]),
        (Rule::Always(Way::Now), [Way::Now; 4]),
        (Rule::Turns, [Way::Now, Way::Fly, Way::Now, Way::Fly]),
    ] {
        let sends = Sends::new(rule);
        assert_eq!([(); 4].map(|()| sends.next()), ways);
        for _ in 0..100_000 {
            sends.sent(1, Way::Now);
            sends.look(1);
        }
        assert_eq!([(); 4].map(|()| sends.next()), ways);
        assert_eq!(sends.begun.get(), None);
    }
}

#[test]
fn the_processor_time_of_a_thread_grows_while_the_thread_computes() {
    let begun = processor_time();
    while processor_time() == begun {
        std::hint::spin_loop();
    }
    assert!(processor_time() > begun);
}

#[test]
fn the_rules_have_names() {
    for (name, rule) in [
        ("", Rule::Auto),
        ("auto", Rule::Auto),
        ("fly", Rule::Always(Way::Fly)),
        ("now", Rule::Always(Way::Now)),
        ("turns", Rule::Turns),
    ] {
        assert_eq!(Rule::named(OsStr::new(name)).unwrap(), rule);
    }
    let error = Rule::named(OsStr::new("never")).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    assert!(error.to_string().contains("`fly`") && error.to_string().contains("never"), "{error}");
}
