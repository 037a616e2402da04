//! Databases: clients over streams of Segue's by real servers, and files through `blocking`.

use ecosystem::{FIBERS, Inside, Server, on_one_worker, read_alike};
use segue::net::TcpStream;
use segue::sync::promise;
use segue::{blocking, scope};
use std::fmt::Debug;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::path::PathBuf;

/// What `theirs` comes to with a connection of std's, on a plain thread; and each of `count` fibers
/// of one worker with one of Segue's by `ours`, which can wait until all are in it.
fn ask_alike<T: PartialEq + Debug + Send>(
    server: SocketAddr,
    count: usize,
    ours: impl Fn(TcpStream, &dyn Fn()) -> T + Sync,
    theirs: impl FnOnce(std::net::TcpStream, &dyn Fn()) -> T,
) -> T {
    let expected = theirs(std::net::TcpStream::connect(server).unwrap(), &|| {});
    let (inside, ours) = (Inside::default(), &ours);
    let ask = || inside.during(|| ours(TcpStream::connect(server).unwrap(), &|| inside.wait_for(count)));
    let results = on_one_worker(|| {
        scope(|s| {
            let fibers: Vec<_> = (0..count).map(|_| s.spawn(ask)).collect();
            fibers.into_iter().map(|fiber| fiber.join().unwrap()).collect::<Vec<_>>()
        })
    });
    assert_eq!(inside.count(), 0);
    for result in results {
        assert_eq!(result, expected, "a fiber has come to what a plain thread has not");
    }
    expected
}

#[test]
fn redis_is_asked_over_a_stream() {
    use redis::{Cmd, Parser, Value, cmd, pipe};

    fn ask(stream: &mut (impl Read + Write), command: &Cmd) -> Value {
        stream.write_all(&command.get_packed_command()).unwrap();
        Parser::new().parse_value(stream).unwrap()
    }
    fn client(mut stream: impl Read + Write, all_are_here: &dyn Fn()) -> Vec<Value> {
        let id: u64 = redis::from_redis_value(ask(&mut stream, cmd("CLIENT").arg("ID"))).unwrap();
        let (key, list) = (format!("key {id}"), format!("list {id}"));
        all_are_here();
        let binary: Vec<u8> = (0..=255).cycle().take(5000).collect();
        let mut said = vec![
            ask(&mut stream, cmd("SET").arg(&key).arg(&binary)),
            ask(&mut stream, cmd("GET").arg(&key)),
            ask(&mut stream, cmd("LPUSH").arg(&key).arg(1)),
            ask(&mut stream, cmd("BLPOP").arg(&list).arg(0.01)),
        ];
        let mut pipeline = pipe();
        pipeline.atomic().cmd("RPUSH").arg(&list).arg("a").arg("b").cmd("LRANGE").arg(&list).arg(0).arg(-1);
        stream.write_all(&pipeline.get_packed_pipeline()).unwrap();
        let mut parser = Parser::new();
        said.extend((0..4).map(|_| parser.parse_value(&mut stream).unwrap()));
        assert_eq!(said[1], Value::BulkString(binary));
        said
    }
    let server = Server::redis();
    let said = ask_alike(server.address(), FIBERS, client, client);
    assert_eq!(said[0], Value::Okay);
    assert!(matches!(&said[2], Value::ServerError(error) if error.code() == "WRONGTYPE"), "{:?}", said[2]);
    assert_eq!(said[3], Value::Nil);
    let Value::Array(last) = &said[7] else { panic!("{:?}", said[7]) };
    assert_eq!(last.len(), 2);

    // Those that wait in the server for what one of the same worker is to send.
    let (inside, connect) = (Inside::default(), || TcpStream::connect(server.address()).unwrap());
    let waits = || {
        let mut stream = connect();
        inside.during(|| ask(&mut stream, cmd("BLPOP").arg("shared").arg(0)))
    };
    let mut got = on_one_worker(|| {
        scope(|s| {
            let waiters: Vec<_> = (1..FIBERS).map(|_| s.spawn(waits)).collect();
            inside.wait_for(FIBERS - 1);
            let mut stream = connect();
            for number in 1..FIBERS {
                ask(&mut stream, cmd("RPUSH").arg("shared").arg(number));
            }
            let number = |value| redis::from_redis_value::<(String, usize)>(value).unwrap().1;
            waiters.into_iter().map(|waiter| number(waiter.join().unwrap())).collect::<Vec<_>>()
        })
    });
    got.sort();
    assert_eq!(got, (1..FIBERS).collect::<Vec<_>>());

    // The parser alone, a byte at a time.
    fn parse(mut reader: impl Read) -> (Value, Result<Value, bool>) {
        let mut parser = Parser::new();
        let first = parser.parse_value(&mut reader).unwrap();
        (first, parser.parse_value(&mut reader).map_err(|error| error.is_io_error()))
    }
    let bytes = b"*4\r\n$5\r\nh\r\n\0o\r\n:-42\r\n%1\r\n+key\r\n#t\r\n~2\r\n,1.5\r\n_\r\n$10\r\nhalf";
    let (first, second) = read_alike::<TcpStream, _>(bytes, parse, parse);
    assert!(matches!(&first, Value::Array(values) if values.len() == 4), "{first:?}");
    assert_eq!(second, Err(true));
}

