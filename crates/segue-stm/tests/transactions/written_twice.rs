use segue_stm::{TVar, atomically};
use std::sync::Arc;

#[test]
fn values_of_several_types_that_are_written_twice_are_dropped_as_their_own_types() {
    let counted = Arc::new(());
    for round in 0..100 {
        // The commit sorts the writes by address, so both orders of these come up.
        let numbers: Vec<TVar<u64>> = (0..round % 5).map(|_| TVar::new(0)).collect();
        let (text, shared) = (TVar::new(String::new()), TVar::new(None));
        let written = atomically(|tx| {
            for number in numbers.iter().chain(&numbers) {
                tx.write(number, u64::MAX)?;
            }
            for length in 1..=2 {
                tx.write(&shared, Some([Arc::clone(&counted), Arc::clone(&counted)]))?;
                tx.write(&text, "x".repeat(length))?;
            }
            Ok(())
        });
        assert_eq!(written, Ok(()));
        assert_eq!(text.get(), "xx");
    }
    // Transactions of other tests may keep what these have replaced, until their end.
    while Arc::strong_count(&counted) > 1 {
        std::thread::yield_now();
    }
}
