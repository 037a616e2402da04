//! The handler of a directory: its paths, in every encoding, and things that are no files.

use crate::{Scratch, ask};
use segue_http::{Files, Request};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::process::Command;

fn site() -> (Scratch, Files) {
    let dir = Scratch::new();
    for (name, content) in [
        ("secret", "secret"),
        ("root/index.html", "root"),
        ("root/a/index.html", "index of a"),
        ("root/a/file.txt", "text"),
        ("root/empty/deep/file", "deep"),
        ("root/.hidden", "hidden"),
        ("root/.git/config", "hidden"),
        ("root/...", "points"),
        ("root/%2e%2e", "percent"),
        ("root/%2e%2e%2fsecret", "percent"),
        ("root/h\u{e9} llo+.txt", "named"),
        ("root/a/%", "percent"),
    ] {
        dir.file(name, content);
    }
    symlink("a/file.txt", dir.path("root/inside")).unwrap();
    symlink("../secret", dir.path("root/outside")).unwrap();
    symlink("..", dir.path("root/up")).unwrap();
    symlink("/", dir.path("root/top")).unwrap();
    symlink("nowhere", dir.path("root/dangling")).unwrap();
    symlink("loop", dir.path("root/loop")).unwrap();
    symlink("/proc/self/cwd", dir.path("root/magic")).unwrap();
    symlink("/dev/zero", dir.path("root/zero")).unwrap();
    assert!(Command::new("mkfifo").arg(dir.path("root/pipe")).status().unwrap().success());
    let files = Files::new(dir.path("root")).unwrap();
    (dir, files)
}

