//! `push_crates`: parsers that read, unmodified, fed in pieces of 4 KiB, against the same parser
//! that reads all from memory; an operation is one KiB of input.
//!
//! The input is the same for both, of about 256 KiB: JSON and CSV as records of a shop would be, an
//! archive of files of some KiB (tar, and zip with deflate), a picture, and XML of records. "Its
//! own reader" is the crate's constructor over a slice, which never waits and copies nothing.
//! `from_slice` of serde_json does not read, and so can't be fed; it is printed beside.
//!
//! *In memory*, the figure is the most that the parse has allocated at a time. The stack of the
//! machine is not in that: *a machine that waits* is what becomes resident for each of a thousand,
//! with a piece of the same JSON in each, or with a line and a half.
//!
//! And the push itself: *a feed of 8 bytes* finds the body waiting; *a whole input* of 64 bytes is
//! there at the first feed, "by a call" is the same function over the slice; *a head* of 7.6 KiB
//! comes byte by byte, and is cut into lines.
//!
//! Timed: the parse, and making the machine; not making the input.

use super::http::resident;
use crate::counted::counted;
use crate::measure::{SEGUE, Span, Stopwatch, Variant, Workload};
use fastrand::Rng;
use segue::incremental::{Fed, Feed, push};
use std::cell::OnceCell;
use std::fmt::Write as _;
use std::hint::black_box;
use std::io::{BufRead, Cursor, Read, Write};
use std::rc::Rc;
use std::sync::OnceLock;
use std::time::Instant;

/// See the file's head.
pub const WORKLOAD: Workload = Workload {
    name: "push_crates",
    timed: "parsers that read, fed in pieces of 4 KiB, per KiB; their memory; and what the feeds themselves take",
    variants,
};

fn variants() -> Vec<Variant> {
    vec![
        crate_of::<Json>("serde_json").add(
            "from_slice",
            whole(Json::input, |input| {
                black_box(serde_json::from_slice::<serde_json::Value>(input).expect("it is JSON"));
            }),
        ),
        crate_of::<Csv>("csv"),
        crate_of::<Tar>("tar"),
        crate_of::<Png>("png"),
        crate_of::<Xml>("quick-xml"),
        crate_of::<Zip>("zip"),
        memory_of::<Json>("serde_json"),
        memory_of::<Csv>("csv"),
        memory_of::<Tar>("tar"),
        memory_of::<Png>("png"),
        memory_of::<Xml>("quick-xml"),
        memory_of::<Zip>("zip"),
        Variant::new("a machine that waits", "machine", 1)
            .in_bytes()
            .add_apart("segue, lines", |_| waits(|feed| feed.lines().count(), b"a line\nand a half"))
            .add_apart("segue, serde_json", |_| waits(|feed| Json::parse(feed), b"[{\"number\":0,\"name\":\"some of ")),
        Variant::new("a feed of 8 bytes", "feed", 1).add(SEGUE, feeds),
        Variant::new("a whole input of 64 bytes", "input", 1).add(SEGUE, wholes).add("by a call", calls),
        Variant::new("a head of 7.6 KiB, byte by byte", "head", 1).add(SEGUE, heads),
    ]
}

const PIECE: usize = 4096;

/// A crate's parser.
trait Parser: 'static {
    fn input() -> Vec<u8>;

    /// Reads all of it.
    fn parse(input: impl BufRead);
}

fn pushed<P: Parser>(input: &[u8]) {
    let mut machine = push(|feed: &mut Feed| P::parse(feed));
    for piece in input.chunks(PIECE) {
        if let Fed::Done { .. } = machine.feed(black_box(piece)) {
            return;
        }
    }
    machine.finish();
}

fn crate_of<P: Parser>(name: &str) -> Variant {
    Variant::new(name, "KiB", 1)
        .add(SEGUE, whole(P::input, pushed::<P>))
        .add("its own reader", whole(P::input, |input| P::parse(black_box(input))))
}

fn memory_of<P: Parser>(name: &str) -> Variant {
    Variant::new(format!("{name}, in memory"), "parse", 1)
        .in_bytes()
        .add(SEGUE, most(P::input, pushed::<P>))
        .add("its own reader", most(P::input, |input| P::parse(black_box(input))))
}

/// The most that is allocated at a time during a parse.
fn most(input: fn() -> Vec<u8>, parse: impl Fn(&[u8])) -> impl FnMut(u64) -> Span {
    let made = OnceCell::new();
    move |_| {
        let input = made.get_or_init(input);
        let watch = Instant::now();
        Span::of_bytes(1, counted(|| parse(input)).most, watch.elapsed())
    }
}

