//! Futures that need tokio's context, waited for in fibers and plain threads.
//!
//! Used where straight-line code calls libraries made for tokio: sockets, timers, clients.
//!
//! tokio's types find their runtime through a thread-local variable. This crate sets that variable
//! for the length of each poll and of the drop, and never across a suspension, since between two
//! polls the thread runs other fibers. The runtime itself has to be running: its worker threads run
//! its drivers; those of a current-thread runtime run only while some thread is in its `block_on`.

use ::tokio::io::{AsyncRead, ReadBuf};
use ::tokio::runtime::Handle;
use segue_core::chain::barrier;
use segue_core::{Cancelled, WaitsFor};
use std::borrow::Borrow;
use std::future::poll_fn;
use std::io::{self, Read};
use std::pin::{Pin, pin};

/// As [`wait`](crate::wait), for a future that needs the runtime of `handle`.
///
/// Functions that look for the runtime when they are called, not when they are polled, as
/// `tokio::time::sleep` does, belong into an `async` block.
///
/// The future has to `.await` all its waits. If the future suspends the fiber from inside of a
/// poll, by a wait in straight-line code, tokio's context stays set for the other fibers of the
/// thread meanwhile, and tokio may panic. A computation that performs an effect, or gives, in such
/// a poll is not captured across that poll: the handler has to stand inside of the future.
///
/// # Cancellation
/// As for [`wait`](crate::wait): the future is dropped, in tokio's context.
///
/// # Errors
/// [`Cancelled`] if the caller was cancelled.
///
/// # Panics
/// If the future does.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
/// let handle = runtime.handle().clone();
/// let fiber = segue::spawn(move || {
///     segue_bridge::tokio::wait(&handle, async { tokio::time::sleep(Duration::from_millis(1)).await })
/// });
/// assert_eq!(fiber.join().unwrap(), Ok(()));
/// ```
#[track_caller]
pub fn wait<F: IntoFuture>(handle: &Handle, future: F) -> Result<F::Output, Cancelled> {
    segue_core::wait_future(entered(handle, future))
}

/// The future that polls and drops `future` in the context of `handle`: for tasks of other
/// executors.
///
/// # Cancellation
/// That of `future`.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
/// let sleep = async { tokio::time::sleep(Duration::from_millis(1)).await };
/// smol::block_on(segue_bridge::tokio::with(runtime.handle(), sleep));
/// ```
pub fn with<F: IntoFuture>(handle: &Handle, future: F) -> impl Future<Output = F::Output> + use<F> {
    entered(handle.clone(), future)
}

/// A reader for straight-line code: its reads wait for `source`, which needs the runtime of
/// `handle`. So a parser that reads has its input from a tokio socket.
///
/// # Cancellation
/// A read that is cancelled fails with the [`Cancelled`], and takes nothing.
///
/// # Examples
///
/// ```
/// use std::io::Read;
/// use tokio::io::AsyncWriteExt;
///
/// let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
/// let (mut writes, reads) = tokio::io::duplex(4);
/// runtime.spawn(async move { writes.write_all(b"longer than that").await });
/// let mut reader = segue_bridge::tokio::reader(runtime.handle(), reads);
/// let text = segue::spawn(move || std::io::read_to_string(&mut reader)).join().unwrap();
/// assert_eq!(text.unwrap(), "longer than that");
/// ```
pub fn reader<R: AsyncRead + Unpin>(handle: &Handle, source: R) -> Reader<R> {
    Reader { handle: handle.clone(), source }
}

/// The reader of straight-line code over an [`AsyncRead`]. Made by [`reader`].
#[derive(Debug)]
pub struct Reader<R> {
    handle: Handle,
    source: R,
}

impl<R> Reader<R> {
    /// The source, with all that was not read.
    pub fn into_inner(self) -> R {
        self.source
    }
}

impl<R: AsyncRead + Unpin> Read for Reader<R> {
    #[track_caller]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut buffer = ReadBuf::new(buffer);
        let source = &mut self.source;
        wait(&self.handle, poll_fn(|task| Pin::new(&mut *source).poll_read(task, &mut buffer)))??;
        Ok(buffer.filled().len())
    }
}

/// A future in its place, which ends in the context.
struct Entered<'a, H: Borrow<Handle>, F> {
    handle: H,
    future: Pin<&'a mut Option<F>>,
}

impl<H: Borrow<Handle>, F> Drop for Entered<'_, H, F> {
    fn drop(&mut self) {
        in_context(self.handle.borrow(), || self.future.set(None));
    }
}

/// tokio's contexts end in the reverse order of their beginnings: so nothing is captured across
/// one, which would take its end along.
fn in_context<R>(handle: &Handle, f: impl FnOnce() -> R) -> R {
    let _context = handle.enter();
    barrier(WaitsFor::new("a future in tokio's context"), f)
}

async fn entered<H: Borrow<Handle>, F: IntoFuture>(handle: H, future: F) -> F::Output {
    let mut entered = Entered { handle, future: pin!(None) };
    let mut future = Some(future);
    poll_fn(|task| {
        let Entered { handle, future: place } = &mut entered;
        in_context((*handle).borrow(), || {
            if let Some(future) = future.take() {
                place.set(Some(future.into_future()));
            }
            place.as_mut().as_pin_mut().expect("it is there until the end").poll(task)
        })
    })
    .await
}
