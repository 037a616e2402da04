//! std's names in a program without schedulers: what is spawned are threads, and all else is as it
//! is on fibers. `std_names.rs` has the cases on std itself and on every scheduler.
#![cfg(not(feature = "sched"))]

mod on_threads {
    use segue::std as like;
    include!("std_names/cases.rs");
}

macro_rules! cases {
    ($($name:ident),* $(,)?) => {$(
        #[test]
        fn $name() {
            on_threads::$name();
        }
    )*};
}

include!("std_names/list.rs");

#[test]
fn a_thread_that_was_spawned_has_the_name_and_the_identity_that_its_handle_tells() {
    let named = segue::std::thread::Builder::new().name("courier".to_owned());
    let handle = named.spawn(segue::std::thread::current).unwrap();
    let told = handle.thread().id();
    let own = handle.join().unwrap();
    assert_eq!((own.id(), own.name()), (told, Some("courier")));
    assert_ne!(segue::std::thread::current().id(), told);
}
