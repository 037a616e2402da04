//! The Redis protocol, beside a client.

use super::alike::Grammar;
use super::alike::resp::Resp;
use super::alike::resp_grammar::{Reply, reply};
use super::splits::check_all;
use segue_parse::Input;

const GOOD: &[&[u8]] = &[
    b"+OK\r\n",
    b"+PONG\r\nmore",
    b"-ERR unknown command 'x'\r\n",
    b":-9223372036854775808\r\n",
    b"$0\r\n\r\n",
    b"$7\r\na\r\nb\0\xffc\r\n",
    b"$-1\r\n",
    b"*0\r\n",
    b"*-1\r\n",
    b"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$5\r\nvalue\r\n",
    b"*4\r\n*2\r\n:1\r\n+a\r\n$-1\r\n*-1\r\n*1\r\n*1\r\n*0\r\n",
];

const BAD: &[&[u8]] = &[
    b"",
    b"?\r\n",
    b"\0",
    b"+OK",
    b"+OK\r",
    b"+OK\n",
    b"+\xff\r\n",
    b":\r\n",
    b":1.5\r\n",
    b":9223372036854775808\r\n",
    b"$-2\r\n",
    b"$3\r\nab\r\n",
    b"$3\r\nabcd\r\n",
    b"$99999999999999999999\r\n",
    b"*-2\r\n",
    b"*2\r\n:1\r\n",
    b"*1000000000000\r\n",
    b"*5000000\r\n",
    b"$1\n",
    b"*1\r\n?",
];

#[test]
fn each_split_has_the_outcome_of_the_whole_which_is_that_of_a_client() {
    let inputs: Vec<&[u8]> = GOOD.iter().chain(BAD).copied().collect();
    check_all(Resp, &inputs);
    GOOD.iter().for_each(|text| assert!(Resp.outcome(Input::of(text)).is_ok(), "{}", text.escape_ascii()));
    for text in BAD {
        assert!(Resp.outcome(Input::of(text)).is_err(), "{}", text.escape_ascii());
        // To the client each negative length is that of nothing.
        assert!(text.ends_with(b"-2\r\n") || redis::parse_redis_value(text).is_err(), "{}", text.escape_ascii());
    }
}

#[test]
fn replies_come_one_after_the_other() {
    let text = GOOD[..1].concat().repeat(3);
    let mut input = Input::over(&text[..]);
    let all: Vec<Reply> = input.many(|input| input.peek()?.map(|_| reply(input)).transpose()).unwrap();
    assert_eq!(all, vec![Reply::Simple("OK".into()); 3]);
}
