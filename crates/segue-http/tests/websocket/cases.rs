//! The cases of Autobahn's test suite, sections 1 to 5, 7, 9 and 10, of the numbers that stand
//! here; with the answers that the suite calls strict. Each is sent in several ways.

use super::common::{Step, plain, send, serve};
use super::frames::*;
use super::{ASK, HEAD, echo};
use segue_http::websocket::Options;

/// The frames of a client, and those that the server answers with. The client says goodbye with
/// 1000 behind them, to which the answer is not written here.
pub struct Case {
    pub name: String,
    pub sent: Vec<Vec<u8>>,
    pub answers: Vec<(u8, Vec<u8>)>,
    /// The code of the server's goodbye: 1000, an answer; or another one, after a violation.
    pub code: u16,
}

pub fn case(name: impl Into<String>, sent: Vec<Vec<u8>>, answers: &[(u8, &[u8])], code: u16) -> Case {
    let answers = answers.iter().map(|(opcode, payload)| (*opcode, payload.to_vec())).collect();
    Case { name: name.into(), sent, answers, code }
}

/// Checks a case in several pieces each: all at once, frame by frame, and bytes by bytes.
pub fn check(case: &Case) {
    let frames: Vec<_> = case.sent.iter().cloned().chain([close(1000)]).collect();
    let bytes = frames.concat();
    let mut ways: Vec<Vec<Step>> = vec![frames.iter().map(send).collect()];
    let sizes: &[usize] = if bytes.len() < 20_000 { &[1, 3] } else { &[usize::MAX, 997] };
    ways.extend(sizes.iter().map(|&size| bytes.chunks(size).map(send).collect()));
    // In one segment with the request.
    let together = [ASK.as_bytes(), &bytes].concat();
    check_way(case, vec![send(together)]);
    for way in ways {
        check_way(case, [send(ASK)].into_iter().chain(way).collect());
    }
}

fn check_way(case: &Case, mut steps: Vec<Step>) {
    steps.push(Step::End);
    let log = serve(plain(), steps, |request| echo(&Options::new(), request));
    let output = log.output();
    let frames = of_server(output.strip_prefix(HEAD.as_bytes()).expect("the handshake"));
    let (last, answers) = frames.split_last().expect("a goodbye");
    assert_eq!(last.0, CLOSE, "{}: {frames:?}", case.name);
    assert_eq!(code_of(&last.1), case.code, "{}", case.name);
    assert!(answers == case.answers, "{}: {answers:?}", case.name);
}

pub fn code_of(payload: &[u8]) -> u16 {
    if payload.is_empty() { 1005 } else { u16::from_be_bytes([payload[0], payload[1]]) }
}

fn check_all(cases: Vec<Case>) {
    assert!(!cases.is_empty());
    cases.iter().for_each(check);
}

#[test]
fn messages_of_all_lengths_come_back() {
    let mut cases = Vec::new();
    for (section, opcode, byte) in [("1.1", TEXT, b'*'), ("1.2", BINARY, 0xfe)] {
        for length in [0, 1, 125, 126, 127, 128, 65_535, 65_536] {
            let payload = vec![byte; length];
            let name = format!("{section} {length}");
            cases.push(case(name, vec![last(opcode, &payload)], &[(opcode, &payload)], 1000));
        }
        // 9: large messages, in fragments.
        for size in [64, 256, 1_024, 4_096, 16_384, 65_536] {
            let payload = vec![byte; 200_000];
            let name = format!("9 {opcode} {size}");
            cases.push(case(name, fragments(opcode, &payload, size), &[(opcode, &payload)], 1000));
        }
    }
    // 10.1.1
    let payload = vec![b'*'; 65_536];
    cases.push(case("10.1.1", fragments(TEXT, &payload, 1_300), &[(TEXT, &payload)], 1000));
    check_all(cases);
}

