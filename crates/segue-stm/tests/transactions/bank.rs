use segue_stm::{TVar, atomically};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

#[test]
fn transfers_keep_the_sum_while_readers_look() {
    let accounts: Vec<TVar<i64>> = (0..10).map(|_| TVar::new(100)).collect();
    let stop = AtomicBool::new(false);
    let looks = AtomicUsize::new(0);
    std::thread::scope(|s| {
        let writers: Vec<_> = (0..3)
            .map(|seed| {
                let accounts = &accounts;
                s.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(seed);
                    for _ in 0..20_000 {
                        let (from, to) = (random.usize(..10), random.usize(..10));
                        atomically(|tx| {
                            tx.modify(&accounts[from], |balance| balance - 1)?;
                            tx.modify(&accounts[to], |balance| balance + 1)
                        })
                        .unwrap();
                    }
                })
            })
            .collect();
        s.spawn(|| {
            while !stop.load(SeqCst) {
                let sum = atomically(|tx| {
                    let mut sum = 0;
                    for account in &accounts {
                        sum += tx.read(account)?;
                    }
                    Ok(sum)
                });
                assert_eq!(sum, Ok(1000));
                looks.fetch_add(1, SeqCst);
            }
        });
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        stop.store(true, SeqCst);
    });
    assert!(looks.load(SeqCst) > 0);
    assert_eq!(accounts.iter().map(TVar::get).sum::<i64>(), 1000);
}

#[test]
fn a_retry_waits_for_a_change() {
    let (ping, pong) = (TVar::new(0), TVar::new(0));
    segue::run(|| {
        segue::scope(|s| {
            s.spawn(|| {
                for round in 1..=1000 {
                    atomically(|tx| {
                        tx.check(*tx.read(&ping)? == round)?;
                        tx.write(&pong, round)
                    })
                    .unwrap();
                }
            });
            for round in 1..=1000 {
                ping.set(round).unwrap();
                atomically(|tx| tx.check(*tx.read(&pong)? == round)).unwrap();
            }
        });
    });
    assert_eq!(pong.get(), 1000);
}
