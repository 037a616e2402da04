//! Clients that need tokio, in fibers: tokio's runtime drives their connections, and the fibers of
//! one worker wait for what comes of it.

use ecosystem::{FIBERS, Inside, Server, on_one_worker};
use segue::{CancelToken, scope, yield_now};
use segue_bridge::tokio::wait;
use tokio::runtime::{Builder, Runtime};

/// With a thread of its own, which runs the connections.
fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

#[test]
fn tokio_postgres_is_used_by_fibers() {
    use tokio_postgres::{Client, Error, NoTls};

    async fn ask(client: &Client, number: i32) -> Result<(i32, String), Error> {
        let statement = client.prepare("SELECT $1::int4 * 2, repeat('é', $1)").await?;
        let row = client.query_one(&statement, &[&number]).await?;
        Ok((row.get(0), row.get(1)))
    }
    async fn fail(client: &Client) -> String {
        let error = client.query("SELECT 1 / 0", &[]).await.map(drop).unwrap_err();
        error.code().unwrap().code().to_owned()
    }
    let (server, runtime) = (Server::postgres(), runtime());
    let address = server.address();
    let config = format!("host={} port={} user=postgres password=postgres", address.ip(), address.port());
    let (client, connection) = runtime.block_on(tokio_postgres::connect(&config, NoTls)).unwrap();
    let connection = runtime.spawn(connection);
    // What tokio's own thread gets.
    let expected = runtime.block_on(async { (ask(&client, 21).await.unwrap(), fail(&client).await) });
    assert_eq!(expected, ((42, "é".repeat(21)), "22012".to_owned()));

    let (handle, inside, client) = (runtime.handle(), Inside::default(), &client);
    let both = |number| {
        inside.during(|| {
            inside.wait_for(FIBERS);
            wait(handle, async { (ask(client, number).await.unwrap(), fail(client).await) })
        })
    };
    on_one_worker(|| {
        scope(|s| {
            // All ask over one connection.
            let both = &both;
            let fibers: Vec<_> = (0..FIBERS as i32).map(|number| s.spawn(move || both(number).unwrap())).collect();
            for (number, fiber) in (0..).zip(fibers) {
                let text = "é".repeat(number as usize);
                assert_eq!(fiber.join().unwrap(), ((number * 2, text), "22012".to_owned()));
            }
        });
        // One that is cancelled while the server works: the others get what is theirs.
        let is_cancelled = || {
            let token = CancelToken::new();
            scope(|s| {
                let slow = s.spawn(|| token.run(|| wait(handle, client.batch_execute("SELECT pg_sleep(0.2)"))));
                let next = s.spawn(|| wait(handle, ask(client, 3)));
                yield_now().unwrap();
                token.cancel();
                assert_eq!(next.join().unwrap().unwrap().unwrap(), (6, "ééé".to_owned()));
                slow.join().unwrap().is_err()
            })
        };
        // Again, if the server's work is over before that, as where this process has no processor.
        assert!((0..5).any(|_| is_cancelled()));
    });
    assert!(!connection.is_finished());
}

#[test]
fn redis_with_tokio_is_used_by_fibers() {
    use redis::{AsyncConnectionConfig, Client, RedisError, cmd, pipe};

    type Said = (Vec<u8>, Vec<u32>, String);
    async fn ask(mut connection: impl redis::aio::ConnectionLike, number: usize) -> Result<Said, RedisError> {
        let (key, binary) = (format!("key {number}"), vec![number as u8; 3000]);
        cmd("SET").arg(&key).arg(&binary).exec_async(&mut connection).await?;
        let found = cmd("GET").arg(&key).query_async(&mut connection).await?;
        let mut all = pipe();
        all.atomic().cmd("INCRBY").arg("sum").arg(0).cmd("INCRBY").arg(number).arg(number);
        let sums = all.query_async(&mut connection).await?;
        let error = cmd("LPUSH").arg(&key).arg(1).exec_async(&mut connection).await.unwrap_err();
        Ok((found, sums, error.code().unwrap_or_default().to_owned()))
    }
    fn expected(number: usize) -> Said {
        (vec![number as u8; 3000], vec![0, number as u32], "WRONGTYPE".to_owned())
    }
    let (server, runtime) = (Server::redis(), runtime());
    let client = Client::open(format!("redis://{}/", server.address())).unwrap();
    // No limit on how long an answer may take.
    let config = AsyncConnectionConfig::new().set_response_timeout(None);
    let connecting = client.get_multiplexed_async_connection_with_config(&config);
    let connection = runtime.block_on(connecting).unwrap();
    assert_eq!(runtime.block_on(ask(connection.clone(), 1000)).unwrap(), expected(1000));

    let (handle, inside) = (runtime.handle(), Inside::default());
    let asks = |number| {
        inside.during(|| {
            inside.wait_for(FIBERS);
            wait(handle, ask(connection.clone(), number)).unwrap().unwrap()
        })
    };
    on_one_worker(|| {
        scope(|s| {
            let asks = &asks;
            let fibers: Vec<_> = (0..FIBERS).map(|number| s.spawn(move || asks(number))).collect();
            for (number, fiber) in fibers.into_iter().enumerate() {
                assert_eq!(fiber.join().unwrap(), expected(number));
            }
        });
        // One that is cancelled while it waits for what nobody sends.
        let mut own = wait(handle, client.get_multiplexed_async_connection_with_config(&config)).unwrap().unwrap();
        let (token, mut blpop) = (CancelToken::new(), cmd("BLPOP"));
        blpop.arg("nothing").arg(0);
        scope(|s| {
            let waiter = s.spawn(|| token.run(|| wait(handle, blpop.query_async::<(String, String)>(&mut own))));
            yield_now().unwrap();
            token.cancel();
            assert!(waiter.join().unwrap().is_err());
        });
        assert_eq!(wait(handle, ask(connection.clone(), 3000)).unwrap().unwrap(), expected(3000));
    });
}
