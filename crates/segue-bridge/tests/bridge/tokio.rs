//! tokio's sockets, timers and channels in fibers and threads, with tokio's context set for each
//! poll alone.

use crate::common;

use common::{Host, fifo, tokio_current, tokio_multi};
use segue::sync::promise;
use segue_bridge::{direct_local, tokio::wait};
use segue_core::{CancelToken, spawn, yield_now};
use std::future::{Future, pending};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;

/// Runs `body` in a fiber and in a plain thread, with a handle of each runtime.
fn everywhere(body: impl Fn(&Handle) + Send + Sync + Copy + 'static) {
    for handle in [tokio_current(), tokio_multi()] {
        fifo().run(|| body(handle)).unwrap();
        common::stealing().run(|| body(handle)).unwrap();
        body(handle);
        assert!(Handle::try_current().is_err());
    }
}

#[test]
fn sleeps_and_time_outs() {
    everywhere(|handle| {
        let slept = wait(handle, async { tokio::time::sleep(Duration::from_millis(1)).await });
        assert_eq!(slept, Ok(()));
        let limit = Duration::from_millis(1);
        let ended = wait(handle, async move { tokio::time::timeout(limit, pending::<()>()).await.is_err() });
        assert_eq!(ended, Ok(true));
    });
}

#[test]
fn sockets() {
    everywhere(|handle| {
        let listener = wait(handle, TcpListener::bind("127.0.0.1:0")).unwrap().unwrap();
        let address = listener.local_addr().unwrap();
        let served = handle.clone();
        let server = spawn(move || {
            let (mut stream, _) = wait(&served, listener.accept()).unwrap().unwrap();
            let mut buffer = [0; 5];
            wait(&served, stream.read_exact(&mut buffer)).unwrap().unwrap();
            wait(&served, stream.write_all(&buffer)).unwrap().unwrap();
        });
        let mut stream = wait(handle, TcpStream::connect(address)).unwrap().unwrap();
        wait(handle, stream.write_all(b"segue")).unwrap().unwrap();
        let mut buffer = [0; 5];
        wait(handle, stream.read_exact(&mut buffer)).unwrap().unwrap();
        assert_eq!(&buffer, b"segue");
        server.join().unwrap();
    });
}

#[test]
fn channels_of_tokio_between_tasks_and_fibers() {
    everywhere(|handle| {
        let (to_task, mut at_task) = tokio::sync::mpsc::channel::<u32>(1);
        let (to_fiber, mut at_fiber) = tokio::sync::mpsc::channel::<u32>(1);
        handle.spawn(async move {
            while let Some(n) = at_task.recv().await {
                to_fiber.send(n + 1).await.unwrap();
            }
        });
        for n in 0..200 {
            segue_bridge::wait(to_task.send(n)).unwrap().unwrap();
            assert_eq!(segue_bridge::wait(at_fiber.recv()), Ok(Some(n + 1)));
        }
        drop(to_task);
        assert_eq!(segue_bridge::wait(at_fiber.recv()), Ok(None));
    });
}

/// Looks where it is polled and dropped.
struct Looks(bool);

impl Future for Looks {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        assert!(Handle::try_current().is_ok());
        if std::mem::replace(&mut self.0, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Drop for Looks {
    fn drop(&mut self) {
        assert!(Handle::try_current().is_ok());
    }
}

#[test]
fn the_context_is_set_in_polls_and_drops_and_not_between() {
    everywhere(|handle| {
        wait(handle, Looks(false)).unwrap();
        smol::block_on(segue_bridge::tokio::with(handle, Looks(false)));
        // While a fiber waits, the others of its thread do not see the context.
        let (looked, all_looks) = tokio::sync::oneshot::channel();
        let other = spawn(|| {
            for _ in 0..10 {
                assert!(Handle::try_current().is_err());
                let _ = yield_now();
            }
            looked.send(()).unwrap();
        });
        wait(handle, all_looks).unwrap().unwrap();
        other.join().unwrap();
    });
}

#[test]
fn a_cancelled_wait_drops_the_future_in_the_context() {
    everywhere(|handle| {
        let token = CancelToken::new();
        let (waits, handle) = (token.clone(), handle.clone());
        let waiter = spawn(move || {
            waits.run(|| {
                wait(&handle, async {
                    let _looks = Looks(false);
                    tokio::time::sleep(Duration::from_secs(3600)).await;
                })
            })
        });
        let _ = yield_now();
        token.cancel();
        assert!(waiter.join().unwrap().is_err());
    });
}

#[test]
fn hosted_fibers_need_no_handle_on_tokios_own_thread() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::task::spawn_local(direct_local(move || {
            let (mut stream, _) = segue_bridge::wait(listener.accept()).unwrap().unwrap();
            let mut buffer = [0; 5];
            segue_bridge::wait(stream.read_exact(&mut buffer)).unwrap().unwrap();
            segue_bridge::wait(tokio::time::sleep(Duration::from_millis(1))).unwrap();
            segue_bridge::wait(stream.write_all(&buffer)).unwrap().unwrap();
        }));
        let client = tokio::task::spawn_local(direct_local(move || {
            let mut stream = segue_bridge::wait(TcpStream::connect(address)).unwrap().unwrap();
            segue_bridge::wait(stream.write_all(b"segue")).unwrap().unwrap();
            let mut buffer = [0; 5];
            segue_bridge::wait(stream.read_exact(&mut buffer)).unwrap().unwrap();
            buffer
        }));
        assert_eq!(&client.await.unwrap().unwrap(), b"segue");
        server.await.unwrap().unwrap();
    });
}

#[test]
fn tasks_of_many_workers_and_fibers_of_many_meet_at_promises() {
    // Each task fills what a fiber waits for, and awaits what that fiber fills; tasks move between
    // workers meanwhile.
    let task = async {
        let tasks: Vec<_> = (0..200_u32)
            .map(|n| {
                tokio::spawn(async move {
                    for round in 0..20 {
                        let (there, promised) = promise();
                        let (back, mut answer) = promise();
                        let pool = if (n + round) % 2 == 0 { fifo() } else { common::stealing() };
                        pool.spawn(move || back.fill(promised.take().unwrap() + 1));
                        if round % 3 == 0 {
                            tokio::task::yield_now().await;
                        }
                        there.fill(round).unwrap();
                        assert_eq!(answer.take_source().await, Ok(round + 1));
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    };
    Host::TokioMulti.run_async(task).join();
}

#[test]
fn tasks_that_are_aborted_while_they_await_lose_nothing() {
    let task = async {
        for round in 0..2000_u32 {
            let (there, promised) = promise();
            let promised = std::sync::Arc::new(promised);
            let awaited = std::sync::Arc::clone(&promised);
            let task = tokio::spawn(async move { awaited.wait_source().await.copied() });
            fifo().spawn(move || there.fill(round));
            if round % 3 == 0 {
                tokio::task::yield_now().await;
            }
            task.abort();
            if let Ok(value) = task.await {
                assert_eq!(value, Ok(round));
            }
            assert_eq!(promised.wait_source().await, Ok(&round));
        }
    };
    Host::TokioMulti.run_async(task).join();
}