/// Postgres by its messages.
mod postgres {
    use super::*;
    use bytes::BytesMut;
    use fallible_iterator::FallibleIterator;
    use postgres_protocol::authentication::sasl::{ChannelBinding, SCRAM_SHA_256, ScramSha256};
    use postgres_protocol::message::{backend::Message, frontend};

    pub struct Client<S> {
        stream: S,
        received: BytesMut,
    }

    impl<S: Read + Write> Client<S> {
        fn send(&mut self, message: impl FnOnce(&mut BytesMut) -> io::Result<()>) {
            let mut bytes = BytesMut::new();
            message(&mut bytes).unwrap();
            self.stream.write_all(&bytes).unwrap();
        }

        fn receive(&mut self) -> Message {
            loop {
                if let Some(message) = Message::parse(&mut self.received).unwrap() {
                    return message;
                }
                // Few bytes at a time, so that messages come in pieces.
                let mut piece = [0; 7];
                let len = self.stream.read(&mut piece).unwrap();
                assert!(len > 0, "the server has gone");
                self.received.extend_from_slice(&piece[..len]);
            }
        }

        /// Logs in; says whether the server took the password.
        pub fn start(stream: S, password: &str) -> Result<Self, String> {
            let mut client = Self { stream, received: BytesMut::new() };
            let mut scram = ScramSha256::new(password.as_bytes(), ChannelBinding::unsupported());
            client.send(|buf| frontend::startup_message([("user", "postgres"), ("database", "postgres")], buf));
            loop {
                match client.receive() {
                    Message::AuthenticationSasl(_) => {
                        let first = scram.message().to_vec();
                        client.send(|buf| frontend::sasl_initial_response(SCRAM_SHA_256, &first, buf));
                    }
                    Message::AuthenticationSaslContinue(body) => {
                        scram.update(body.data()).unwrap();
                        let second = scram.message().to_vec();
                        client.send(|buf| frontend::sasl_response(&second, buf));
                    }
                    Message::AuthenticationSaslFinal(body) => scram.finish(body.data()).unwrap(),
                    Message::ErrorResponse(body) => return Err(code(&body)),
                    Message::ReadyForQuery(_) => return Ok(client),
                    _ => {}
                }
            }
        }

        /// The rows of a query as text, or the code of an error.
        pub fn query(&mut self, text: &str) -> Result<Vec<Vec<Option<String>>>, String> {
            self.send(|buf| frontend::query(text, buf));
            let mut result = Ok(vec![]);
            loop {
                match self.receive() {
                    Message::DataRow(row) => {
                        let text =
                            |range: std::ops::Range<usize>| String::from_utf8(row.buffer()[range].to_vec()).unwrap();
                        let row = row.ranges().map(|range| Ok(range.map(text))).collect().unwrap();
                        result.as_mut().unwrap().push(row);
                    }
                    Message::ErrorResponse(body) => result = Err(code(&body)),
                    Message::ReadyForQuery(_) => return result,
                    _ => {}
                }
            }
        }
    }