fn get(files: &Files, target: &str) -> crate::common::Reply {
    ask(|request: &mut Request<'_>| files.respond(request), "GET", target, &[])
}

#[test]
fn paths_lead_to_files_of_the_directory_alone() {
    let (_dir, files) = site();
    let table = [
        ("/", 200, "root"),
        ("/index.html", 200, "root"),
        ("/a/", 200, "index of a"),
        ("/a/file.txt", 200, "text"),
        ("/a/file.txt?query=../../secret", 200, "text"),
        ("/%61/%66ile%2Etxt", 200, "text"),
        ("/h%C3%A9%20llo+.txt", 200, "named"),
        ("/h%c3%a9%20llo%2b.txt", 200, "named"),
        ("http://h/a/file.txt", 200, "text"),
        ("/empty/deep/file", 200, "deep"),
        ("/a/%25", 200, "percent"),
        // Decoded once: then these are names like others.
        ("/%252e%252e", 200, "percent"),
        ("/%252e%252e%252fsecret", 200, "percent"),
        ("/%252e%252e/secret", 404, ""),
        // No index, or no directory.
        ("/empty/", 404, ""),
        ("/a/file.txt/", 404, ""),
        ("/a/file.txt/x", 404, ""),
        ("/none", 404, ""),
        ("/none/", 404, ""),
        // Up, in every way.
        ("/..", 404, ""),
        ("/../", 404, ""),
        ("/../secret", 404, ""),
        ("/a/../../secret", 404, ""),
        ("/a/../index.html", 404, ""),
        ("/./index.html", 404, ""),
        ("/%2e%2e/secret", 404, ""),
        ("/%2E%2E/secret", 404, ""),
        ("/.%2e/secret", 404, ""),
        ("/%2E./secret", 404, ""),
        ("/..%2fsecret", 404, ""),
        ("/%2e%2e%2fsecret", 404, ""),
        ("/..%5csecret", 404, ""),
        ("/..\\secret", 404, ""),
        ("/a%5cfile.txt", 404, ""),
        ("/a%2ffile.txt", 404, ""),
        ("/a%2f..%2f..%2fsecret", 404, ""),
        ("/%c0%ae%c0%ae/secret", 404, ""),
        ("/%c0%ae%c0%ae%c0%afsecret", 404, ""),
        ("/%uff0e%uff0e/secret", 404, ""),
        ("/..;/secret", 404, ""),
        ("/..%00/secret", 404, ""),
        ("/a/file.txt%00", 404, ""),
        ("/a/file.txt%00.html", 404, ""),
        ("http://h/../secret", 404, ""),
        ("http://h/%2e%2e/secret", 404, ""),
        // Empty names, and percent signs that encode nothing.
        ("//", 404, ""),
        ("//a/file.txt", 404, ""),
        ("/a//file.txt", 404, ""),
        ("/a/file.txt//", 404, ""),
        ("//etc/passwd", 404, ""),
        ("/%2fetc/passwd", 404, ""),
        ("/%", 404, ""),
        ("/%6", 404, ""),
        ("/%zz", 404, ""),
        ("/%-1", 404, ""),
        // Names with a point in front.
        ("/.hidden", 404, ""),
        ("/%2ehidden", 404, ""),
        ("/.git/config", 404, ""),
        ("/...", 404, ""),
        // Links.
        ("/outside", 404, ""),
        ("/up/secret", 404, ""),
        ("/up/root/index.html", 404, ""),
        ("/top/etc/passwd", 404, ""),
        ("/dangling", 404, ""),
        ("/loop", 404, ""),
        ("/magic/Cargo.toml", 404, ""),
        ("/zero", 404, ""),
        // Nobody writes to this pipe.
        ("/pipe", 404, ""),
    ];
    for (target, status, body) in table {
        let reply = get(&files, target);
        assert_eq!(reply.status, status, "{target}");
        assert_eq!(reply.text(), if status == 200 { body } else { "not found" }, "{target}");
    }
    let long = format!("/{}", "x".repeat(5_000));
    assert_eq!(get(&files, &long).status, 404);
    let deep = "/a".repeat(4_000);
    assert_eq!(get(&files, &deep).status, 404);
}

#[test]
#[cfg(target_os = "linux")]
fn a_link_that_stays_below_is_followed() {
    let (_dir, files) = site();
    if option_env!("SEGUE_PORTABLE").is_none() {
        assert_eq!(get(&files, "/inside").text(), "text");
    }
}

#[test]
fn sockets_and_devices_are_not_found() {
    let (dir, files) = site();
    let _socket = UnixListener::bind(dir.path("root/socket")).unwrap();
    assert_eq!(get(&files, "/socket").status, 404);
    // Only the superuser can make one.
    let made = Command::new("mknod").arg(dir.path("root/device")).args(["c", "1", "5"]).output();
    if made.is_ok_and(|made| made.status.success()) {
        assert_eq!(get(&files, "/device").status, 404);
    }
}

#[test]
fn a_directory_without_a_slash_leads_to_the_one_with_a_slash() {
    let (_dir, files) = site();
    for (target, location) in [
        ("/a", "/a/"),
        ("/a?x=1&y", "/a/?x=1&y"),
        ("/empty/deep", "/empty/deep/"),
        ("/%61", "/%61/"),
        ("http://h/a", "/a/"),
    ] {
        let reply = get(&files, target);
        assert_eq!((reply.status, reply.header("location")), (301, Some(location)), "{target}");
    }
}

#[test]
fn a_redirect_never_leads_to_another_host() {
    let (_dir, files) = site();
    for target in ["//evil.example", "/\\evil.example", "///evil.example", "/\\/evil.example", "//evil.example/%2e%2e"]
    {
        let reply = ask(|request: &mut Request<'_>| files.respond_at(request, "a"), "GET", target, &[]);
        if reply.status != 400 {
            let location = reply.header("location").unwrap();
            assert!(location.starts_with("/evil.example"), "{target}: {location}");
        }
    }
}

#[test]
fn another_path_than_the_requests_is_decoded_likewise() {
    let (_dir, files) = site();
    let at = |path: &'static str| ask(|request: &mut Request<'_>| files.respond_at(request, path), "GET", "/x", &[]);
    for (path, status) in
        [("a/file.txt", 200), ("/a/%66ile.txt", 200), ("", 200), ("a", 301), ("../secret", 404), ("%2e%2e/secret", 404)]
    {
        assert_eq!(at(path).status, status, "{path}");
    }
}

#[test]
fn hidden_files_are_served_where_the_program_says_so() {
    let (_dir, files) = site();
    let files = files.hidden(true);
    for (target, status) in
        [("/.hidden", 200), ("/.git/config", 200), ("/...", 200), ("/..", 404), ("/.", 404), ("/%2e%2e/secret", 404)]
    {
        assert_eq!(get(&files, target).status, status, "{target}");
    }
}

#[test]
fn methods_other_than_get_and_head_are_refused() {
    let (_dir, files) = site();
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"] {
        let reply = ask(|request: &mut Request<'_>| files.respond(request), method, "/", &[("Content-Length", "0")]);
        assert_eq!((reply.status, reply.header("allow")), (405, Some("GET, HEAD")), "{method}");
    }
    assert_eq!(ask(|request: &mut Request<'_>| files.respond(request), "HEAD", "/", &[]).status, 200);
}

#[test]
fn a_name_has_the_type_of_its_extension() {
    let dir = Scratch::new();
    let files = Files::new(&dir.0).unwrap();
    for (name, expected) in [
        ("page.html", "text/html; charset=utf-8"),
        ("PAGE.HTM", "text/html; charset=utf-8"),
        ("app.min.js", "text/javascript; charset=utf-8"),
        ("movie.mp4", "video/mp4"),
        ("code.wasm", "application/wasm"),
        ("plain", "application/octet-stream"),
        ("html", "application/octet-stream"),
        ("name.", "application/octet-stream"),
        ("odd.h\u{e9}", "application/octet-stream"),
    ] {
        dir.file(name, "x");
        let target = format!("/{}", name.replace('\u{e9}', "%C3%A9"));
        assert_eq!(get(&files, &target).header("content-type"), Some(expected), "{name}");
    }
}

#[test]
fn a_compressed_file_is_sent_to_those_who_take_it() {
    let dir = Scratch::new();
    for (name, content) in [
        ("page.html", "plain"),
        ("page.html.gz", "gzip"),
        ("page.html.br", "brotli"),
        ("style.css", "plain"),
        ("style.css.gz", "gzip"),
        ("alone.txt", "plain"),
    ] {
        dir.file(name, content);
    }
    let files = Files::new(&dir.0).unwrap().precompressed(true);
    let table = [
        ("/page.html", "gzip, deflate, br", "brotli"),
        ("/page.html", "gzip", "gzip"),
        ("/page.html", "GZip", "gzip"),
        ("/page.html", "x-gzip", "gzip"),
        ("/page.html", "br;q=0.5, gzip;q=0.8", "gzip"),
        ("/page.html", "br;q=0, *", "gzip"),
        ("/page.html", "*", "brotli"),
        ("/page.html", "*;q=0", "plain"),
        ("/page.html", "br;q=0.000,gzip; q=0", "plain"),
        ("/page.html", "br;q=no", "plain"),
        ("/page.html", "identity", "plain"),
        ("/page.html", "", "plain"),
        ("/page.html", "zstd", "plain"),
        ("/style.css", "br, gzip", "gzip"),
        ("/style.css", "br", "plain"),
        ("/alone.txt", "br, gzip", "plain"),
    ];
    let ask = |target: &str, lines: &[(&str, &str)]| {
        ask(|request: &mut Request<'_>| files.respond(request), "GET", target, lines)
    };
    for (target, accepted, body) in table {
        let reply = ask(target, &[("Accept-Encoding", accepted)]);
        assert_eq!(reply.text(), body, "{target} {accepted}");
        let encoding = match body {
            "brotli" => Some("br"),
            "gzip" => Some("gzip"),
            _ => None,
        };
        assert_eq!(reply.header("content-encoding"), encoding, "{target} {accepted}");
        assert_eq!(reply.header("vary"), Some("accept-encoding"), "{target} {accepted}");
        assert!(!reply.header("content-type").unwrap().contains("octet"), "{target} {accepted}");
    }
    assert_eq!(ask("/page.html", &[]).text(), "plain");
    // Each has its own tag, of which the ranges are.
    let tags = ["br", "gzip", "identity"]
        .map(|it| ask("/page.html", &[("Accept-Encoding", it)]).header("etag").unwrap().to_owned());
    assert!(tags[0] != tags[1] && tags[1] != tags[2] && tags[0] != tags[2]);
    let lines = [("Accept-Encoding", "br"), ("Range", "bytes=0-1"), ("If-Range", &*tags[0])];
    assert_eq!(ask("/page.html", &lines).text(), "br");
}

#[test]
fn only_a_directory_is_a_root() {
    let (dir, _) = site();
    assert_eq!(Files::new(dir.path("secret")).unwrap_err().kind(), std::io::ErrorKind::NotADirectory);
    assert_eq!(Files::new(dir.path("none")).unwrap_err().kind(), std::io::ErrorKind::NotFound);
}

#[test]
fn a_root_that_is_renamed_stays_the_root() {
    let (dir, files) = site();
    std::fs::rename(dir.path("root"), dir.path("old")).unwrap();
    symlink(&dir.0, dir.path("root")).unwrap();
    assert_eq!((get(&files, "/a/file.txt").status, get(&files, "/secret").status), (200, 404));
}
