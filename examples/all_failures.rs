//! All failures: every line of a file is checked at the same time, nobody is stopped because of
//! another, and each error is reported, in the order of the lines.

use segue::concurrent::join_all;
use std::net::IpAddr;

const FILE: &str = "\
    local  127.0.0.1
    home   192.168.1.300
    office 10.0.0
    cloud  2001:db8::7
    lab    ::g";

/// A line that can't be used, and why.
#[derive(Debug, PartialEq)]
struct Bad(String);

fn check(line: &str) -> Result<(&str, IpAddr), Bad> {
    let bad = |why: &dyn std::fmt::Display| Bad(format!("{line}: {why}"));
    let (name, address) = line.split_once(' ').ok_or_else(|| bad(&"no address"))?;
    Ok((name, address.trim().parse().map_err(|why| bad(&why))?))
}

fn main() {
    segue::run(|| {
        let lines: Vec<&str> = FILE.lines().map(str::trim).collect();
        let results = join_all(lines.iter().map(|line| || check(line))).expect("nobody cancels it");
        let (good, bad): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
        bad.iter().for_each(|bad| println!("{}", bad.as_ref().unwrap_err().0));
        assert_eq!(good.into_iter().map(|good| good.unwrap().0).collect::<Vec<_>>(), ["local", "cloud"]);
        let bad: Vec<_> = bad.into_iter().map(|bad| bad.unwrap_err().0).collect();
        let bad: Vec<&str> = bad.iter().map(String::as_str).collect();
        assert_eq!(
            bad,
            [
                "home   192.168.1.300: invalid IP address syntax",
                "office 10.0.0: invalid IP address syntax",
                "lab    ::g: invalid IP address syntax",
            ]
        );
    });
}