#[test]
fn pings_are_answered_and_pongs_are_not() {
    let long = [0xfe; 125];
    let ten: Vec<Vec<u8>> = (0..10).map(|n| format!("payload-{n}").into_bytes()).collect();
    let pongs: Vec<(u8, &[u8])> = ten.iter().map(|payload| (PONG, &**payload)).collect();
    let binary = [0x00, 0xff, 0xfe, 0xfd, 0xfc, 0xfb, 0x00, 0xff];
    check_all(vec![
        case("2.1", vec![last(PING, b"")], &[(PONG, b"")], 1000),
        case("2.2", vec![last(PING, b"Hello, world!")], &[(PONG, b"Hello, world!")], 1000),
        case("2.3", vec![last(PING, binary)], &[(PONG, &binary)], 1000),
        case("2.4, 2.6", vec![last(PING, long)], &[(PONG, &long)], 1000),
        case("2.5", vec![last(PING, [0xfe; 126])], &[], 1002),
        case("2.7", vec![last(PONG, b"")], &[], 1000),
        case("2.8", vec![last(PONG, b"unsolicited")], &[], 1000),
        case("2.9", vec![last(PONG, b"unsolicited"), last(PING, b"ping")], &[(PONG, b"ping")], 1000),
        case("2.10, 2.11", ten.iter().map(|payload| last(PING, payload)).collect(), &pongs, 1000),
    ]);
}

#[test]
fn reserved_bits_and_opcodes_are_violations() {
    let hello = last(TEXT, b"Hello");
    let mut cases = Vec::new();
    for bits in 1..8 {
        for opcode in [TEXT, BINARY, PING, PONG, CLOSE] {
            let bad = raw(0x80 | bits << 4 | opcode, b"Hi");
            cases.push(case(format!("3 {bits} {opcode}"), vec![bad.clone()], &[], 1002));
            let name = format!("3 {bits} {opcode} behind");
            let sent = vec![hello.clone(), bad, last(PING, b"late")];
            cases.push(case(name, sent, &[(TEXT, b"Hello")], 1002));
        }
    }
    for opcode in [3, 4, 5, 6, 7, 11, 12, 13, 14, 15] {
        for payload in [&b""[..], b"reserved opcode payload"] {
            let bad = last(opcode, payload);
            cases.push(case(format!("4 {opcode}"), vec![bad.clone()], &[], 1002));
            let sent = vec![hello.clone(), bad, last(PING, b"late")];
            cases.push(case(format!("4 {opcode} behind"), sent, &[(TEXT, b"Hello")], 1002));
            let within = vec![part(TEXT, b"a"), last(opcode, payload)];
            cases.push(case(format!("4 {opcode} within"), within, &[], 1002));
        }
    }
    check_all(cases);
}

#[test]
fn fragments_are_put_together_and_control_frames_may_stand_between() {
    let (one, two) = (&b"fragment1"[..], &b"fragment2"[..]);
    let both: &[u8] = b"fragment1fragment2";
    let (pong, ok): ((u8, &[u8]), u16) = ((PONG, b"ping"), 1000);
    let ping = last(PING, b"ping");
    let mut cases = vec![
        case("5.1", vec![part(PING, one), last(CONTINUE, two)], &[], 1002),
        case("5.2", vec![part(PONG, one), last(CONTINUE, two)], &[], 1002),
        case("5 close", vec![part(CLOSE, b"\x03\xe8")], &[], 1002),
        case("5.3 to 5.5", vec![part(TEXT, one), last(CONTINUE, two)], &[(TEXT, both)], ok),
        case("5 binary", vec![part(BINARY, one), last(CONTINUE, two)], &[(BINARY, both)], ok),
        case("5.6 to 5.8", vec![part(TEXT, one), ping.clone(), last(CONTINUE, two)], &[pong, (TEXT, both)], ok),
        case("5 pong", vec![part(TEXT, one), last(PONG, b"x"), last(CONTINUE, two)], &[(TEXT, both)], ok),
        case("5.9 to 5.11", vec![last(CONTINUE, one), last(TEXT, b"Hi")], &[], 1002),
        case("5.12 to 5.14", vec![part(CONTINUE, one), last(TEXT, b"Hi")], &[], 1002),
        case(
            "5.15",
            vec![part(TEXT, one), last(CONTINUE, two), part(CONTINUE, b"f3"), last(TEXT, b"f4")],
            &[(TEXT, both)],
            1002,
        ),
        case("5.16", vec![part(CONTINUE, one), part(TEXT, b"a"), last(CONTINUE, two)], &[], 1002),
        case("5.17", vec![last(CONTINUE, one), part(TEXT, b"a"), last(CONTINUE, two)], &[], 1002),
        case("5.18", vec![part(TEXT, one), last(TEXT, two)], &[], 1002),
        case("5 mixed", vec![part(BINARY, one), last(TEXT, two)], &[], 1002),
        case("5 begun twice", vec![part(TEXT, one), part(BINARY, two)], &[], 1002),
        case(
            "5.19, 5.20",
            vec![
                part(TEXT, b"f1"),
                part(CONTINUE, b"f2"),
                ping.clone(),
                part(CONTINUE, b"f3"),
                part(CONTINUE, b"f4"),
                ping,
                last(CONTINUE, b"f5"),
            ],
            &[pong, pong, (TEXT, b"f1f2f3f4f5")],
            ok,
        ),
        case("6.1.1", vec![last(TEXT, b"")], &[(TEXT, b"")], ok),
        case("6.1.2", vec![part(TEXT, b""), part(CONTINUE, b""), last(CONTINUE, b"")], &[(TEXT, b"")], ok),
        case("6.1.3", vec![part(TEXT, b""), part(CONTINUE, b"mid"), last(CONTINUE, b"")], &[(TEXT, b"mid")], ok),
    ];
    // Messages in random fragments, with pings between.
    let mut seed = 7u64;
    let mut random = |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) as usize % below
    };
    for round in 0..100 {
        let payload: Vec<u8> = (0..random(3_000)).map(|_| random(256) as u8).collect();
        let (mut sent, mut answers) = (Vec::new(), Vec::new());
        for (at, frame) in fragments(BINARY, &payload, 1 + random(500)).into_iter().enumerate() {
            if random(2) == 0 {
                let text = format!("{round} {at}");
                sent.push(last(PING, &text));
                answers.push((PONG, text.into_bytes()));
            }
            sent.push(frame);
        }
        answers.push((BINARY, payload));
        cases.push(Case { name: format!("5 random {round}"), sent, answers, code: ok });
    }
    check_all(cases);
}

