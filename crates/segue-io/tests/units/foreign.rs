//! A wait for a foreign descriptor is for the file behind its number. Part of
//! `descriptor/foreign.rs`.

use super::*;
use crate::driver::DriverPark;
use crate::selector::Backend;
use std::io::Write;
use std::os::fd::AsFd;

/// The number is closed and given out again while a fiber waits, which waits on for the file.
#[test]
fn a_wait_is_for_the_file_and_not_for_the_number() {
    for backend in [Backend::Ring, Backend::Native] {
        let test = || {
            let (reader, mut writer) = io::pipe().unwrap();
            let waited = Foreign::new(reader.as_fd().try_clone_to_owned().unwrap());
            segue_core::scope(|s| {
                let fiber = s.spawn(|| waited.readable(None));
                segue_core::yield_now().unwrap();
                drop(reader);
                let (_other, _number) = io::pipe().unwrap();
                segue_core::yield_now().unwrap();
                writer.write_all(b"x").unwrap();
                fiber.join().unwrap().unwrap();
            });
            let late = now() + Duration::from_millis(1);
            let (silent, _writer) = io::pipe().unwrap();
            let error = Foreign::new(silent.into()).readable(Some(late)).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        };
        segue_sched::Runtime::new().workers(1).park(move || DriverPark::with(backend)).run(test).unwrap();
    }
}
