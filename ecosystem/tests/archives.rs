//! Crates of archives and of compression over streams of Segue's.

use ecosystem::{noise, read_alike, write_alike, write_alike_on};
use segue::Builder;
use segue::net::{TcpStream, UnixStream};
use segue::pipe::PipeReader;
use std::io::{self, Read, Write};

/// Something of which a part can be compressed.
fn text(seed: u64, len: usize) -> Vec<u8> {
    let mut text = noise(seed, len / 2);
    text.resize(len, b'a');
    text
}

/// All that a decoder makes of a stream, or what it says instead.
fn drain(mut decoder: impl Read) -> Result<Vec<u8>, io::ErrorKind> {
    let mut all = vec![];
    decoder.read_to_end(&mut all).map(|_| all).map_err(|error| error.kind())
}

/// A byte that is another, at two thirds.
fn broken(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let at = bytes.len() * 2 / 3;
    bytes[at] ^= 0x55;
    bytes
}

/// What every compression has to do: `$decoder` and `$encode` are paths of functions that take any
/// stream.
macro_rules! compresses {
    ($decode:ident, $encode:ident) => {
        compresses!($decode, $encode, Builder::new);
    };
    ($decode:ident, $encode:ident, $fiber:path) => {
        let (mut bytes, small) = (vec![], text(1, 1200));
        $encode(&small, &mut bytes);
        assert_eq!(read_alike::<TcpStream, _>(&bytes, $decode, $decode).as_ref(), Ok(&small));
        let end = read_alike::<UnixStream, _>(&bytes[..bytes.len() - 3], $decode, $decode);
        assert!(end.is_err(), "it was cut short");
        let wrong = read_alike::<PipeReader, _>(&broken(&bytes), $decode, $decode);
        assert!(wrong.as_ref() != Ok(&small), "a byte is another");
        // More than a pipe takes.
        let large = text(2, 40_000);
        let written = write_alike_on::<PipeReader>($fiber, |to| $encode(&large, to), |to| $encode(&large, to));
        assert_eq!($decode(&*written), Ok(large));
    };
}

/// Without optimisation the compressor of `flate2` is built on the stack before it is boxed.
fn roomy() -> Builder {
    Builder::new().stack_size(512 << 10)
}

#[test]
fn flate2_compresses_and_decompresses() {
    fn decode(reader: impl Read) -> Result<Vec<u8>, io::ErrorKind> {
        drain(flate2::read::MultiGzDecoder::new(reader))
    }
    fn encode(text: &[u8], mut writer: impl Write) {
        // Two members, which are one text.
        let (first, second) = text.split_at(text.len() / 2);
        for part in [first, second] {
            let mut encoder = flate2::write::GzEncoder::new(&mut writer, flate2::Compression::default());
            encoder.write_all(part).unwrap();
            encoder.finish().unwrap();
        }
    }
    compresses!(decode, encode, roomy);
}

#[test]
fn zstd_compresses_and_decompresses() {
    fn decode(reader: impl Read) -> Result<Vec<u8>, io::ErrorKind> {
        drain(zstd::Decoder::new(reader).unwrap())
    }
    fn encode(text: &[u8], writer: impl Write) {
        let mut encoder = zstd::Encoder::new(writer, 3).unwrap();
        encoder.include_checksum(true).unwrap();
        text.chunks(1000).for_each(|part| encoder.write_all(part).unwrap());
        encoder.finish().unwrap();
    }
    compresses!(decode, encode);
}

#[test]
fn brotli_compresses_and_decompresses() {
    fn decode(reader: impl Read) -> Result<Vec<u8>, io::ErrorKind> {
        drain(brotli::Decompressor::new(reader, 512))
    }
    fn encode(text: &[u8], writer: impl Write) {
        let mut encoder = brotli::CompressorWriter::new(writer, 512, 2, 16);
        encoder.write_all(text).unwrap();
    }
    compresses!(decode, encode);
}

