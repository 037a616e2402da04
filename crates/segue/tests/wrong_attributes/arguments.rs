//! Each of these says what is wrong with it.

#[segue::test(polcy = random)]
fn unknown_argument() {}

#[segue::test(policy)]
fn no_value() {}

#[segue::test(policy = fifo)]
fn unknown_policy() {}

#[segue::test(policy = random(3))]
fn an_argument_too_many() {}

#[segue::test(policy = pct)]
fn no_depth() {}

#[segue::test(policy = pct(0))]
fn depth_zero() {}

#[segue::test(policy = pct(1000))]
fn depth_too_great() {}

#[segue::test(policy = exhaustive())]
fn no_limit() {}

#[segue::test(policy = exhaustive(10), schedules = 20)]
fn two_limits() {}

#[segue::test(policy = exhaustive(10), seed = 1)]
fn a_seed_for_nothing() {}

#[segue::test(schedules = many)]
fn no_number() {}

#[segue::test(schedules = 0)]
fn no_schedules() {}

#[segue::test(seed = -1)]
fn a_negative_seed() {}

#[segue::test(seed = 1, seed = 2)]
fn twice() {}

#[segue::test(seed = 1 schedules = 2)]
fn no_comma() {}

#[segue::test(leaks = maybe)]
fn unknown_leaks() {}

#[segue::test(preempt = 1)]
fn no_bool() {}

fn main() {}
