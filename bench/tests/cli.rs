//! The command line: what is refused, and that a short run writes what it promises.

use std::io::Write;
use std::process::{Command, Output, Stdio};

fn bench(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_bench")).args(args).output().expect("the program starts")
}

#[test]
fn mistakes_get_one_line_and_status_two() {
    for args in [
        &[][..],
        &["walk"],
        &["list", "switch"],
        &["run", "no_such_workload"],
        &["run", "--no-such-flag"],
        &["run", "--budget"],
        &["run", "--budget", "0"],
        &["run", "--budget", "many"],
        &["run", "--budget", "5", "--smoke"],
        &["run", "--keep", "--smoke"],
        &["run", "--keep", "--json", "rows.json"],
        &["page", "switch"],
        &["serve", "http"],
        &["soak", "--short", "--minutes", "1"],
        &["soak", "--keep", "--out", "directory"],
        &["soak", "--minutes", "many"],
        &["soak", "web", "--short", "--minutes", "1"],
        &["soak", "fib"],
        &["versus"],
        &["versus", "abc"],
        &["versus", "abc", "bench", "no_such_workload"],
        &["versus", "abc", env!("CARGO_BIN_EXE_bench"), "web"],
    ] {
        let out = bench(args);
        let said = String::from_utf8(out.stderr).expect("text");
        assert_eq!(out.status.code(), Some(2), "{args:?}: {said}");
        assert_eq!(said.lines().count(), 1, "{args:?}: {said}");
        assert!(out.stdout.is_empty(), "{args:?} measures nothing");
    }
}

#[test]
fn list_has_a_line_for_every_workload() {
    let out = bench(&["list"]);
    assert!(out.status.success());
    let text = String::from_utf8(out.stdout).expect("text");
    for name in [
        "switch",
        "spawn_join",
        "yield",
        "ping_pong",
        "mvar",
        "mutex",
        "cancellation",
        "bridge",
        "fork_join",
        "effects",
        "generator",
        "http_loop",
        "echo",
        "unblock",
        "web",
        "fib",
    ] {
        assert!(text.lines().any(|line| line.starts_with(name)), "{name}");
    }
}

#[test]
fn a_smoke_run_writes_rows_that_make_sense() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("rows.json");
    let out = bench(&["run", "switch", "spawn_join", "--smoke", "--json", file.to_str().expect("text")]);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let text = std::fs::read_to_string(&file).expect("the file is written");
    let results: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
    let host = &results["host"];
    assert!(host["cpu"].is_string() && host["rivals"].as_array().is_some_and(|rivals| rivals.len() > 9));
    assert_eq!(results["date"].as_str().expect("a date").len(), "2026-01-01".len());
    let runs = results["runs"].as_array().expect("workloads");
    assert!(runs.iter().all(|run| run["commit"].is_string()));
    let rows: Vec<_> = runs.iter().flat_map(|run| run["rows"].as_array().expect("rows")).collect();
    for (workload, who) in [("switch", "corosensei"), ("spawn_join", "tokio"), ("spawn_join", "may")] {
        let row = rows
            .iter()
            .find(|row| row["workload"] == workload && row["who"] == who)
            .unwrap_or_else(|| panic!("no row for {who} in {workload}"));
        let figure = |key: &str| row[key].as_f64().unwrap_or_else(|| panic!("no {key}"));
        assert!(0.0 < figure("min"));
        assert!(figure("min") <= figure("median") && figure("median") <= figure("max"));
        assert_eq!(row["runs"], 1);
        assert!(row["unit"].is_string() && row["variant"].is_string());
    }
}

/// One connection, so that it takes a moment. Without io_uring the workload has no rows.
#[test]
fn servers_in_processes_of_their_own_are_asked() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_bench"))
        .args(["child", "echo", "1 connection", "bare epoll"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    writeln!(child.stdin.take().expect("a pipe"), "10").expect("it reads");
    let said = child.wait_with_output().expect("it ends when its input does").stdout;
    let said = String::from_utf8(said).expect("text");
    if !said.starts_with("error ") {
        let numbers: Vec<u64> = said.split_whitespace().take(3).flat_map(str::parse).collect();
        assert!(matches!(numbers[..], [10, cpu, wall] if cpu > 0 && wall > 0), "{said}");
    } else {
        assert!(said.contains("io_uring"), "{said}");
    }
}

/// A server for each contestant in turn, which the load asks.
#[test]
fn a_contest_writes_its_rows_its_points_and_its_picture() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("rows.json");
    let out = bench(&["run", "fib", "--smoke", "--json", file.to_str().expect("text")]);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let text = std::fs::read_to_string(&file).expect("the file is written");
    let results: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
    let run = &results["runs"][0];
    let points = run["points"].as_array().expect("points");
    for who in ["segue, composed", "segue, no fork-join", "tokio and rayon"] {
        let point = points.iter().find(|point| point["who"] == who && point["profile"] == "mixture");
        let point = point.unwrap_or_else(|| panic!("no mixture for {who}: {}", String::from_utf8_lossy(&out.stdout)));
        let figure = |key: &str| point[key].as_f64().unwrap_or_else(|| panic!("no {key}"));
        assert!(figure("served") > 0.0 && figure("cpu") > 0.0 && figure("offered") > 0.0, "{point}");
        let latency: Vec<_> = point["latency"].as_array().expect("figures").iter().flat_map(|ns| ns.as_f64()).collect();
        assert!(latency.len() == 5 && latency[0] > 0.0 && latency.is_sorted(), "{point}");
    }
    let rows = run["rows"].as_array().expect("rows");
    assert!(rows.iter().all(|row| row["workload"] == "fib" && row["median"].as_f64() > Some(0.0)), "{rows:?}");
    let picture = std::fs::read_to_string(dir.path().join("rows.fib.svg")).expect("the picture");
    assert!(picture.contains(">segue, composed<") && picture.contains("figure 6.2b"), "{picture}");
    assert!(picture.ends_with("</svg>\n"), "{picture}");
}

