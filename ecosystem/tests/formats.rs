//! Crates of formats that read from, and write to, streams of Segue's.

use ecosystem::{read_alike, write_alike};
use segue::net::{TcpStream, UnixStream};
use segue::pipe::PipeReader;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{BufReader, Read, Write};

/// What is sent in a format that serde knows.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
struct Order {
    number: u64,
    buyer: Option<String>,
    lines: Vec<(String, f64)>,
    notes: BTreeMap<String, Vec<i32>>,
}

fn orders(count: u64) -> Vec<Order> {
    let order = |number: u64| Order {
        number: number * 1_000_003,
        buyer: number.is_multiple_of(2).then(|| format!("Zoë \"{number}\"\n")),
        lines: (0..3).map(|line| (format!("line {line}"), line as f64 / 4.0)).collect(),
        notes: [("odd".into(), vec![-1, 0, i32::MAX]), ("".into(), vec![])].into(),
    };
    (0..count).map(order).collect()
}

/// An end in the middle.
fn cut(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.len() * 2 / 3]
}

#[test]
fn serde_json_reads_as_the_bytes_come_and_writes() {
    fn document(reader: impl Read) -> Result<Vec<Order>, String> {
        serde_json::from_reader(reader).map_err(|error| error.to_string())
    }
    fn values(reader: impl Read) -> Result<Vec<Order>, String> {
        let values = serde_json::Deserializer::from_reader(reader).into_iter();
        values.map(|value| value.map_err(|error| error.to_string())).collect()
    }
    fn write(writer: impl Write) {
        serde_json::to_writer_pretty(writer, &orders(40)).unwrap();
    }
    let bytes = serde_json::to_vec(&orders(3)).unwrap();
    assert_eq!(read_alike::<TcpStream, _>(&bytes, document, document), Ok(orders(3)));
    let error = read_alike::<UnixStream, _>(cut(&bytes), document, document).unwrap_err();
    assert!(error.starts_with("EOF while parsing"), "{error}");
    let mut wrong = bytes.clone();
    *wrong.last_mut().unwrap() = b'}';
    let error = read_alike::<PipeReader, _>(&wrong, document, document).unwrap_err();
    assert!(error.starts_with("expected `,` or `]`"), "{error}");
    let lines: Vec<u8> = orders(3).iter().flat_map(|order| serde_json::to_vec(order).unwrap()).collect();
    assert_eq!(read_alike::<PipeReader, _>(&lines, values, values), Ok(orders(3)));
    let written = write_alike::<PipeReader>(write, write);
    assert_eq!(serde_json::from_slice::<Vec<Order>>(&written).unwrap(), orders(40));
}

#[test]
fn csv_reads_records_and_writes_them() {
    type Row = (u32, String, Option<f64>);
    fn rows(count: u32) -> Vec<Row> {
        let text = |n: u32| format!("a \"quoted\"{}, with a comma", if n.is_multiple_of(2) { "\r\nline" } else { "" });
        (0..count).map(|n| (n, text(n), (n % 3 > 0).then(|| f64::from(n) / 8.0))).collect()
    }
    fn read(reader: impl Read) -> Result<Vec<Row>, String> {
        let mut reader = csv::Reader::from_reader(reader);
        assert_eq!(reader.headers().unwrap(), vec!["number", "text", "share"]);
        reader.deserialize().map(|row| row.map_err(|error| error.to_string())).collect()
    }
    fn write_some(writer: impl Write, count: u32) {
        let mut writer = csv::Writer::from_writer(writer);
        writer.write_record(["number", "text", "share"]).unwrap();
        rows(count).into_iter().for_each(|row| writer.serialize(row).unwrap());
        writer.flush().unwrap();
    }
    fn write(writer: impl Write) {
        write_some(writer, 300);
    }
    let mut bytes = vec![];
    write_some(&mut bytes, 12);
    assert_eq!(read_alike::<TcpStream, _>(&bytes, read, read), Ok(rows(12)));
    // A record that has fields too few.
    bytes.extend(b"99,short\n");
    let error = read_alike::<PipeReader, _>(&bytes, read, read).unwrap_err();
    assert!(error.contains("found record with 2 fields"), "{error}");
    let written = write_alike::<PipeReader>(write, write);
    assert_eq!(read(&*written), Ok(rows(300)));
}

