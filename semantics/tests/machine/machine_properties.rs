//! What holds for every run of the machine, on random programs.

use semantics::check::SIZE;
use semantics::generate::generate;
use semantics::machine::config::Config;
use semantics::machine::{Mode, Rule, applicable, run, step};

const BOTH: [Mode; 2] = [Mode::Paper, Mode::Segue];

#[test]
fn at_most_one_rule_applies() {
    for mode in BOTH {
        for seed in 0..300 {
            let mut config = Config::initial(&generate(seed, SIZE));
            for _ in 0..2_000 {
                let rules: Vec<Rule> = applicable(&config, mode).into_iter().map(|(rule, _)| rule).collect();
                assert!(rules.len() <= 1, "{rules:?} apply in {mode:?}, seed {seed}");
                let Some((rule, next)) = step(&config, mode) else { break };
                assert_eq!(rules, [rule]);
                config = next.config;
            }
        }
    }
}

#[test]
fn a_mode_uses_its_own_rules() {
    for mode in BOTH {
        for seed in 0..1_000 {
            let run = run(&generate(seed, SIZE), mode, 20_000);
            let foreign = Rule::ALL.into_iter().find(|rule| !rule.is_in(mode) && run.count(*rule) > 0);
            assert_eq!(foreign, None, "{mode:?}, seed {seed}");
        }
    }
}

#[test]
fn the_modes_agree_where_nothing_is_performed_across_c_or_resumed_twice() {
    let mut same = 0;
    let mut different = 0;
    for seed in 0..5_000 {
        let program = generate(seed, SIZE);
        let [paper, segue] = BOTH.map(|mode| run(&program, mode, 20_000));
        let performs_across_c = segue.count(Rule::CallbackHere) > 0 && segue.count(Rule::Perform) > 0;
        if performs_across_c || segue.count(Rule::ResumeAgain) > 0 {
            different += usize::from(paper.observed != segue.observed);
        } else {
            assert_eq!(paper.observed.outcome, segue.observed.outcome, "{program}");
            assert_eq!(paper.observed, segue.observed, "{program}");
            same += 1;
        }
    }
    assert!(same > 3_000, "{same}");
    assert!(different > 100, "{different}");
}
