//! Autobahn's section 6: text that is UTF-8, and text that is not, in all kinds of pieces.

use super::cases::{case, check};
use super::common::{plain, send, serve};
use super::frames::*;
use super::{ASK, HEAD, echo};
use segue_http::websocket::Options;

const VALID: &[&[u8]] = &[
    b"",
    b"Hello World!",
    b"Hello-\xc2\xb5@\xc3\x9f\xc3\xb6\xc3\xa4\xc3\xbc\xc3\xa0\xc3\xa1-UTF-8!!",
    b"\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5",
    b"\x00",
    b"\xc2\x80",
    b"\xe0\xa0\x80",
    b"\xf0\x90\x80\x80",
    b"\x7f",
    b"\xdf\xbf",
    b"\xef\xbf\xbf",
    b"\xf4\x8f\xbf\xbf",
    b"\xed\x9f\xbf",
    b"\xee\x80\x80",
    b"\xef\xbf\xbd",
    b"\xef\xbf\xbe",
    b"\xf0\x9f\xbf\xbe",
    b"\xf0\x9f\xbf\xbf",
    b"\xf0\xaf\xbf\xbe",
    b"\xf0\xbf\xbf\xbf",
    b"\xf1\x8f\xbf\xbe",
    b"\xf1\x9f\xbf\xbf",
    b"\xf2\x8f\xbf\xbe",
    b"\xf3\xbf\xbf\xbf",
    b"\xf4\x8f\xbf\xbe",
    b"a\xf0\x9f\x99\x82b\xe2\x82\xacc\xc3\xa4d",
];

/// Each is no UTF-8, with more bytes behind or without.
const INVALID: &[&[u8]] = &[
    b"\x80",
    b"\xbf",
    b"\x80\xbf",
    b"\x80\xbf\x80",
    b"\xc0 ",
    b"\xc1 ",
    b"\xdf ",
    b"\xe0 ",
    b"\xef ",
    b"\xf0 ",
    b"\xf7 ",
    b"\xf8 ",
    b"\xfc ",
    b"\xfd ",
    b"\xfe",
    b"\xff",
    b"\xfe\xfe\xff\xff",
    b"\xc0\x80",
    b"\xc0\xaf",
    b"\xc1\xbf",
    b"\xe0\x80\xaf",
    b"\xe0\x9f\xbf",
    b"\xe0\x80\x80",
    b"\xf0\x80\x80\xaf",
    b"\xf0\x8f\xbf\xbf",
    b"\xf0\x80\x80\x80",
    b"\xf8\x80\x80\x80\xaf",
    b"\xf8\x87\xbf\xbf\xbf",
    b"\xf8\x88\x80\x80\x80",
    b"\xfb\xbf\xbf\xbf\xbf",
    b"\xfc\x80\x80\x80\x80\xaf",
    b"\xfc\x84\x80\x80\x80\x80",
    b"\xfd\xbf\xbf\xbf\xbf\xbf",
    b"\xf4\x90\x80\x80",
    b"\xf5\x80\x80\x80",
    b"\xf7\xbf\xbf\xbf",
    b"\xed\xa0\x80",
    b"\xed\xad\xbf",
    b"\xed\xae\x80",
    b"\xed\xaf\xbf",
    b"\xed\xb0\x80",
    b"\xed\xbf\xbf",
    b"\xed\xa0\x80\xed\xb0\x80",
    b"\xed\xaf\xbf\xed\xbf\xbf",
    b"\xe2\x82 ",
    b"\xe2 \x82",
    b"\xf0\x9f\x99 ",
    b"\xf0\x9f \x99",
    b"\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5\xed\xa0\x80edited",
    b"\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5\xf4\x90\x80\x80edited",
];

/// Each is the beginning of UTF-8, without its end.
const UNFINISHED: &[&[u8]] = &[
    b"\xc2",
    b"\xdf",
    b"\xe0\xa0",
    b"\xe1",
    b"\xef\xbf",
    b"\xf0\x90\x80",
    b"\xf0\x90",
    b"\xf4\x8f\xbf",
    b"\xf1",
    b"text\xce",
    b"\xce\xba\xe1\xbd",
];

#[test]
fn text_comes_back_whatever_its_pieces() {
    for (at, text) in VALID.iter().enumerate() {
        for size in [usize::MAX, 1, 2, 3] {
            let sent = fragments(TEXT, text, size.min(1_000));
            check(&case(format!("6 valid {at} {size}"), sent, &[(TEXT, text)], 1000));
        }
    }
}

#[test]
fn text_that_is_no_utf_8_ends_the_connection() {
    for (at, text) in INVALID.iter().chain(UNFINISHED).enumerate() {
        for (before, behind) in [("", ""), ("fine: ", "a"), ("\u{20ac}", "a tail")] {
            // A beginning becomes wrong by anything but its end.
            let whole = [before.as_bytes(), text, behind.as_bytes()].concat();
            for size in [1_000, 1] {
                let name = format!("6 invalid {at} {before:?} {behind:?} {size}");
                check(&case(name, fragments(TEXT, &whole, size), &[], 1007));
            }
        }
        // As bytes the same is fine, and as a part of a ping.
        check(&case(format!("6 bytes {at}"), vec![last(BINARY, text)], &[(BINARY, text)], 1000));
        check(&case(format!("6 ping {at}"), vec![last(PING, text)], &[(PONG, text)], 1000));
        let reason = last(CLOSE, [b"\x03\xe8", *text].concat());
        check(&case(format!("6 reason {at}"), vec![reason], &[], 1007));
    }
}

#[test]
fn a_bad_fragment_is_refused_before_the_message_ends() {
    for bad in INVALID {
        // The client waits for the answer, and sends no last fragment.
        let steps = [send(ASK), send(part(TEXT, b"fine")), send(part(CONTINUE, [bad, &b"!!!!!!"[..]].concat()))];
        let log =
            serve(plain().linger_timeout(std::time::Duration::ZERO), steps, |request| echo(&Options::new(), request));
        let output = log.output();
        let frames = of_server(output.strip_prefix(HEAD.as_bytes()).unwrap());
        assert_eq!(frames, [(CLOSE, 1007u16.to_be_bytes().to_vec())], "{bad:?}");
        assert!(log.waited().as_millis() < 1, "{bad:?}");
    }
}