#[test]
fn quick_xml_reads_events() {
    use quick_xml::events::Event;

    fn events(reader: impl Read) -> Result<Vec<String>, String> {
        let mut reader = quick_xml::Reader::from_reader(BufReader::new(reader));
        let (mut buffer, mut events) = (vec![], vec![]);
        loop {
            let event = reader.read_event_into(&mut buffer).map_err(|error| error.to_string())?;
            if let Event::Start(tag) | Event::Empty(tag) = &event {
                for attribute in tag.attributes() {
                    events.push(format!("{:?}", attribute.map_err(|error| error.to_string())?));
                }
            }
            match event {
                Event::Eof => return Ok(events),
                event => events.push(format!("{event:?}")),
            }
            buffer.clear();
        }
    }
    let text = "<?xml version=\"1.0\"?>\n<!-- a book --><book lang='de' id=\"1\"><title>Für &amp; wider</title>\
        <![CDATA[<raw> & ]]><page n=\"1\"/><page n=\"2\"></page></book>";
    let events_of = read_alike::<UnixStream, _>(text.as_bytes(), events, events).unwrap();
    assert_eq!(events_of.iter().filter(|event| event.starts_with("Attribute")).count(), 4);
    assert!(events_of.iter().any(|event| event.contains("<raw> & ")), "{events_of:?}");
    let wrong = text.replace("</book>", "</boot>");
    let error = read_alike::<TcpStream, _>(wrong.as_bytes(), events, events).unwrap_err();
    assert!(error.contains("boot"), "{error}");
}

#[test]
fn ciborium_reads_and_writes() {
    fn read(mut reader: impl Read) -> Result<(Vec<Order>, Order), String> {
        // One value after the other: not a byte too many is read.
        let first = ciborium::from_reader(&mut reader).map_err(|error| error.to_string())?;
        Ok((first, ciborium::from_reader(&mut reader).map_err(|error| error.to_string())?))
    }
    fn write_some(mut writer: impl Write, count: u64) {
        ciborium::into_writer(&orders(count), &mut writer).unwrap();
        ciborium::into_writer(&orders(1)[0], &mut writer).unwrap();
    }
    fn write(writer: impl Write) {
        write_some(writer, 60);
    }
    let mut bytes = vec![];
    write_some(&mut bytes, 3);
    assert_eq!(read_alike::<TcpStream, _>(&bytes, read, read), Ok((orders(3), orders(1).remove(0))));
    let error = read_alike::<UnixStream, _>(cut(&bytes), read, read).unwrap_err();
    assert!(error.contains("UnexpectedEof") || error.contains("fill whole buffer"), "{error}");
    let written = write_alike::<PipeReader>(write, write);
    assert_eq!(read(&*written).unwrap().0, orders(60));
}

#[test]
fn rmp_serde_reads_and_writes() {
    fn read(mut reader: impl Read) -> Result<(Vec<Order>, Order), String> {
        let first = rmp_serde::from_read(&mut reader).map_err(|error| error.to_string())?;
        Ok((first, rmp_serde::from_read(&mut reader).map_err(|error| error.to_string())?))
    }
    fn write_some(mut writer: impl Write, count: u64) {
        rmp_serde::encode::write(&mut writer, &orders(count)).unwrap();
        rmp_serde::encode::write_named(&mut writer, &orders(1)[0]).unwrap();
    }
    fn write(writer: impl Write) {
        write_some(writer, 80);
    }
    let mut bytes = vec![];
    write_some(&mut bytes, 3);
    assert_eq!(read_alike::<UnixStream, _>(&bytes, read, read), Ok((orders(3), orders(1).remove(0))));
    let error = read_alike::<PipeReader, _>(cut(&bytes), read, read).unwrap_err();
    assert!(error.contains("IO error"), "{error}");
    let written = write_alike::<PipeReader>(write, write);
    assert_eq!(read(&*written).unwrap().0, orders(80));
}

#[test]
fn protobuf_reads_messages_with_their_lengths() {
    use protobuf::well_known_types::struct_::{ListValue, Struct, Value};
    use protobuf::{CodedInputStream, Message};

    fn message(number: u32) -> Struct {
        let (mut value, mut list, mut entry) = (Value::new(), ListValue::new(), Value::new());
        value.set_string_value(format!("message {number}"));
        list.values = vec![value; 4];
        entry.set_list_value(list);
        let mut message = Struct::new();
        message.fields.insert("list".into(), entry);
        message
    }
    fn read(mut reader: impl Read) -> Result<Vec<Struct>, String> {
        let (mut input, mut messages) = (CodedInputStream::new(&mut reader), vec![]);
        let error = |error: protobuf::Error| error.to_string();
        while !input.eof().map_err(error)? {
            messages.push(input.read_message().map_err(error)?);
        }
        Ok(messages)
    }
    fn write(mut writer: impl Write) {
        (0..100).for_each(|number| message(number).write_length_delimited_to_writer(&mut writer).unwrap());
    }
    let all: Vec<_> = (0..6).map(message).collect();
    let bytes: Vec<u8> = all.iter().flat_map(|message| message.write_length_delimited_to_bytes().unwrap()).collect();
    assert_eq!(read_alike::<TcpStream, _>(&bytes, read, read), Ok(all));
    let error = read_alike::<UnixStream, _>(&bytes[..bytes.len() - 1], read, read).unwrap_err();
    assert_eq!(error, "Unexpected end of file");
    let written = write_alike::<PipeReader>(write, write);
    assert_eq!(read(&*written).unwrap().len(), 100);
}
