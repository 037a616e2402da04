//! Parsers that read, unmodified, behind `push`: each way to split an input has the outcome of the
//! whole input, errors and their places included.
//!
//! `SEGUE_SPLITS` is the number of random splits for each crate, by default 100 for each input.

use fastrand::Rng;
use segue::incremental::{Fed, Feed, push};
use segue::sched::fiber::leaked_stacks;
use std::fmt::Write as _;
use std::io::{BufRead, Cursor, Read, Write};

/// The outcome of a parse, as text.
type Parser = fn(&mut dyn BufRead) -> String;

/// The outcome of the whole input, and the number of bytes that were left.
///
/// A parser that reads ahead has all that there is: how many bytes it leaves after an error depends
/// on the split.
fn whole(parser: Parser, mut input: &[u8]) -> (String, usize) {
    let outcome = parser(&mut input);
    (outcome, input.len())
}

fn pushed<'i>(parser: Parser, pieces: impl IntoIterator<Item = &'i [u8]>) -> (String, usize) {
    let mut machine = push(move |input: &mut Feed| parser(input));
    let mut pieces = pieces.into_iter();
    while let Some(piece) = pieces.next() {
        if let Fed::Done { value, unread } = machine.feed(piece) {
            return (value, unread.len() + pieces.map(<[u8]>::len).sum::<usize>());
        }
    }
    (machine.finish(), 0)
}

/// Splits the inputs in all ways in two, byte by byte, and in random ways. Then the same with
/// inputs that are cut off, or have another byte somewhere. `is_error` tells the outcomes apart.
fn check(parser: Parser, is_error: fn(&str) -> bool, inputs: &[Vec<u8>]) {
    check_with(parser, is_error, false, inputs);
}

fn check_with(parser: Parser, is_error: fn(&str) -> bool, reads_ahead: bool, inputs: &[Vec<u8>]) {
    let (mut random, mut good, mut bad) = (Rng::with_seed(7), 0, 0);
    let mut all = inputs.to_vec();
    for input in inputs {
        for part in 1..6 {
            all.push(input[..input.len() * part / 6].to_vec());
            let mut wrong = input.clone();
            wrong[random.usize(..input.len())] ^= 1 << random.usize(..8);
            all.push(wrong);
        }
    }
    let of_all = std::env::var("SEGUE_SPLITS").map(|number| number.parse::<usize>().expect("a number of splits"));
    let random_splits = of_all.map_or(100, |number| number.div_ceil(all.len()));
    for input in all {
        let kept = |(outcome, left): (String, usize)| (outcome, if reads_ahead { 0 } else { left });
        let expected = kept(whole(parser, &input));
        let pushed = |pieces: &[&[u8]]| kept(pushed(parser, pieces.iter().copied()));
        *(if is_error(&expected.0) { &mut bad } else { &mut good }) += 1;
        // A long input is not split at each byte.
        for at in (0..=input.len()).step_by(1 + input.len() / 2000) {
            let (first, second) = input.split_at(at);
            assert_eq!(pushed(&[first, second]), expected, "split at {at} of {}", input.len());
            // Dropped there, if it has come so far: the read fails, and so does the parse.
            let mut machine = push(move |input: &mut Feed| parser(input));
            _ = machine.feed(first);
        }
        assert_eq!(leaked_stacks(), 0);
        assert_eq!(pushed(&input.chunks(1).collect::<Vec<_>>()), expected, "byte by byte");
        for _ in 0..random_splits {
            let most = 1 + random.usize(..input.len().max(2));
            let (mut pieces, mut rest) = (Vec::new(), &input[..]);
            while !rest.is_empty() {
                let (piece, behind) = rest.split_at(random.usize(..rest.len().min(most) + 1));
                pieces.push(piece);
                rest = behind;
            }
            let lengths = || pieces.iter().map(|piece| piece.len()).collect::<Vec<_>>();
            assert_eq!(pushed(&pieces), expected, "{:?}", lengths());
        }
    }
    assert!(good >= inputs.len() && bad > 0, "{good} inputs were good, {bad} were bad");
}

/// So many bytes that compress a little.
fn bytes(length: usize) -> Vec<u8> {
    let mut random = Rng::with_seed(length as u64);
    (0..length).map(|_| b"some of these letters"[random.usize(..21)]).collect()
}

#[test]
fn serde_json_is_pushed() {
    let parser = |input: &mut dyn BufRead| format!("{:?}", serde_json::from_reader::<_, serde_json::Value>(input));
    let inputs: [&str; 3] = [
        r#"{"name": "straight \u00e9 \ud83d\ude00", "numbers": [1, -2.5e10, 0, 18446744073709551615], "no": null}"#,
        " [[[[]]], {\"a\": {\"b\": [true, false]}}, \"\"]  ",
        "12345",
    ];
    check(parser, |outcome| outcome.starts_with("Err"), &inputs.map(|input| input.as_bytes().to_vec()));
    assert!(whole(parser, b"nothing").0.contains("line: 1, column: 2"));
}

