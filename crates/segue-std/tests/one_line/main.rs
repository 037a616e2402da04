//! A program of threads with the one line, in each edition: its names are Segue's, macros and
//! derives go on, and its own types have std's traits. Here in edition 2024; `ports/editions` has
//! the others.
#![allow(clippy::uninlined_format_args, reason = "edition 2018 has no others")]

extern crate segue_std as std;

mod traits;

/// Paths from the root, inside of a module.
mod inner {
    use std::sync::Mutex;

    pub(crate) static COUNTED: Mutex<u32> = Mutex::new(0);

    pub(crate) fn count() -> u32 {
        let mut counted: ::std::sync::MutexGuard<'_, u32> = COUNTED.lock().unwrap();
        *counted += 1;
        *counted
    }
}

/// A macro of this crate, that names what it needs from the root.
macro_rules! spawned {
    ($body:expr) => {
        ::std::thread::spawn(move || $body).join().unwrap()
    };
}

/// Whether the caller is a fiber.
fn on_a_fiber() -> bool {
    segue::fiber::current().is_some()
}

fn name<T>() -> &'static str {
    std::any::type_name::<T>()
}

#[test]
fn the_names_of_this_crate_are_segues() {
    assert!(!on_a_fiber());
    assert!(std::thread::spawn(on_a_fiber).join().unwrap());
    assert!(::std::thread::spawn(on_a_fiber).join().unwrap());
    assert!(spawned!(on_a_fiber()));
    assert!(std::thread::scope(|s| s.spawn(on_a_fiber).join().unwrap()));
    assert_eq!(inner::count() + 1, inner::count());
    let _: segue::net::TcpListener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let _: std::sync::Arc<segue::sync::Once> = std::sync::Arc::default();
    assert!(name::<std::time::Instant>().starts_with("segue_std::"));
    assert!(name::<std::process::Command>().starts_with("segue_std::"));
    assert!(name::<std::io::Stdin>().starts_with("segue_std::"));
    assert!(name::<std::os::unix::net::UnixStream>().starts_with("segue_io::"));
    assert!(name::<std::fs::File>().starts_with("segue_io::"));
}

#[test]
fn names_that_segue_lacks_are_stds() {
    assert!(name::<std::collections::HashMap<u8, u8>>().starts_with("std::"));
    assert!(name::<std::time::SystemTime>().starts_with("std::"));
    assert!(name::<std::sync::Weak<u8>>().starts_with("alloc::"));
    assert!(std::env::args().count() > 0 && !std::thread::panicking());
    assert!(std::thread::available_parallelism().is_ok());
}

#[test]
fn macros_of_std_go_on() {
    thread_local!(static LOCAL: std::cell::Cell<u32> = const { std::cell::Cell::new(7) });
    std::thread_local!(static OTHER: std::cell::Cell<u32> = const { std::cell::Cell::new(1) });
    let text = format!("{}{:?}", LOCAL.with(std::cell::Cell::get), vec![OTHER.with(std::cell::Cell::get)]);
    println!("{}", text);
    std::println!("{}", text);
    assert_eq!(text, "7[1]");
    assert!(matches!(text.find('['), Some(1)));
    let failed = std::panic::catch_unwind(|| std::panic!("out of ink")).unwrap_err();
    assert_eq!(failed.downcast_ref::<&str>(), Some(&"out of ink"));
    let _ = (line!(), concat!("a", "b"), module_path!(), std::env!("CARGO_PKG_NAME"), std::mem::size_of::<u8>());
}

/// Its macro writes `::std::thread_local!` and `::std::cell::Cell`.
#[test]
fn a_macro_of_another_crate_that_names_std_goes_on() {
    scoped_tls::scoped_thread_local!(static LENT: u32);
    assert_eq!(LENT.set(&7, || LENT.with(|lent| *lent)), 7);
}

#[test]
fn derives_go_on() {
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
    struct Point {
        x: i32,
        y: i32,
    }
    let point = Point { x: 1, ..Point::default() };
    assert_eq!(format!("{:?}", point), "Point { x: 1, y: 0 }");
    let places: std::collections::HashSet<_> = vec![point].into_iter().collect();
    assert!(places.contains(&point) && point > Point::default());
}
