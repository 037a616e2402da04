//! Transactions inside of a body are a part of the one around.

use segue_stm::{TVar, atomically};

#[test]
fn a_retry_inside_is_a_retry_of_the_branch_around() {
    let (gate, written) = (TVar::new(false), TVar::new(0));
    let chosen = atomically(|tx| {
        tx.or_else(
            |tx| {
                tx.write(&written, 1)?;
                Ok(atomically(|tx| tx.check(*tx.read(&gate)?)).map(|()| "first")?)
            },
            |tx| Ok(if *tx.read(&written)? == 0 { "second" } else { "half of the first" }),
        )
    });
    assert_eq!(chosen, Ok("second"));
    assert_eq!(written.get(), 0);
}

#[test]
fn a_transaction_inside_is_undone_with_the_one_around() {
    let (inner, outer) = (TVar::new(0), TVar::new(0));
    let undone = atomically(|tx| {
        tx.catch(|tx| {
            atomically(|tx| tx.write(&inner, 1))?;
            inner.set(2)?;
            tx.write(&outer, *tx.read(&inner)?)?;
            Ok(if *tx.read(&outer)? == 2 { Err("undone") } else { Ok(()) })
        })
    });
    assert_eq!(undone, Ok(Err("undone")));
    assert_eq!((inner.get(), outer.get()), (0, 0));
}