#[test]
fn csv_is_pushed() {
    let parser = |input: &mut dyn BufRead| {
        let mut reader = csv::Reader::from_reader(input);
        let mut outcome = format!("{:?}\n", reader.headers());
        for record in reader.records() {
            writeln!(outcome, "{record:?}").unwrap();
        }
        outcome
    };
    let mut long = "number,text\n".to_owned();
    (0..100).for_each(|number| writeln!(long, "{number},\"a \"\"text\"\",\nof two lines\"").unwrap());
    let inputs = ["a,b,c\r\n1,2,3\r\n\"x,y\",,z\r\n", "one\n\n\ntwo\n", &long].map(|text| text.as_bytes().to_vec());
    check(parser, |outcome| outcome.contains("Err"), &inputs);
}

#[test]
fn tar_is_pushed() {
    let parser = |input: &mut dyn BufRead| {
        let read = |outcome: &mut String| {
            for entry in tar::Archive::new(input).entries()? {
                let mut entry = entry?;
                let mut content = Vec::new();
                entry.read_to_end(&mut content)?;
                writeln!(outcome, "{:?} {:?}", entry.path()?, content.escape_ascii().to_string()).unwrap();
            }
            Ok::<_, std::io::Error>(())
        };
        let mut outcome = String::new();
        let ended = read(&mut outcome);
        outcome + &format!("{ended:?}")
    };
    let mut archive = tar::Builder::new(Vec::new());
    for (name, length) in [("short", 3), ("empty", 0), ("of two blocks", 700), (&*"a long name/".repeat(12), 20)] {
        let mut header = tar::Header::new_gnu();
        header.set_size(length as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, name, &bytes(length)[..]).unwrap();
    }
    check(parser, |outcome| outcome.contains("Err"), &[archive.into_inner().unwrap()]);
}

#[test]
fn png_is_pushed() {
    let parser = |input: &mut dyn BufRead| {
        let read = || {
            let mut reader = png::Decoder::new(input).read_info()?;
            let mut pixels = vec![0; reader.output_buffer_size()];
            let info = reader.next_frame(&mut pixels)?;
            reader.finish()?;
            Ok::<_, png::DecodingError>((info, pixels))
        };
        format!("{:?}", read())
    };
    let encoded = |width: u32, height: u32| {
        let mut encoded = Vec::new();
        let mut encoder = png::Encoder::new(&mut encoded, width, height);
        encoder.set_color(png::ColorType::Rgb);
        let mut writer = encoder.write_header().unwrap();
        writer.write_image_data(&bytes((width * height * 3) as usize)).unwrap();
        drop(writer);
        encoded
    };
    check_with(parser, |outcome| outcome.starts_with("Err"), true, &[encoded(1, 1), encoded(17, 23)]);
}

#[test]
fn quick_xml_is_pushed() {
    let parser = |input: &mut dyn BufRead| {
        let mut reader = quick_xml::Reader::from_reader(input);
        let (mut outcome, mut buffer) = (String::new(), Vec::new());
        loop {
            let event = reader.read_event_into(&mut buffer);
            writeln!(outcome, "{} {event:?}", reader.buffer_position()).unwrap();
            match event {
                Ok(quick_xml::events::Event::Eof) => return outcome,
                Err(_) => return outcome + &format!("Err at {}", reader.error_position()),
                Ok(_) => buffer.clear(),
            }
        }
    };
    let text = "<?xml version=\"1.0\"?><!DOCTYPE a [<!ENTITY b \"c\">]><a x='1' y=\"&lt;\"> text &amp; more <b/><!-- a \
                comment --><![CDATA[ <raw> ]]><c>\u{e9}\u{1f600}</c></a>\n";
    check(parser, |outcome| outcome.contains("Err"), &[text.as_bytes().to_vec()]);
    assert!(whole(parser, b"<a><b></a></b>").0.contains("Err at 6"));
}

#[test]
fn zip_is_pushed() {
    let parser = |mut input: &mut dyn BufRead| {
        let mut read = |outcome: &mut String| {
            while let Some(mut file) = zip::read::read_zipfile_from_stream(&mut input)? {
                let mut content = Vec::new();
                file.read_to_end(&mut content)?;
                writeln!(outcome, "{:?} {:?}", file.name(), content.escape_ascii().to_string()).unwrap();
            }
            Ok::<_, zip::result::ZipError>(())
        };
        let mut outcome = String::new();
        let ended = read(&mut outcome);
        outcome + &format!("{ended:?}")
    };
    let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, method, length) in [
        ("stored", zip::CompressionMethod::Stored, 50),
        ("deflated", zip::CompressionMethod::Deflated, 1000),
        ("empty", zip::CompressionMethod::Stored, 0),
    ] {
        archive.start_file(name, zip::write::SimpleFileOptions::default().compression_method(method)).unwrap();
        archive.write_all(&bytes(length)).unwrap();
    }
    check(parser, |outcome| outcome.contains("Err"), &[archive.finish().unwrap().into_inner()]);
}
