//! The same stream of requests has the same responses wherever it is cut.

use crate::common;

use std::io::Read;

use common::*;
use segue_http::{IntoResponse, Request};

/// Requests of every kind in one pipelined stream; the last one is refused.
fn stream() -> Vec<u8> {
    [
        "GET /a?b=c HTTP/1.1\r\nHost: h\r\n\r\n",
        "\r\nPOST /length HTTP/1.1\r\nHost: h\r\nContent-Length: 11\r\n\r\nhello\r\n\r\nGE",
        "HEAD /head HTTP/1.1\r\nHost: h\r\nA: 1\r\nB: 2\r\nC: 3\r\nD: 4\r\n\r\n",
        "POST /chunks HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n\
         3\r\nabc\r\n0a;x=y\r\n0123456789\r\n1 ; z\r\n\n\r\n0\r\nT: u\r\nV: w\r\n\r\n",
        "PUT /unread HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n0123456789",
        "PUT /unread HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nGET \r\n0\r\n\r\n",
        "POST /expect HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nhi",
        "GET /old HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
        "GET /stream HTTP/1.1\r\nHost: h\r\n\r\n",
        "GET /last HTTP/1.1\r\nHost: h\r\nBad Header: x\r\n\r\n",
    ]
    .concat()
    .into_bytes()
}

fn handler(request: &mut Request<'_>) -> segue_http::Response {
    match request.uri().path() {
        "/unread" => "unread".into_response(),
        "/stream" => http::Response::new(segue_http::Payload::reader(&b"streamed"[..])).into_response(),
        _ => {
            let mut body = String::new();
            let result = request.body_mut().read_to_string(&mut body);
            let trailers = request.body().trailers().len();
            format!("{} {} {result:?} {body} {trailers}", request.method(), request.uri()).into_response()
        }
    }
}

/// What the server answers to the pieces.
fn output(pieces: impl Iterator<Item = Vec<u8>>, handler: fn(&mut Request<'_>) -> segue_http::Response) -> String {
    serve(plain(), pieces.map(Step::Send).chain([Step::End]), handler).text()
}

/// The places at which a cut in two changes the answer.
fn differences(handler: fn(&mut Request<'_>) -> segue_http::Response) -> Vec<usize> {
    let stream = stream();
    let whole = output([stream.clone()].into_iter(), handler);
    (1..stream.len())
        .filter(|&cut| output([stream[..cut].to_vec(), stream[cut..].to_vec()].into_iter(), handler) != whole)
        .collect()
}

#[test]
fn the_whole_stream_is_answered_as_expected() {
    let text = output([stream()].into_iter(), handler);
    let replies = replies(text.as_bytes(), &[2]);
    let statuses: Vec<u16> = replies.iter().map(|reply| reply.status).collect();
    assert_eq!(statuses, [200, 200, 200, 200, 200, 200, 100, 200, 200, 200, 400]);
    assert_eq!(replies[0].text(), "GET /a?b=c Ok(0)  0");
    assert_eq!(replies[1].text(), "POST /length Ok(11) hello\r\n\r\nGE 0");
    assert_eq!(replies[3].text(), "POST /chunks Ok(14) abc0123456789\n 2");
    assert_eq!(replies[9].text(), "streamed");
}

#[test]
fn every_cut_in_two_has_the_same_answer() {
    assert_eq!(differences(handler), [0; 0]);
}

#[test]
fn every_cut_into_equal_pieces_has_the_same_answer() {
    let stream = stream();
    let whole = output([stream.clone()].into_iter(), handler);
    for size in 1..stream.len() {
        assert_eq!(output(stream.chunks(size).map(<[u8]>::to_vec), handler), whole, "pieces of {size}");
    }
}

#[test]
fn random_cuts_have_the_same_answer() {
    let stream = stream();
    let whole = output([stream.clone()].into_iter(), handler);
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    for round in 0..2000 {
        let mut pieces = vec![];
        let mut rest = &stream[..];
        while !rest.is_empty() {
            // xorshift64
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let size = (state % 60 + 1) as usize;
            let (piece, after) = rest.split_at(size.min(rest.len()));
            pieces.push(piece.to_vec());
            rest = after;
        }
        assert_eq!(output(pieces.into_iter(), handler), whole, "round {round}");
    }
}

/// The comparison is able to fail: this handler's answers do depend on how its body arrives.
#[test]
fn an_answer_that_depends_on_the_cut_is_noticed() {
    let found = differences(|request| {
        let first = request.body_mut().read(&mut [0; 100]);
        format!("{first:?}").into_response()
    });
    // Within the body of each request that has one, between two of its bytes.
    assert!(found.len() >= 10, "{found:?}");
}

/// A stream of garbage is refused or waited for, and never panics or reads on for ever.
#[test]
fn mutations_of_the_stream_are_survived() {
    let stream = stream();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut refused = 0;
    for _ in 0..5000 {
        let mut mutated = stream.clone();
        for _ in 0..3 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let at = (state >> 8) as usize % mutated.len();
            match state % 3 {
                0 => mutated[at] = (state >> 40) as u8,
                1 => drop(mutated.remove(at)),
                _ => mutated.insert(at, b"\r\n :;0f\0"[(state >> 40) as usize % 8]),
            }
        }
        let whole = serve(plain(), [send(&mutated), Step::End], handler).text();
        let pieces = serve(plain(), mutated.chunks(1).map(send).chain([Step::End]), handler).text();
        refused += usize::from(whole.contains("HTTP/1.1 400"));
        assert_eq!(status_lines(&whole), status_lines(&pieces), "{:?}", String::from_utf8_lossy(&mutated));
    }
    assert!(refused > 1000, "the mutations hardly hurt: {refused}");
}

fn status_lines(text: &str) -> Vec<&str> {
    text.split("HTTP/1.1 ").skip(1).map(|response| &response[..3]).collect()
}