    fn code(body: &postgres_protocol::message::backend::ErrorResponseBody) -> String {
        let code = body.fields().find(|field| Ok(field.type_() == b'C')).unwrap();
        String::from_utf8(code.unwrap().value_bytes().to_vec()).unwrap()
    }
}

#[test]
fn postgres_protocol_is_talked_over_a_stream() {
    fn client(stream: impl Read + Write, all_are_here: &dyn Fn()) -> Vec<String> {
        let mut client = postgres::Client::start(stream, "postgres").unwrap_or_else(|code| panic!("refused: {code}"));
        all_are_here();
        let rows = client.query("SELECT n, CASE WHEN n % 2 = 0 THEN repeat('é', n) END FROM generate_series(1, 60) n");
        let ten = rows.as_ref().unwrap()[9].clone();
        assert_eq!(ten, [Some("10".to_owned()), Some("é".repeat(10))]);
        let wrong = client.query("SELECT 1 / 0");
        let after = client.query("SELECT sum(n) FROM generate_series(1, 100000) n");
        vec![format!("{rows:?}"), format!("{wrong:?}"), format!("{after:?}")]
    }
    let server = Server::postgres();
    let said = ask_alike(server.address(), FIBERS, client, client);
    assert_eq!(said[1..], ["Err(\"22012\")", "Ok([[Some(\"5000050000\")]])"]);
    fn refused(stream: impl Read + Write, _: &dyn Fn()) -> Option<String> {
        postgres::Client::start(stream, "wrong").map(drop).err()
    }
    assert_eq!(ask_alike(server.address(), 5, refused, refused).as_deref(), Some("28P01"));
    // All wait in the server for one of the same worker. A login takes its time.
    const WAITERS: usize = 10;
    let inside = Inside::default();
    let start = || {
        let stream = TcpStream::connect(server.address()).unwrap();
        postgres::Client::start(stream, "postgres").unwrap_or_else(|code| panic!("refused: {code}"))
    };
    let waits = |number: usize| {
        let mut client = start();
        let text = format!("SELECT {number} FROM (SELECT pg_advisory_lock_shared(1)) l");
        inside.during(|| client.query(&text)).unwrap()[0][0].clone().unwrap()
    };
    on_one_worker(|| {
        scope(|s| {
            let mut first = start();
            first.query("SELECT pg_advisory_lock(1)").unwrap();
            let waits = &waits;
            let waiters: Vec<_> = (0..WAITERS).map(|number| s.spawn(move || waits(number))).collect();
            inside.wait_for(WAITERS);
            first.query("SELECT pg_advisory_unlock(1)").unwrap();
            for (number, waiter) in (0..WAITERS).zip(waiters) {
                assert_eq!(waiter.join().unwrap(), number.to_string());
            }
        });
    });
}

/// A file that goes with it.
struct File(PathBuf);

impl File {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("segue-{name}-{}", std::process::id())))
    }
}

impl Drop for File {
    fn drop(&mut self) {
        for end in ["", "-journal"] {
            let mut path = self.0.clone().into_os_string();
            path.push(end);
            let _not_there = std::fs::remove_file(path);
        }
    }
}

