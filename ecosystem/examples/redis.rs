//! Redis over streams of Segue's: the crate's own sync client opens its sockets by std, but it also
//! packs commands and parses replies for whoever has a stream. A hundred fibers of one worker wait
//! in a real server for what one of them sends.

use ecosystem::Server;
use redis::{Cmd, FromRedisValue, Parser, RedisResult, cmd, from_redis_value};
use segue::net::TcpStream;
use std::error::Error;
use std::io::Write;
use std::net::SocketAddr;

const FIBERS: usize = 100;

/// A connection; what is read too early stays in the parser.
struct Client {
    stream: TcpStream,
    parser: Parser,
}

impl Client {
    fn connect(address: SocketAddr) -> RedisResult<Self> {
        Ok(Self { stream: TcpStream::connect(address)?, parser: Parser::new() })
    }

    fn ask<T: FromRedisValue>(&mut self, command: &Cmd) -> RedisResult<T> {
        self.stream.write_all(&command.get_packed_command())?;
        Ok(from_redis_value(self.parser.parse_value(&self.stream)?.extract_error()?)?)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let server = Server::redis();
    let address = server.address();
    segue::runtime().workers(1).run(|| {
        segue::try_scope(|s| {
            let waits = || {
                let mut client = Client::connect(address)?;
                client.ask::<u64>(cmd("INCR").arg("here"))?;
                let (_list, number) = client.ask::<(String, u64)>(cmd("BLPOP").arg("numbers").arg(0))?;
                client.ask::<u64>(cmd("INCRBY").arg("sum").arg(number))
            };
            let fibers: Vec<_> = (0..FIBERS).map(|_| s.spawn(waits)).collect();
            let mut client = Client::connect(address)?;
            while client.ask::<Option<usize>>(cmd("GET").arg("here"))? != Some(FIBERS) {
                segue::yield_now()?;
            }
            client.ask::<u64>(cmd("RPUSH").arg("numbers").arg((0..FIBERS).collect::<Vec<_>>()))?;
            for fiber in fibers {
                fiber.join()??;
            }
            assert_eq!(client.ask::<usize>(cmd("GET").arg("sum"))?, FIBERS * (FIBERS - 1) / 2);
            println!("{FIBERS} fibers were told a number each");
            Ok::<_, Box<dyn Error + Send + Sync>>(())
        })?;
        Ok(())
    })?
}