/// The load over TLS and over WebSockets, with servers of their own.
#[test]
fn each_profile_of_the_contest_web_runs() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("rows.json");
    let out = bench(&["run", "web", "--smoke", "--json", file.to_str().expect("text")]);
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success(), "{said} {}", String::from_utf8_lossy(&out.stderr));
    let text = std::fs::read_to_string(&file).expect("the file is written");
    let results: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
    let points = results["runs"][0]["points"].as_array().expect("points");
    let segue = ["segue, server, ring", "segue, server, epoll"];
    for (profile, rivals) in [
        ("peak", &["hyper", "axum", "actix-web"][..]),
        ("two thirds of the slowest peak", &["hyper"]),
        ("short connections", &["hyper"]),
        ("pipelined", &["hyper"]),
        ("JSON over TLS", &["axum", "actix-web"]),
        ("a file over TLS", &["axum", "actix-web"]),
        ("WebSocket echo", &["axum", "actix-web"]),
    ] {
        for who in segue.iter().filter(|who| !said.contains(&format!("{who} does not take part"))).chain(rivals) {
            let point = points.iter().find(|point| point["profile"] == profile && point["who"] == **who);
            let point = point.unwrap_or_else(|| panic!("no {who} in {profile}: {said}"));
            assert!(point["served"].as_f64() > Some(0.0) && point["memory"].as_f64() > Some(0.0), "{point}");
        }
    }
}

#[test]
fn a_soak_ends_and_writes_its_samples_and_their_picture() {
    let dir = tempfile::tempdir().expect("a directory");
    let out = dir.path().to_str().expect("text");
    let soak = bench(&["soak", "--minutes", "0.05", "--connections", "20", "--out", out]);
    let said = String::from_utf8_lossy(&soak.stdout);
    // In three seconds memory need not be flat yet; and where the machine stands still, a server
    // may cut off a client that means no harm.
    assert!(said.contains(" not served; ") && said.contains("descriptors of no fiber: "), "{said}");
    let samples = std::fs::read_to_string(dir.path().join("soak.csv")).expect("the samples");
    let mut lines = samples.lines();
    assert!(lines.next().is_some_and(|head| head.starts_with("seconds,")), "{samples}");
    let rows: Vec<_> = lines.map(|line| line.split(',').filter(|word| word.parse::<f64>().is_ok()).count()).collect();
    assert!(!rows.is_empty() && rows.iter().all(|words| *words == 5), "{samples}");
    let picture = std::fs::read_to_string(dir.path().join("soak.svg")).expect("the picture");
    assert!(picture.matches("<polyline").count() == 3 && picture.ends_with("</svg>\n"), "{picture}");
}

#[test]
fn two_programs_take_turns() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("rows.json");
    // This very program stands for an older one; it has no workload that this one has not.
    let older = env!("CARGO_BIN_EXE_bench");
    let out = bench(&["versus", "older", older, "switch", "--smoke", "--json", file.to_str().expect("text")]);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let text = std::fs::read_to_string(&file).expect("the file is written");
    let versus: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
    assert_eq!(versus["before"], "older");
    let rows = versus["rows"].as_array().expect("rows");
    assert!(!rows.is_empty() && rows.iter().all(|row| row["who"].as_str().is_some_and(|who| who.starts_with("segue"))));
    for side in ["before", "after", "ratio"] {
        let figures = rows[0][side].as_array().expect("three figures");
        assert!(figures.len() == 3 && figures.iter().all(|figure| figure.as_f64() > Some(0.0)), "{figures:?}");
    }

    // In two layouts there are twice as many rounds.
    let layouts = ["versus", "older", older, "switch", "--layout", older, older, "--smoke"];
    let out = bench(&[&layouts[..], &["--json", file.to_str().expect("text")]].concat());
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let text = std::fs::read_to_string(&file).expect("the file is written");
    let versus: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
    assert_eq!(versus["rows"][0]["by_layout"].as_array().map(Vec::len), Some(2));

    // A program that is not there is told at once; one that has no such workload measures nothing.
    let says = |args: &[&str], what: &str| {
        let out = bench(args);
        assert!(!out.status.success(), "{args:?}");
        assert!(String::from_utf8_lossy(&out.stderr).contains(what), "{}", String::from_utf8_lossy(&out.stderr));
    };
    says(&["versus", "older", "/no/such/program", "switch", "--smoke"], "there is no program /no/such/program");
    says(&["versus", "older", older, "--layout", older, "/no/such", "switch"], "there is no program /no/such");
    says(&["versus", "older", "/bin/false", "switch", "--smoke"], "nothing was measured");
    says(&["run", "--layout", older, older, "switch"], "--layout");
}
