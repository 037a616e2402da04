//! Several reads and writes at once, each with its own result.

mod common;

use common::{everywhere, on_one_worker, pair, until};
use segue_core::{Cancelled, scope, shield, timeout};
use segue_io::net::{TcpStream, transfer_all};
use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

fn pairs(number: usize) -> (Vec<TcpStream>, Vec<TcpStream>) {
    (0..number).map(|_| pair()).unzip()
}

#[test]
fn each_transfer_of_a_batch_has_its_own_result() {
    everywhere(|| {
        let (near, far) = pairs(20);
        // One has gone, one is at its end, and one has no room.
        far[3].shutdown(Shutdown::Both).unwrap();
        let bytes: Vec<Vec<u8>> = (1..=20).map(|length| vec![length as u8; length]).collect();
        let written = transfer_all(near.iter().zip(&bytes).map(|(stream, bytes)| stream.to_write(bytes)));
        for (index, result) in written.into_iter().enumerate() {
            match result {
                Ok(count) => assert_eq!(count, index + 1),
                Err(error) => assert!(index == 3, "{index}: {error}"),
            }
        }
        near[5].shutdown(Shutdown::Write).unwrap();
        let mut buffers = vec![[0; 32]; 20];
        let reads = far.iter().zip(&mut buffers).enumerate();
        let reads = reads.map(|(index, (stream, buffer))| stream.to_read(if index == 7 { &mut [] } else { buffer }));
        let read = transfer_all(reads);
        for (index, result) in read.into_iter().enumerate() {
            if index == 3 && result.is_err() {
                continue; // Data came for a direction that had ended: the connection was reset.
            }
            let expected = if matches!(index, 3 | 7) { 0 } else { index + 1 };
            assert_eq!(result.unwrap(), expected, "of {index}");
            assert!(buffers[index][..expected].iter().all(|byte| *byte == expected as u8));
        }
        assert_eq!((&far[5]).read(&mut [0]).unwrap(), 0, "its end comes after what was written");
        assert!(transfer_all([]).is_empty());
    });
}

#[test]
fn a_batch_waits_for_the_last_of_its_transfers() {
    everywhere(|| {
        let (near, far) = pairs(12);
        let read = AtomicBool::new(false);
        scope(|s| {
            let reader = s.spawn(|| {
                let mut buffers = vec![[0; 4]; 12];
                let counts = transfer_all(far.iter().zip(&mut buffers).map(|(stream, buffer)| stream.to_read(buffer)));
                read.store(true, Ordering::Relaxed);
                counts.into_iter().map(Result::unwrap).sum::<usize>()
            });
            for (index, mut stream) in near.iter().enumerate() {
                assert!(!read.load(Ordering::Relaxed), "{index} transfers had no result");
                stream.write_all(&[1; 4][..1 + index % 4]).unwrap();
                for _ in 0..50 {
                    segue_core::yield_now().unwrap();
                }
            }
            assert_eq!(reader.join().unwrap(), 3 * (1 + 2 + 3 + 4));
        });
    });
}

#[test]
fn a_batch_that_is_cut_short_keeps_the_results_that_are_there_and_loses_no_byte() {
    everywhere(|| {
        let (near, far) = pairs(6);
        let begun = AtomicBool::new(false);
        let results = scope(|s| {
            let reader = s.spawn(|| {
                let mut buffers = vec![[0; 4]; 6];
                begun.store(true, Ordering::Relaxed);
                transfer_all(far.iter().zip(&mut buffers).map(|(stream, buffer)| stream.to_read(buffer)))
            });
            (&near[1]).write_all(b"1").unwrap();
            (&near[4]).write_all(b"4").unwrap();
            until(|| begun.load(Ordering::Relaxed));
            for _ in 0..100 {
                segue_core::yield_now().unwrap();
            }
            s.cancel();
            shield(|| reader.join())
        });
        // A thread may have had no turn before it was cancelled.
        let Ok(results) = results else { return };
        for (index, result) in results.into_iter().enumerate() {
            match result {
                Ok(count) => assert!(count == 1 && matches!(index, 1 | 4), "{count} of {index}"),
                Err(error) => {
                    assert!(Cancelled::caused(&error), "{error}");
                    if matches!(index, 1 | 4) {
                        assert_eq!((&far[index]).read(&mut [0; 4]).unwrap(), 1, "a byte was lost");
                    }
                }
            }
        }
    });
}

#[test]
fn a_limit_around_a_batch_ends_what_waits() {
    for backend in common::BACKENDS {
        on_one_worker(backend, || {
            let (_near, far) = pairs(3);
            let mut buffers = vec![[0; 4]; 3];
            let transfers = far.iter().zip(&mut buffers).map(|(stream, buffer)| stream.to_read(buffer));
            let ended = timeout(Duration::from_millis(3), || {
                transfer_all(transfers).into_iter().collect::<io::Result<Vec<_>>>()
            });
            let error = ended.unwrap_err();
            assert!(error.kind() == ErrorKind::TimedOut || Cancelled::caused(&error), "{error}");
        });
    }
}

/// More than the arms of a choice.
#[test]
fn a_batch_may_be_as_large_as_one_likes() {
    const READS: usize = 70_000;
    for backend in common::BACKENDS {
        on_one_worker(backend, || {
            let (near, far) = pair();
            let mut buffers = vec![[0; 1]; READS];
            scope(|s| {
                let reader = s.spawn(|| transfer_all(buffers.iter_mut().map(|buffer| far.to_read(buffer))));
                segue_core::yield_now().unwrap();
                (&near).write_all(&vec![1; READS]).unwrap();
                assert!(reader.join().unwrap().into_iter().all(|read| read.unwrap() == 1));
            });
            assert!(buffers.into_iter().all(|buffer| buffer == [1]));
        });
    }
}