const WAITING: usize = 1000;

/// What is resident for each of the machines that have had this piece.
fn waits<T: 'static>(body: fn(&mut Feed<'_>) -> T, piece: &[u8]) -> Span {
    /// Before the first machines of this process, but for one.
    static BEFORE: OnceLock<u64> = OnceLock::new();
    let begin = || {
        let mut machine = push(body);
        assert!(matches!(machine.feed(piece), Fed::NeedMore), "it waits");
        machine
    };
    drop(begin());
    let before = *BEFORE.get_or_init(resident);
    let watch = Instant::now();
    let machines: Vec<_> = (0..WAITING).map(|_| begin()).collect();
    let bytes = resident().saturating_sub(before);
    drop(machines);
    Span::of_bytes(WAITING as u64, bytes, watch.elapsed())
}

/// The JSON that `parse_json` parses, too.
pub fn json() -> Vec<u8> {
    Json::input()
}

/// The table that `parse_csv` parses, too.
pub fn csv() -> Vec<u8> {
    Csv::input()
}

/// Parses the input again and again, until there are so many KiB.
pub fn whole(input: fn() -> Vec<u8>, parse: impl Fn(&[u8])) -> impl FnMut(u64) -> Span {
    let made = Rc::new(OnceCell::new());
    move |n| {
        let input = made.get_or_init(input);
        let watch = Stopwatch::start();
        let mut read = 0;
        while read < n {
            parse(input);
            read += input.len() as u64 / 1024;
        }
        watch.stop(read)
    }
}

/// Letters that compress a little.
fn text(random: &mut Rng, length: usize) -> String {
    (0..length).map(|_| char::from(b"some of these letters"[random.usize(..21)])).collect()
}

const RECORDS: usize = 3000;

struct Json;

impl Parser for Json {
    fn input() -> Vec<u8> {
        let mut random = Rng::with_seed(1);
        let records = (0..RECORDS).map(|number| {
            let (name, price) = (text(&mut random, 20), random.f64() * 100.0);
            serde_json::json!({"number": number, "name": name, "price": price, "tags": ["a", "b\n"], "sold": number % 2 == 0})
        });
        serde_json::to_vec(&records.collect::<Vec<_>>()).expect("it is JSON")
    }

    fn parse(input: impl BufRead) {
        black_box(serde_json::from_reader::<_, serde_json::Value>(input).expect("it is JSON"));
    }
}

struct Csv;

impl Parser for Csv {
    fn input() -> Vec<u8> {
        let (mut random, mut all) = (Rng::with_seed(2), "number,name,price,notes\n".to_owned());
        for number in 0..2 * RECORDS {
            let (name, notes) = (text(&mut random, 12), text(&mut random, 12));
            writeln!(all, "{number},{name},{},\"{notes}, \"\"again\"\"\"", random.u32(..10_000)).expect("a text grows");
        }
        all.into_bytes()
    }

    fn parse(input: impl BufRead) {
        let (mut reader, mut record) = (csv::Reader::from_reader(input), csv::ByteRecord::new());
        while reader.read_byte_record(&mut record).expect("it is CSV") {
            black_box(&record);
        }
    }
}

/// Files of some KiB.
fn files() -> impl Iterator<Item = (String, Vec<u8>)> {
    let mut random = Rng::with_seed(3);
    (0..40).map(move |number| {
        let length = random.usize(100..12_000);
        (format!("folder/file {number}"), text(&mut random, length).into_bytes())
    })
}

struct Tar;

impl Parser for Tar {
    fn input() -> Vec<u8> {
        let mut archive = tar::Builder::new(Vec::new());
        for (name, content) in files() {
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            header.set_mode(0o644);
            archive.append_data(&mut header, name, &content[..]).expect("memory is there");
        }
        archive.into_inner().expect("memory is there")
    }

    fn parse(input: impl BufRead) {
        for entry in tar::Archive::new(input).entries().expect("it is an archive") {
            let mut content = Vec::new();
            entry.expect("it is whole").read_to_end(&mut content).expect("it is whole");
            black_box(content);
        }
    }
}

struct Png;

impl Parser for Png {
    fn input() -> Vec<u8> {
        let (mut encoded, mut random) = (Vec::new(), Rng::with_seed(4));
        let mut encoder = png::Encoder::new(&mut encoded, 400, 400);
        encoder.set_color(png::ColorType::Rgb);
        let pixels: Vec<u8> = (0..400 * 400 * 3).map(|at| (at / 1200) as u8 ^ random.u8(..8)).collect();
        encoder.write_header().expect("memory is there").write_image_data(&pixels).expect("memory is there");
        encoded
    }

