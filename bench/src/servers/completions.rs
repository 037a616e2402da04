//! Servers with a task for each connection that give their buffers to io_uring: monoio and compio.
//! Both with a ring that defers the kernel's work to its own thread's next call, which is not their
//! default and makes both faster.

use super::session::{INPUT, Service, answers, requests};
use super::{ANYWHERE, announce};
use compio::buf::BufResult;
use compio::driver::ProactorBuilder;
use monoio::buf::IoBufMut;
use std::io;

/// monoio.
pub fn monoio(service: Service) -> io::Result<()> {
    use monoio::io::{AsyncReadRent, AsyncWriteRentExt};
    use monoio::net::{TcpListener, TcpStream};

    async fn echo(mut stream: TcpStream) -> io::Result<()> {
        let mut input = Vec::with_capacity(INPUT);
        loop {
            let (count, read) = stream.read(input).await;
            if count? == 0 {
                return Ok(());
            }
            let (written, back) = stream.write_all(read).await;
            written?;
            input = back;
        }
    }

    async fn http(mut stream: TcpStream) -> io::Result<()> {
        let (mut input, mut filled) = (Vec::with_capacity(INPUT), 0);
        loop {
            let (count, read) = stream.read(input.slice_mut(filled..INPUT)).await;
            input = read.into_inner();
            let count = count?;
            filled += count;
            let Some((used, count)) = requests(&input[..filled]).filter(|_| count > 0) else { return Ok(()) };
            input.copy_within(used..filled, 0);
            filled -= used;
            if count > 0 {
                stream.write_all(answers(count)).await.0?;
            }
        }
    }

    let mut ring = monoio_io_uring::IoUring::builder();
    ring.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag().setup_submit_all();
    let builder = monoio::RuntimeBuilder::<monoio::IoUringDriver>::new().with_entries(4096).uring_builder(ring);
    builder.build()?.block_on(async {
        let listener = TcpListener::bind(ANYWHERE)?;
        announce(listener.local_addr())?;
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            match service {
                Service::Echo => monoio::spawn(echo(stream)),
                Service::Http => monoio::spawn(http(stream)),
            };
        }
    })
}

/// compio, which echoes.
pub fn compio() -> io::Result<()> {
    use compio::io::{AsyncRead, AsyncWriteExt};
    use compio::net::{TcpListener, TcpStream};

    async fn echo(mut stream: TcpStream) -> io::Result<()> {
        let mut input = Vec::with_capacity(INPUT);
        loop {
            let BufResult(count, read) = stream.read(input).await;
            if count? == 0 {
                return Ok(());
            }
            let BufResult(written, back) = stream.write_all(read).await;
            written?;
            input = back;
            input.clear();
        }
    }

    let mut ring = ProactorBuilder::new();
    ring.capacity(4096).single_issuer(true).defer_taskrun(true).taskrun_flag(true);
    compio::runtime::RuntimeBuilder::new().with_proactor(ring).build()?.block_on(async {
        let listener = TcpListener::bind(ANYWHERE).await?;
        announce(listener.local_addr())?;
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            compio::runtime::spawn(echo(stream)).detach();
        }
    })
}
