//! Accepts as arms of choices, of merges, and in tasks: what is not yielded is not accepted.

use crate::common;

use common::everywhere;
use segue_core::{CancelToken, Either, after, merge, scope, wait_future};
use segue_io::net::{TcpListener, TcpStream};
use std::future::poll_fn;
use std::io::{Read, Write};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

fn listener() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").unwrap()
}

#[test]
fn a_server_is_stopped_by_a_choice() {
    everywhere(|| {
        let (listener, stop) = (listener(), CancelToken::new());
        let served = scope(|s| {
            let server = s.spawn(|| {
                let mut served = 0;
                while let Either::Right(accepted) = stop.cancelled_source().or(listener.accept_source()).wait().unwrap()
                {
                    accepted.unwrap().0.write_all(b"x").unwrap();
                    served += 1;
                }
                served
            });
            for _ in 0..5 {
                let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
                assert_eq!(client.read(&mut [0; 2]).unwrap(), 1);
            }
            stop.cancel();
            server.join().unwrap()
        });
        assert_eq!(served, 5);
        // Nobody has taken what comes now.
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert_eq!(listener.accept().unwrap().1, client.local_addr().unwrap());
    });
}

#[test]
fn an_accept_that_loses_has_accepted_nothing() {
    everywhere(|| {
        let listener = listener();
        let connect = || TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        // It loses while nothing is there, and while something is.
        let soon = || after(Duration::from_millis(1));
        assert!(matches!(soon().or(listener.accept_source()).wait(), Ok(Either::Left(()))));
        let first = connect();
        let lost = after(Duration::ZERO).or_else(listener.accept_source());
        assert!(matches!(lost.wait(), Ok(Either::Left(()))));
        // A future that is dropped: before the connection has come, and after.
        let mut poll = Context::from_waker(Waker::noop());
        {
            let mut yielded = pin!(listener.accept_source().into_future());
            assert!(
                matches!(yielded.as_mut().poll(&mut poll), Poll::Ready(Ok((_, peer))) if peer == first.local_addr().unwrap())
            );
        }
        let mut future = Box::pin(listener.accept_source().into_future());
        assert!(future.as_mut().poll(&mut poll).is_pending());
        let second = connect();
        drop(future);
        assert_eq!(listener.accept().unwrap().1, second.local_addr().unwrap());
    });
}

#[test]
fn tasks_and_fibers_share_a_listener() {
    everywhere(|| {
        let listener = listener();
        const CLIENTS: usize = 12;
        scope(|s| {
            let task = s.spawn(|| {
                wait_future(async {
                    for _ in 0..CLIENTS / 2 {
                        let (mut stream, _) = listener.accept_source().await.unwrap();
                        stream.write_all(b"task").unwrap();
                    }
                })
            });
            let fiber = s.spawn(|| {
                for _ in 0..CLIENTS / 2 {
                    listener.accept_source().wait().unwrap().unwrap().0.write_all(b"fiber").unwrap();
                }
            });
            for _ in 0..CLIENTS {
                let mut text = String::new();
                TcpStream::connect(listener.local_addr().unwrap()).unwrap().read_to_string(&mut text).unwrap();
                assert!(text == "task" || text == "fiber");
            }
            task.join().unwrap().unwrap();
            fiber.join().unwrap();
        });
    });
}

#[test]
fn two_listeners_are_merged() {
    everywhere(|| {
        let all = [listener(), listener()];
        scope(|s| {
            let merged = s.spawn(|| {
                let mut merged = merge(all.iter().map(TcpListener::accept_source));
                let mut served = [0; 2];
                for _ in 0..6 {
                    let (index, accepted) = merged.next().unwrap();
                    accepted.unwrap().0.write_all(&[index as u8]).unwrap();
                    served[index] += 1;
                }
                served
            });
            for n in 0..6 {
                let mut byte = [9];
                let mut client = TcpStream::connect(all[n % 2].local_addr().unwrap()).unwrap();
                client.read_exact(&mut byte).unwrap();
                assert_eq!(byte, [(n % 2) as u8]);
            }
            assert_eq!(merged.join().unwrap(), [3, 3]);
        });
    });
}

#[test]
fn a_task_that_waits_is_woken_by_a_connection() {
    fn may_be_sent<T: Send>(task: T) -> T {
        task
    }
    let listener = listener();
    let polled = wait_future(async {
        let mut accept = pin!(may_be_sent(listener.accept_source().into_future()));
        let mut client = None;
        poll_fn(|task| {
            let polled = accept.as_mut().poll(task);
            if client.is_none() {
                assert!(polled.is_pending());
                client = Some(TcpStream::connect(listener.local_addr().unwrap()).unwrap());
            }
            polled
        })
        .await
    });
    assert!(polled.unwrap().is_ok());
}
