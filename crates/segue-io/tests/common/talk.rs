//! A little talk over a connection, by fibers. Used by tests of rings that are denied something.

use segue_core::scope;
use std::io::{Read, Write};

/// A hundred questions, each of which comes back as it is.
pub fn talk(mut client: impl Read + Write, mut server: impl Read + Write + Send) {
    scope(|s| {
        let server = s.spawn(|| {
            let mut bytes = [0; 4];
            for _ in 0..100 {
                server.read_exact(&mut bytes).unwrap();
                server.write_all(&bytes).unwrap();
            }
        });
        for round in 0..100_u32 {
            client.write_all(&round.to_le_bytes()).unwrap();
            let mut bytes = [0; 4];
            client.read_exact(&mut bytes).unwrap();
            assert_eq!(u32::from_le_bytes(bytes), round);
        }
        server.join().unwrap();
    });
}
