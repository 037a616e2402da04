//! Tables as text, beside csv.

use super::alike::Grammar;
use super::alike::csv::Csv;
use super::splits::check_all;
use segue_parse::Input;

#[test]
fn each_split_has_the_outcome_of_the_whole_which_is_that_of_csv() {
    let mut long = b"number,text\n".to_vec();
    (0..50).for_each(|number| long.extend(format!("{number},\"a \"\"text\"\",\nof two lines\"\n").bytes()));
    let inputs: [&[u8]; 9] = [
        b"a,b,c\r\n1,2,3\r\n\"x,y\",,z\r\n",
        b"one\n\n\ntwo\r\r\nthree",
        &long,
        b"",
        b"\n\r\n",
        b",\n,,",
        b"\"\"\n\"\"\"\"",
        b"\xff,\0,\xc3\n",
        b"a,\"b\"\r\n",
    ];
    check_all(Csv, &inputs);
}

#[test]
fn quotes_in_the_wrong_place_are_errors() {
    for (text, report) in [
        ("a\"b", "line 1, column 2: expected a comma or the end of the line, found `\\\"`"),
        ("\n\"a\"b", "line 2, column 4: expected a comma or the end of the line, found `b`"),
        ("\"a\nb", "line 2, column 2: expected `\\\"`, found the end of the input"),
    ] {
        let outcome = Csv.outcome(Input::of(text.as_bytes())).unwrap_err();
        assert!(outcome.starts_with(report), "{outcome}");
    }
}