    fn parse(input: impl BufRead) {
        let mut reader = png::Decoder::new(input).read_info().expect("it is a picture");
        let mut pixels = vec![0; reader.output_buffer_size()];
        reader.next_frame(&mut pixels).expect("it is whole");
        reader.finish().expect("it is whole");
        black_box(pixels);
    }
}

struct Xml;

impl Parser for Xml {
    fn input() -> Vec<u8> {
        let (mut random, mut all) = (Rng::with_seed(5), "<?xml version=\"1.0\"?><shop>".to_owned());
        for number in 0..RECORDS {
            let name = text(&mut random, 20);
            writeln!(all, "<item number=\"{number}\"><name>{name}</name><!-- a note --><b/> &amp; more</item>")
                .expect("a text grows");
        }
        all.push_str("</shop>");
        all.into_bytes()
    }

    fn parse(input: impl BufRead) {
        let (mut reader, mut buffer) = (quick_xml::Reader::from_reader(input), Vec::new());
        while black_box(reader.read_event_into(&mut buffer).expect("it is XML")) != quick_xml::events::Event::Eof {
            buffer.clear();
        }
    }
}

struct Zip;

impl Parser for Zip {
    fn input() -> Vec<u8> {
        let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
        let deflated = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Deflated);
        for (name, content) in files() {
            archive.start_file(name, deflated).expect("memory is there");
            archive.write_all(&content).expect("memory is there");
        }
        archive.finish().expect("memory is there").into_inner()
    }

    fn parse(mut input: impl BufRead) {
        while let Some(mut file) = zip::read::read_zipfile_from_stream(&mut input).expect("it is an archive") {
            let mut content = Vec::new();
            file.read_to_end(&mut content).expect("it is whole");
            black_box(content);
        }
    }
}

fn feeds(n: u64) -> Span {
    let mut machine = push(|input: &mut Feed| {
        let mut sum = 0;
        loop {
            let piece = input.fill_buf().expect("a feed does not fail");
            if piece.is_empty() {
                return sum;
            }
            sum += piece.iter().copied().map(u64::from).sum::<u64>();
            let length = piece.len();
            input.consume(length);
        }
    });
    assert_eq!(machine.feed(b""), Fed::NeedMore);
    let watch = Stopwatch::start();
    (0..n).for_each(|_| assert_eq!(machine.feed(black_box(b"12345678")), Fed::NeedMore));
    let span = watch.stop(n);
    assert_eq!(machine.finish(), n * b"12345678".iter().copied().map(u64::from).sum::<u64>());
    span
}

/// Its last byte.
fn last(input: &mut impl Read) -> u8 {
    let mut bytes = [0; 64];
    input.read_exact(&mut bytes).expect("there are so many");
    bytes[63]
}

fn wholes(n: u64) -> Span {
    let input = [7; 64];
    let watch = Stopwatch::start();
    for _ in 0..n {
        let mut machine = push(|feed: &mut Feed| last(feed));
        assert_eq!(machine.feed(black_box(&input)), Fed::Done { value: 7, unread: b"" });
    }
    watch.stop(n)
}

fn calls(n: u64) -> Span {
    let input = [7; 64];
    let watch = Stopwatch::start();
    (0..n).for_each(|_| assert_eq!(black_box(last(&mut black_box(&input[..]))), 7));
    watch.stop(n)
}

fn heads(n: u64) -> Span {
    let mut head = String::new();
    while head.len() < 7600 {
        writeln!(head, "a-header-{}: and its value, of some length\r", head.len()).expect("a text grows");
    }
    head.push_str("\r\n");
    let lines = head.lines().count();
    let watch = Stopwatch::start();
    for _ in 0..n {
        let mut machine = push(|input: &mut Feed| {
            let (mut line, mut lines) = (Vec::new(), 0);
            while line != b"\r\n" {
                line.clear();
                input.read_until(b'\n', &mut line).expect("a feed does not fail");
                lines += 1;
            }
            lines
        });
        let mut pieces = black_box(head.as_bytes()).chunks(1);
        let value = pieces.find_map(|piece| match machine.feed(piece) {
            Fed::NeedMore => None,
            Fed::Done { value, .. } => Some(value),
        });
        assert_eq!(value, Some(lines));
    }
    watch.stop(n)
}
