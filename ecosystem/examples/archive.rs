//! An archive that is never there as a whole: a fiber packs files by tar and compresses them by
//! flate2 into a TCP stream, another decompresses and unpacks what arrives.

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use segue::Builder;
use segue::net::{TcpListener, TcpStream};
use std::error::Error;
use std::io::{self, Read};

const FILES: usize = 40;

/// What is in a file.
fn content(number: usize) -> Vec<u8> {
    (0..number * 1000).map(|at| (at * at % 251) as u8).collect()
}

fn pack(stream: TcpStream) -> io::Result<()> {
    let mut archive = tar::Builder::new(GzEncoder::new(stream, Compression::fast()));
    for number in 0..FILES {
        let (content, mut header) = (content(number), tar::Header::new_gnu());
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, format!("files/{number}"), &*content)?;
    }
    archive.into_inner()?.finish().map(drop)
}

fn main() -> Result<(), Box<dyn Error>> {
    segue::runtime().workers(1).run(|| {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        segue::try_scope(|s| {
            // Without optimisation the compressor needs more than a fiber's usual 256 KiB.
            let roomy = Builder::new().stack_size(512 << 10);
            let packs = roomy.within(s).spawn(move || pack(TcpStream::connect(address)?));
            let (stream, _peer) = listener.accept()?;
            let mut archive = tar::Archive::new(GzDecoder::new(stream));
            let mut count = 0;
            for (number, file) in archive.entries()?.enumerate() {
                let (mut file, mut bytes) = (file?, vec![]);
                file.read_to_end(&mut bytes)?;
                assert_eq!(file.path()?.to_str(), Some(&*format!("files/{number}")));
                assert!(bytes == content(number), "file {number} is another one");
                count += 1;
            }
            packs.join()??;
            assert_eq!(count, FILES);
            println!("{count} files were packed, sent and unpacked");
            Ok::<_, Box<dyn Error + Send + Sync>>(())
        })?;
        Ok(())
    })?
}
