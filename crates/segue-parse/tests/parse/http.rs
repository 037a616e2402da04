//! Heads of requests, beside httparse.

use super::alike::Grammar;
use super::alike::http::Http;
use super::splits::check_all;
use segue_parse::Input;

const HEADS: &[&[u8]] = &[
    b"GET / HTTP/1.1\r\n\r\n",
    b"GET /a?b=c HTTP/1.0\r\nHost: localhost\r\nAccept: */*\r\n\r\nthe body",
    b"\r\n\nPOST /x HTTP/1.1\nA:b\nEmpty:\nBlank: \t \nTabs:\ta\tb \t\n\n",
    b"M-SEARCH * HTTP/1.1\r\nName: \xc3\xa9\xff\r\n\r\n",
    "GET /\u{e9} HTTP/1.1\r\nX: y\r\n\r\n".as_bytes(),
    b"GET /wp-content/uploads/2010/03/hello-kitty-darth-vader-pink.jpg HTTP/1.1\r\nHost: www.kittyhell.com\r\n\
      User-Agent: Mozilla/5.0 (Macintosh; U; Intel Mac OS X 10.6; ja-JP-mac; rv:1.9.2.3) Gecko/20100401\r\n\
      Accept-Language: ja,en-us;q=0.7,en;q=0.3\r\nKeep-Alive: 115\r\nConnection: keep-alive\r\n\r\n",
    // Bad ones.
    b"",
    b"GET",
    b" / HTTP/1.1\r\n\r\n",
    b"GET  / HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1 \r\n\r\n",
    b"GET / HTTP/2.0\r\n\r\n",
    b"GET / HTTP/1.2\r\n\r\n",
    b"GET /\xff HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\r\n\r\n",
    b"GET\0/ HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\nA b: c\r\n\r\n",
    b"GET / HTTP/1.1\r\nA : b\r\n\r\n",
    b"GET / HTTP/1.1\r\n: b\r\n\r\n",
    b"GET / HTTP/1.1\r\nA: b\r\n c\r\n\r\n",
    b"GET / HTTP/1.1\r\nA: b\0c\r\n\r\n",
    b"GET / HTTP/1.1\r\nA: b\rc\r\n\r\n",
    b"GET / HTTP/1.1\r\nA: \x7f\r\n\r\n",
    b"GET / HTTP/1.1\r\nA\r\n\r\n",
    b"G(T / HTTP/1.1\r\n\r\n",
    b"\rGET / HTTP/1.1\r\n\r\n",
];

#[test]
fn each_split_has_the_outcome_of_the_whole_which_is_that_of_httparse() {
    check_all(Http, HEADS);
}

#[test]
fn each_wrong_byte_has_the_outcome_of_httparse() {
    let head = HEADS[1];
    for at in 0..head.len() {
        for byte in 0..=255 {
            let mut wrong = head.to_vec();
            wrong[at] = byte;
            Http.beside(&wrong, &Http.outcome(Input::of(&wrong)));
        }
    }
}
