//! A panic's message names its fiber, if the program asks for it.
#![cfg(feature = "sched")]

use std::process::Command;

#[test]
fn a_panic_names_its_fiber_and_the_other_hooks_go_on() {
    const CHILD: &str = "SEGUE_TEST_CHILD";
    if std::env::var_os(CHILD).is_some() {
        segue::name_fibers_in_panics();
        segue::name_fibers_in_panics();
        segue::run(|| {
            let printer = segue::Builder::new().name("printer").spawn(|| panic!("out of ink"));
            assert!(printer.join().unwrap_err().is_panic());
        });
        assert!(std::thread::spawn(|| panic!("on a plain thread")).join().is_err());
        return;
    }
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_panic_names_its_fiber_and_the_other_hooks_go_on", "--nocapture"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let said = String::from_utf8(child.stderr).unwrap();
    assert!(child.status.success(), "{said}");
    let lines: Vec<_> = said.lines().filter(|line| !line.is_empty()).collect();
    let named: Vec<_> = (0..lines.len()).filter(|&n| lines[n].starts_with("segue: in ")).collect();
    assert_eq!(named.len(), 1, "{said}");
    assert_eq!(lines[named[0]], "segue: in fiber `printer`:");
    assert!(lines[named[0] + 1].contains("panicked at") && lines[named[0] + 2].contains("out of ink"), "{said}");
    assert!(said.contains("on a plain thread"));
}
