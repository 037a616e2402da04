//! Whichever fiber of a list ends next, again and again: a choice among their ends, which are lent,
//! so that those that were not chosen are there for the next choice. It runs in simulated time.

use segue::core::Source;
use segue::testing::Sim;
use segue::{Cancelled, JoinError, Waitable, any_of, sleep, try_scope};
use std::time::Duration;

/// Takes the first fiber that ends out of the list, and answers its result; `None` if the list is
/// empty.
fn next_finished<T>(
    list: &mut Vec<Waitable<impl Source<Output = Result<T, JoinError>>>>,
) -> Result<Option<Result<T, JoinError>>, Cancelled> {
    if list.is_empty() {
        return Ok(None);
    }
    let ends: Vec<_> = list.iter_mut().map(Waitable::by_ref).collect();
    let (index, result) = any_of(ends).wait()?;
    _ = list.swap_remove(index);
    Ok(Some(result))
}

fn main() {
    let in_order = Sim::new(1).run(|| {
        try_scope(|s| {
            let mut running: Vec<_> = [30, 10, 40, 20]
                .map(|ms| s.spawn(move || sleep(Duration::from_millis(ms)).map(|()| ms)).join_source())
                .into();
            let mut in_order = Vec::new();
            while let Some(ended) = next_finished(&mut running)? {
                let ms = ended.expect("it does not panic")?;
                in_order.push(ms);
                if ms == 20 {
                    // More may be added at any time.
                    running.push(s.spawn(|| Ok(25)).join_source());
                }
            }
            Ok::<_, Cancelled>(in_order)
        })
    });
    let in_order = in_order.expect("no deadlock").expect("nobody cancels");
    println!("they ended in this order: {in_order:?}");
    assert_eq!(in_order, [10, 20, 25, 30, 40]);
}