#[test]
fn rusqlite_waits_for_a_lock_in_blocking_calls() {
    use rusqlite::{Connection, params};

    fn open(file: &File) -> Connection {
        let connection = Connection::open(&file.0).unwrap();
        connection.busy_timeout(std::time::Duration::from_secs(60)).unwrap();
        connection.execute_batch("PRAGMA synchronous = OFF").unwrap();
        connection
    }
    /// Adds a row by a transaction, and says what a second one of this number comes to.
    fn add(connection: &mut Connection, number: i64) -> String {
        let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).unwrap();
        let insert = "INSERT INTO rows VALUES (?1, ?2)";
        transaction.execute(insert, params![number, format!("row {number}").into_bytes()]).unwrap();
        transaction.commit().unwrap();
        connection.execute(insert, params![number, "again"]).unwrap_err().to_string()
    }
    let file = File::new("rusqlite");
    open(&file).execute_batch("CREATE TABLE rows (number INTEGER PRIMARY KEY, text BLOB)").unwrap();
    let expected = add(&mut open(&file), FIBERS as i64);
    assert!(expected.contains("UNIQUE"), "{expected}");
    let inside = Inside::default();
    let waits = |number| inside.during(|| blocking(|| add(&mut open(&file), number)).unwrap());
    let results = on_one_worker(|| {
        // It holds the lock of the file until all others wait for that.
        let holder = blocking(|| open(&file)).unwrap();
        let begin = "BEGIN IMMEDIATE; INSERT INTO rows VALUES (-1, 'first')";
        let holder = blocking(move || holder.execute_batch(begin).map(|()| holder)).unwrap().unwrap();
        scope(|s| {
            let waits = &waits;
            let fibers: Vec<_> = (0..FIBERS as i64).map(|number| s.spawn(move || waits(number))).collect();
            inside.wait_for(FIBERS);
            blocking(move || holder.execute_batch("COMMIT")).unwrap().unwrap();
            fibers.into_iter().map(|fiber| fiber.join().unwrap()).collect::<Vec<_>>()
        })
    });
    assert_eq!(results, vec![expected; FIBERS]);
    let count = "SELECT count(*), sum(number), min(number) FROM rows WHERE text IS NOT NULL";
    let found = open(&file).query_row(count, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
    let many = FIBERS as i64;
    assert_eq!(found, (many + 2, many * (many + 1) / 2 - 1, -1));
}

#[test]
fn redb_waits_for_its_one_writer_in_blocking_calls() {
    use redb::{Database, ReadableDatabase, ReadableTable, ReadableTableMetadata, TableDefinition};

    const ROWS: TableDefinition<u64, &str> = TableDefinition::new("rows");
    fn add(database: &Database, number: u64, meanwhile: impl FnOnce()) -> Option<String> {
        let write = database.begin_write().unwrap();
        meanwhile();
        let mut table = write.open_table(ROWS).unwrap();
        let text = format!("row {number} after {}", table.len().unwrap());
        table.insert(number, &*text).unwrap();
        let found = table.get(number).unwrap().map(|text| text.value().replace(|c: char| c.is_numeric(), ""));
        drop(table);
        write.commit().unwrap();
        found
    }
    fn count(database: &Database) -> u64 {
        database.begin_read().unwrap().open_table(ROWS).unwrap().len().unwrap()
    }
    let file = File::new("redb");
    let database = Database::create(&file.0).unwrap();
    let expected = add(&database, 1000, || {});
    let inside = Inside::default();
    let (results, seen) = on_one_worker(|| {
        let (release, released) = promise();
        let (begun, has_begun) = promise();
        scope(|s| {
            let database = &database;
            let first = s.spawn(move || {
                let hold = || {
                    begun.fill(()).unwrap();
                    released.wait().copied().unwrap();
                };
                blocking(|| add(database, 1001, hold)).unwrap()
            });
            has_begun.wait().unwrap();
            let fibers: Vec<_> = (0..FIBERS as u64)
                .map(|number| {
                    let inside = &inside;
                    s.spawn(move || inside.during(|| blocking(|| add(database, number, || {})).unwrap()))
                })
                .collect();
            inside.wait_for(FIBERS);
            // Readers don't wait, and see what was there before.
            let seen = blocking(|| count(database)).unwrap();
            release.fill(()).unwrap();
            let row = [first].into_iter().chain(fibers);
            (row.map(|fiber| fiber.join().unwrap()).collect::<Vec<_>>(), seen)
        })
    });
    assert_eq!((results, seen), (vec![expected; FIBERS + 1], 1));
    assert_eq!(count(&database), FIBERS as u64 + 2);
}
