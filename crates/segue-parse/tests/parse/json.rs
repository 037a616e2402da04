//! JSON, beside serde_json.

use super::alike::json::{Json, parsed_by_serde, theirs};
use super::alike::json_grammar::document;
use super::splits::{check, check_all};
use segue_parse::Input;
use serde_json::Value as Theirs;

const GOOD: &[&str] = &[
    r#"{"name": "straight \u00e9 \ud83d\ude00 \"\\\/\b\f\n\r\t", "numbers": [1, -2.5e10, 0, 18446744073709551615]}"#,
    " [[[[]]], {\"a\": {\"b\": [true, false, null]}}, \"\" ,{}]  ",
    "12345",
    "-0.0",
    "[0, -1, 1E5, 1e-5, 1.25e+3, 123456789012345678901234567890, 4.9e-324, 0.1]",
    "{\"twice\": 1, \"twice\": 2}",
    "\"\u{e9}\u{20ac}\u{1f600}\u{7f}\"",
    "\t\r\n null",
];

const BAD: &[&[u8]] = &[
    b"",
    b" ",
    b"nul",
    b"nullx",
    b"truE",
    b"[1,]",
    b"[,1]",
    b"[1 2]",
    b"[",
    b"]",
    b"{",
    b"{\"a\"}",
    b"{\"a\":}",
    b"{\"a\":1,}",
    b"{a:1}",
    b"{\"a\" 1}",
    b"[1}",
    b"01",
    b"-",
    b"+1",
    b".5",
    b"1.",
    b"1.e5",
    b"1e",
    b"1e+",
    b"0x10",
    b"--1",
    b"1e400",
    b"-1e400",
    b"NaN",
    b"\"",
    b"\"a",
    b"\"\\\"",
    b"\"\\x\"",
    b"\"\\u12\"",
    b"\"\\u12g4\"",
    b"\"\\ud800\"",
    b"\"\\udc00\"",
    b"\"\\ud800\\ud800\"",
    b"\"\\ud800\\u0041\"",
    b"\"\\ud800x\"",
    b"\"\n\"",
    b"\"\0\"",
    b"\0",
    b"[1]\0",
    b"\"\xff\"",
    b"\"\xc3\"",
    b"\"\xe2\x82\"",
    b"\"\xed\xa0\x80\"",
    b"\"\xc0\x80\"",
    b"\xef\xbb\xbf1",
    b"'a'",
    b"[1] [2]",
    b"/* */ 1",
    b"\"\\",
    b"\"\\u",
    b"tru\"",
];

#[test]
fn each_split_has_the_outcome_of_the_whole_which_is_that_of_serde_json() {
    let inputs: Vec<&[u8]> = GOOD.iter().map(|text| text.as_bytes()).chain(BAD.iter().copied()).collect();
    check_all(Json, &inputs);
    GOOD.iter().for_each(|text| assert!(check(Json, text.as_bytes()).is_ok(), "{text}"));
    BAD.iter().for_each(|text| assert!(check(Json, text).is_err(), "{}", text.escape_ascii()));
}

#[test]
fn random_documents_are_as_serde_json_has_them() {
    fn random(rng: &mut fastrand::Rng, depth: u32) -> Theirs {
        let text = |rng: &mut fastrand::Rng| (0..rng.usize(..9)).map(|_| rng.char(..)).collect::<String>();
        match rng.u32(..if depth > 4 { 5 } else { 7 }) {
            0 => Theirs::Null,
            1 => rng.bool().into(),
            2 => rng.i64(..).into(),
            3 => f64::from_bits(rng.u64(..)).into(),
            4 => text(rng).into(),
            5 => (0..rng.usize(..5)).map(|_| random(rng, depth + 1)).collect(),
            _ => (0..rng.usize(..5)).map(|_| (text(rng), random(rng, depth + 1))).collect(),
        }
    }
    let mut rng = fastrand::Rng::with_seed(3);
    for round in 0..2000 {
        let value = random(&mut rng, 0);
        let text = if round % 2 == 0 { serde_json::to_vec(&value) } else { serde_json::to_vec_pretty(&value) }.unwrap();
        let ours = document(&mut Input::of(&text)).unwrap();
        assert_eq!(Some(theirs(ours)), parsed_by_serde(&text), "{}", text.escape_ascii());
    }
}

#[test]
fn errors_say_where_and_what_was_expected() {
    let report = |text: &str| {
        let mut input = Input::of(text.as_bytes());
        document(&mut input).map_err(|error| input.report(error).to_string()).unwrap_err()
    };
    assert_eq!(report("{\n  \"a\": 1;"), "line 2, column 9: expected `,` or `}`, found `;`");
    assert_eq!(report("[1,"), "line 1, column 4: expected a value, found the end of the input");
    assert_eq!(report("[trie]"), "line 1, column 4: expected `true`, found `i`");
    assert_eq!(report("\n1e999"), "line 2, column 1: a number is out of range");
    assert_eq!(report("[]x"), "line 1, column 3: expected the end of the input, found `x`");
    assert_eq!(report("\"\\q\""), "line 1, column 3: expected an escape, found `q`");
}