#[test]
fn bzip2_compresses_and_decompresses() {
    fn decode(reader: impl Read) -> Result<Vec<u8>, io::ErrorKind> {
        drain(bzip2::read::BzDecoder::new(reader))
    }
    fn encode(text: &[u8], writer: impl Write) {
        let mut encoder = bzip2::write::BzEncoder::new(writer, bzip2::Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap();
    }
    compresses!(decode, encode);
}

#[test]
fn xz2_compresses_and_decompresses() {
    fn decode(reader: impl Read) -> Result<Vec<u8>, io::ErrorKind> {
        drain(xz2::read::XzDecoder::new(reader))
    }
    fn encode(text: &[u8], writer: impl Write) {
        let mut encoder = xz2::write::XzEncoder::new(writer, 0);
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap();
    }
    compresses!(decode, encode);
}

#[test]
fn lz4_flex_compresses_and_decompresses() {
    fn decode(reader: impl Read) -> Result<Vec<u8>, io::ErrorKind> {
        drain(lz4_flex::frame::FrameDecoder::new(reader))
    }
    fn encode(text: &[u8], writer: impl Write) {
        let info = lz4_flex::frame::FrameInfo::new().content_checksum(true);
        let mut encoder = lz4_flex::frame::FrameEncoder::with_frame_info(info, writer);
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap();
    }
    compresses!(decode, encode);
}

/// A name, and what is in it.
type Entry = (String, Vec<u8>);

/// One is empty, one has a name that is longer than a header has room for.
fn entries(len: usize) -> Vec<Entry> {
    vec![
        ("empty".into(), vec![]),
        (format!("{}/long", "d/".repeat(80)), text(3, len)),
        ("last".into(), text(4, len / 4)),
    ]
}

#[test]
fn tar_writes_an_archive_and_reads_it_as_it_comes() {
    fn read(reader: impl Read) -> Result<Vec<Entry>, io::ErrorKind> {
        let mut archive = tar::Archive::new(reader);
        let entries = archive.entries().map_err(|error| error.kind())?.map(|entry| {
            let mut entry = entry?;
            let mut content = vec![];
            entry.read_to_end(&mut content)?;
            Ok((entry.path()?.to_string_lossy().into_owned(), content))
        });
        entries.collect::<io::Result<_>>().map_err(|error| error.kind())
    }
    fn write_some(writer: impl Write, len: usize) {
        let mut archive = tar::Builder::new(writer);
        for (path, content) in entries(len) {
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            header.set_mode(0o644);
            archive.append_data(&mut header, path, &*content).unwrap();
        }
        archive.finish().unwrap();
    }
    fn write(writer: impl Write) {
        write_some(writer, 20_000);
    }
    let mut bytes = vec![];
    write_some(&mut bytes, 400);
    assert_eq!(read_alike::<TcpStream, _>(&bytes, read, read), Ok(entries(400)));
    // In the content of the second one.
    let cut = read_alike::<UnixStream, _>(&bytes[..2700], read, read);
    assert_eq!(cut, Err(io::ErrorKind::Other));
    let written = write_alike::<PipeReader>(write, write);
    assert_eq!(read(&*written), Ok(entries(20_000)));
}

#[test]
fn zip_writes_entries_to_a_stream_and_reads_them_one_after_the_other() {
    fn read(mut reader: impl Read) -> Result<Vec<Entry>, String> {
        let mut entries = vec![];
        while let Some(mut file) =
            zip::read::read_zipfile_from_stream(&mut reader).map_err(|error| error.to_string())?
        {
            let mut content = vec![];
            file.read_to_end(&mut content).map_err(|error| error.to_string())?;
            entries.push((file.name().unwrap().into_owned(), content));
        }
        Ok(entries)
    }
    fn options() -> zip::write::SimpleFileOptions {
        zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Deflated)
    }
    fn write(writer: impl Write) {
        let mut archive = zip::ZipWriter::new_stream(writer);
        for (path, content) in entries(40_000) {
            archive.start_file(path, options()).unwrap();
            archive.write_all(&content).unwrap();
        }
        archive.finish().unwrap();
    }
    // With the sizes before the contents, which a reader that can't seek needs.
    let mut archive = zip::ZipWriter::new(io::Cursor::new(vec![]));
    for (path, content) in entries(600) {
        archive.start_file(path, options()).unwrap();
        archive.write_all(&content).unwrap();
    }
    let bytes = archive.finish().unwrap().into_inner();
    assert_eq!(read_alike::<TcpStream, _>(&bytes, read, read), Ok(entries(600)));
    let wrong = read_alike::<UnixStream, _>(&broken(&bytes[..700]), read, read);
    assert!(wrong.is_err());
    let written = write_alike_on::<PipeReader>(roomy, write, write);
    let mut archive = zip::ZipArchive::new(io::Cursor::new(written)).unwrap();
    for (path, content) in entries(40_000) {
        assert_eq!(drain(archive.by_name(&path).unwrap()), Ok(content));
    }
}
