use segue_stm::{TVar, atomically};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

static COUNTED: LazyLock<TVar<u64>> = LazyLock::new(|| TVar::new(0));
static DROPS: AtomicU64 = AtomicU64::new(0);

/// Its drop is a transaction.
struct Counts;

impl Drop for Counts {
    fn drop(&mut self) {
        atomically(|tx| tx.modify(&COUNTED, |n| n + 1)).expect("a transaction of its own");
        DROPS.fetch_add(1, SeqCst);
    }
}

#[test]
fn a_drop_is_no_part_of_the_transaction_in_whose_body_it_happens_to_run() {
    let (replaced, over) = (TVar::new(Counts), AtomicBool::new(false));
    std::thread::scope(|s| {
        // Attempts that keep old values for a moment.
        s.spawn(|| {
            while !over.load(SeqCst) {
                atomically(|tx| {
                    tx.read(&replaced)?;
                    std::thread::yield_now();
                    Ok(())
                })
                .unwrap();
            }
        });
        // Bodies that let go of a variable, which frees memory, and are undone.
        s.spawn(|| {
            while !over.load(SeqCst) {
                let undone = atomically(|tx| {
                    tx.catch(|_| {
                        drop(TVar::new(String::new()));
                        Ok(Err::<(), _>(()))
                    })
                });
                assert_eq!(undone, Ok(Err(())));
            }
        });
        for _ in 0..20_000 {
            replaced.set(Counts).unwrap();
        }
        over.store(true, SeqCst);
    });
    drop(replaced);
    // Transactions of other tests may keep some of the values a little longer.
    let counted = || (DROPS.load(SeqCst), COUNTED.get());
    while counted().0 < 20_001 {
        std::thread::yield_now();
    }
    assert_eq!(counted(), (20_001, 20_001));
}
