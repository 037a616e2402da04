//! After how many wake-ups a worker that is alone looks for closures again. A part of
//! `worker/run_loop.rs`, which it sees from inside.

use super::*;

#[test]
fn tries_in_vain_become_rare_and_never_stop() {
    let mut doubt = Doubt::default();
    let mut passed = || (0..=MOST_DOUBT).position(|_| doubt.tries()).expect("it tries again");
    for wake_ups in [0, 1, 3, 7, 15, 31, 63, 127, 255, 511, 1023, 1023] {
        assert_eq!(passed(), wake_ups);
    }
}
