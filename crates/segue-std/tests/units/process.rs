//! A stream that could not be had is an error of the command. Part of `process.rs`.

use super::*;

#[test]
fn a_stream_that_could_not_be_had_is_an_error_until_another_is_given() {
    let none = || Stdio(Err(io::Error::from_raw_os_error(24)));
    let mut command = Command::new("cat");
    command.stdout(none()).stdin(Stdio::null());
    for _ in 0..2 {
        let error = command.output().unwrap_err();
        assert_eq!(error.kind(), io::Error::from_raw_os_error(24).kind(), "{error}");
    }
    assert_eq!(command.stdout(Stdio::piped()).output().unwrap().stdout, b"");
}