#[test]
fn goodbyes_are_answered_and_bad_ones_refused() {
    let reason = |code: u16, reason: &[u8]| last(CLOSE, [&code.to_be_bytes(), reason].concat());
    let hello = last(TEXT, b"Hello");
    let mut cases = vec![
        case("7.1.1", vec![hello.clone()], &[(TEXT, b"Hello")], 1000),
        case("7.1.2", vec![close(1000), close(1000)], &[], 1000),
        case("7.1.3", vec![close(1000), last(PING, b"late")], &[], 1000),
        case("7.1.4", vec![close(1000), hello.clone()], &[], 1000),
        case("7.1.5", vec![part(TEXT, b"f1"), close(1000), last(CONTINUE, b"f2")], &[], 1000),
        case("7.3.1", vec![last(CLOSE, b"")], &[], 1005),
        case("7.3.2", vec![last(CLOSE, b"a")], &[], 1002),
        case("7.3.3", vec![close(1000)], &[], 1000),
        case("7.3.4", vec![reason(1000, b"Hello World!")], &[], 1000),
        case("7.3.5", vec![reason(1000, &[b'*'; 123])], &[], 1000),
        case("7.3.6", vec![reason(1000, &[b'*'; 124])], &[], 1002),
        case("7.5.1", vec![reason(1000, b"\xce\xba\xed\xa0\x80edited")], &[], 1007),
    ];
    for code in (1000..=1003).chain(1007..=1013).chain([3000, 3999, 4000, 4999]) {
        cases.push(case(format!("7.7 {code}"), vec![close(code)], &[], code));
        cases.push(case(format!("7.7 {code} late"), vec![hello.clone(), close(code)], &[(TEXT, b"Hello")], code));
    }
    for code in [0, 1, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65_535] {
        cases.push(case(format!("7.9, 7.13 {code}"), vec![close(code)], &[], 1002));
        cases.push(case(format!("7.9 {code} reason"), vec![reason(code, b"why")], &[], 1002));
    }
    check_all(cases);
}

#[test]
fn frames_without_a_mask_or_of_impossible_lengths_are_violations() {
    let bare = |first: u8, payload: &[u8]| [head(first, 0, payload.len() as u64), payload.to_vec()].concat();
    let mut cases = Vec::new();
    for opcode in [TEXT, BINARY, PING, PONG, CLOSE] {
        for payload in [&b""[..], b"\x03\xe8"] {
            cases.push(case(format!("no mask {opcode}"), vec![bare(0x80 | opcode, payload)], &[], 1002));
        }
    }
    cases.push(case("no mask, continued", vec![part(TEXT, b"a"), bare(0x80, b"b")], &[], 1002));
    for length in [65_537, 1 << 20, 1 << 32, (1 << 63) - 1, 1 << 63, u64::MAX] {
        let name = format!("length {length}");
        cases.push(case(name, vec![[head(0x82, 0x80, length), b"....payload".to_vec()].concat()], &[], 1009));
    }
    check_all(cases);
}
