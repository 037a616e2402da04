//! A panic that leaves a coroutine's function aborts the process with a message, on either host.

use segue_conformance::this_program;
use segue_fiber::{Coroutine, StackArena, StackConfig, StackPool};

const VARIABLE: &str = "SEGUE_FIBER_DEED";

#[test]
fn a_panic_that_leaves_the_function_aborts() {
    if std::env::var_os(VARIABLE).is_some() {
        let mut pool = StackPool::new(StackArena::new(StackConfig::new()).unwrap());
        let mut coroutine = Coroutine::new(pool.take().unwrap(), (), |()| panic!("not caught"));
        let _ = coroutine.resume();
        return;
    }
    let output = this_program()
        .args(["a_panic_that_leaves_the_function_aborts", "--exact", "--nocapture"])
        .env(VARIABLE, "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    #[cfg(unix)]
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&output.status), Some(6), "{text}");
    assert!(!output.status.success(), "{text}");
    assert!(text.contains("not caught") && text.contains("a panic left the main function"), "{text}");
}
