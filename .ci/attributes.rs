//! Mistakes with the attribute `segue::test`, each with a sentence that the compiler has to say
//! of the line below. Used by the step `mistakes`. They are apart from the others, since nothing
//! else is looked at after such a mistake.

//~ `polcy` is no argument of `segue::test`; there are `policy`, `schedules`, `seed`, `leaks` and
#[segue::test(polcy = random)]
fn unknown_argument() {}

//~ `policy` takes a value: `policy = ...`
#[segue::test(policy)]
fn no_value() {}

//~ `fifo` is no policy of `segue::test`; there are `random`, `pct(depth)`, `exhaustive(limit)`
#[segue::test(policy = fifo)]
fn unknown_policy() {}

//~ `random` takes no argument; say `schedules = ...` beside it
#[segue::test(policy = random(3))]
fn an_argument_too_many() {}

//~ write `pct(depth)`, with a number
#[segue::test(policy = pct)]
fn no_depth() {}

//~ the depth of the bugs that are looked for is a whole number from 1 on, and not `0`
#[segue::test(policy = pct(0))]
fn depth_zero() {}

//~ a depth is at most 100
#[segue::test(policy = pct(1000))]
fn depth_too_great() {}

//~ write `exhaustive(limit)`, with a number
#[segue::test(policy = exhaustive())]
fn no_limit() {}

//~ `exhaustive(limit)` says itself how many schedules are tried at most
#[segue::test(policy = exhaustive(10), schedules = 20)]
fn two_limits() {}

//~ `exhaustive(limit)` draws nothing: it has no seed
#[segue::test(policy = exhaustive(10), seed = 1)]
fn a_seed_for_nothing() {}

//~ the number of schedules is a whole number from 1 on, and not `many`
#[segue::test(schedules = many)]
fn no_number() {}

//~ the number of schedules is a whole number from 1 on, and not `0`
#[segue::test(schedules = 0)]
fn no_schedules() {}

//~ a seed is a whole number from 0 on, and not `-`
#[segue::test(seed = -1)]
fn a_negative_seed() {}

//~ `seed` is there twice
#[segue::test(seed = 1, seed = 2)]
fn twice() {}

//~ expected a comma
#[segue::test(seed = 1 schedules = 2)]
fn no_comma() {}

//~ expected `allow` or `forbid`, and not `maybe`
#[segue::test(leaks = maybe)]
fn unknown_leaks() {}

//~ expected `false` or `true`, and not `1`
#[segue::test(preempt = 1)]
fn no_bool() {}

#[segue::test]
//~ `segue::test` stands before a function
struct NoFunction;

#[segue::test]
//~ a test of Segue is straight-line code: leave `async` out, and wait for futures with
async fn is_async() {}

#[segue::test]
//~ a test takes no parameters
fn with_parameters(_seed: u64) {}

#[segue::test]
//~ a test has no type parameters
fn with_type_parameters<T>() {}

#[segue::test]
//~ `segue::test` makes a test by itself: leave `#[test]` out
#[test]
fn a_test_already() {}
