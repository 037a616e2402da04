//! `select!`: the choice among several operations, written as a `match`.
//!
//! Used by applications. The macro makes one [`any_of`](crate::any_of) of its arms, waits, and runs
//! the body of the chosen arm, in the calling function: so a body may `break`, `return` and `?`,
//! and has the variables that the other arms had borrowed.
//!
//! Its own names begin with `segue_`: a constant of the user's would be meant by a shorter one.
//!
//! The rules take the arms one by one; each gets the next variant of
//! [`OneOf`](crate::source::OneOf) for its name. The last rules put all together, one for each way
//! to wait.

/// Waits for the first of several operations, and runs the body of its arm.
///
/// ```text
/// select! {
///     pattern = source => body,                // any number up to twelve
///     pattern = source, if condition => body,  // an arm that can be switched off
///     deadline(instant) => body,               // at most one: when nothing came by then
///     default => body,                         // at most one: when nothing is there now
/// }
/// ```
///
/// A source is an [operation's `x_source()`](crate::Waitable), [`after`](crate::after) some time,
/// the [end of a fiber](crate::JoinHandle::join_source), or any other
/// [`Source`](crate::core::Source). All are made first, in their order. Exactly one takes effect,
/// also where its partner selects as well; the others were never begun. The values of these arms go
/// with them; to keep one, lend the source: `sent = sending.by_ref() => ..`.
///
/// | beginning | effect | result |
/// | --- | --- | --- |
/// | an arm | suspends the fiber, or parks the thread, until an arm is ready | `Result<R, Cancelled>`, where a body yields `R` |
/// | `await;` | is awaited by a task, in `async` code | `R` |
/// | `biased;` | takes the first of those that are ready, and not one that is drawn | |
///
/// With `default` the choice never waits, and yields `R`, also in a cancelled caller. The arms are
/// looked at one after the other, and not all at one instant: an arm that becomes ready after its
/// look is for the next call. `await; biased;` go together in this order. `deadline` takes an
/// `Instant`, or an `Option` of one, where `None` is never; a ready arm is taken also after the
/// deadline.
///
/// In `async` code the macro parks the thread that polls, without `await;` at its head; there is no
/// `select! { .. }.await`. A pattern has to fit every output, as that of a `let`: a `Result` is
/// looked at in the body.
///
/// With all arms switched off the choice waits for the deadline, or for ever. For more than twelve
/// arms, or a number that is known only at run time, [`any_of`](crate::any_of) takes a list. In a
/// loop over receivers of one's own [`merge`](crate::source::merge()) does less work.
///
/// # Order
/// If several arms are ready, one is taken at random, each with the same chance: so an arm that is
/// always ready starves no other. `deadline` and `default` come after all of them. With `biased`
/// the first ready one is taken, each time: an arm that is always ready starves those behind.
///
/// # Cancellation
/// *Loses its place in the queue*, of every arm: no arm has had an effect, and no body runs.
///
/// # Errors
/// [`Cancelled`](crate::Cancelled) if the caller was cancelled.
///
/// # Examples
///
/// ```
/// use segue::{channel, select, sync::Semaphore};
/// use std::time::{Duration, Instant};
///
/// let (orders, inbox) = channel::bounded(8);
/// let stop = Semaphore::new(0);
/// segue::try_scope(|s| {
///     s.spawn(|| {
///         for n in 1..=3 {
///             orders.send(n).unwrap();
///         }
///         stop.add_permits(1);
///     });
///     let mut sum = 0;
///     loop {
///         select! {
///             biased;
///             order = inbox.recv_source() => sum += order.unwrap(),
///             _permit = stop.acquire_source() => break,
///             deadline(Instant::now() + Duration::from_secs(60)) => panic!("nobody orders"),
///         }?;
///     }
///     assert_eq!(sum, 6);
///     Ok::<(), segue::Cancelled>(())
/// }).unwrap();
///
/// // Without waiting:
/// let next = select! {
///     order = inbox.recv_source() => order.ok(),
///     default => None,
/// };
/// assert_eq!(next, None);
/// ```
///
/// In a task:
///
/// ```
/// use segue::{after, channel, select};
/// use std::time::Duration;
///
/// async fn greeting(inbox: &channel::Receiver<&'static str>) -> &'static str {
///     select! {
///         await;
///         word = inbox.recv_source() => word.unwrap_or("closed"),
///         () = after(Duration::from_millis(1)) => "silence",
///     }
/// }
/// let (_sender, inbox) = channel::unbounded();
/// assert_eq!(segue::wait_future(greeting(&inbox)), Ok("silence"));
/// ```
#[macro_export]
macro_rules! select {
    // The arms are over: [way to wait] [order] [deadline] [default] [arms].
    (@arms $letters:tt $wait:tt $order:ident $deadline:tt $default:tt $arms:tt) => {
        $crate::select!(@build $wait $order $deadline $default $arms)
    };
    // The comma behind a body that is a block: a comma may be there or not.
    (@arms $letters:tt $wait:tt $order:ident $deadline:tt $default:tt $arms:tt , $($rest:tt)*) => {
        $crate::select!(@arms $letters $wait $order $deadline $default $arms $($rest)*)
    };
    (@arms $letters:tt $wait:tt $order:ident $deadline:tt [] $arms:tt default => { $($body:tt)* } $($rest:tt)*) => {
        $crate::select!(@arms $letters $wait $order $deadline [{ $($body)* }] $arms $($rest)*)
    };
    (@arms $letters:tt $wait:tt $order:ident $deadline:tt [] $arms:tt default => $body:expr $(, $($rest:tt)*)?) => {
        $crate::select!(@arms $letters $wait $order $deadline [$body] $arms $($($rest)*)?)
    };
    (@arms $letters:tt $wait:tt $order:ident [] $default:tt $arms:tt
        deadline($at:expr) => { $($body:tt)* } $($rest:tt)*) => {
        $crate::select!(@arms $letters $wait $order [($at) { $($body)* }] $default $arms $($rest)*)
    };
    (@arms $letters:tt $wait:tt $order:ident [] $default:tt $arms:tt
        deadline($at:expr) => $body:expr $(, $($rest:tt)*)?) => {
        $crate::select!(@arms $letters $wait $order [($at) $body] $default $arms $($($rest)*)?)
    };
    (@arms [] $wait:tt $order:ident $deadline:tt $default:tt $arms:tt $($rest:tt)+) => {
        ::core::compile_error!("`select!` takes up to twelve arms; for more, `any_of` takes a `Vec` of sources")
    };
    (@arms [$letter:ident $($letters:ident)*] $wait:tt $order:ident $deadline:tt $default:tt [$($arms:tt)*]
        $pattern:pat = $source:expr, if $condition:expr => { $($body:tt)* } $($rest:tt)*) => {
        $crate::select!(@arms [$($letters)*] $wait $order $deadline $default [$($arms)* {
            $letter $pattern, if $condition { ::core::option::Option::Some($crate::Waitable::new($source)) } else { ::core::option::Option::None }, { $($body)* }
        }] $($rest)*)
    };
    (@arms [$letter:ident $($letters:ident)*] $wait:tt $order:ident $deadline:tt $default:tt [$($arms:tt)*]
        $pattern:pat = $source:expr, if $condition:expr => $body:expr $(, $($rest:tt)*)?) => {
        $crate::select!(@arms [$($letters)*] $wait $order $deadline $default [$($arms)* {
            $letter $pattern, if $condition { ::core::option::Option::Some($crate::Waitable::new($source)) } else { ::core::option::Option::None }, $body
        }] $($($rest)*)?)
    };
    (@arms [$letter:ident $($letters:ident)*] $wait:tt $order:ident $deadline:tt $default:tt [$($arms:tt)*]
        $pattern:pat = $source:expr => { $($body:tt)* } $($rest:tt)*) => {
        $crate::select!(@arms [$($letters)*] $wait $order $deadline $default [$($arms)* {
            $letter $pattern, $crate::Waitable::new($source), { $($body)* }
        }] $($rest)*)
    };
    (@arms [$letter:ident $($letters:ident)*] $wait:tt $order:ident $deadline:tt $default:tt [$($arms:tt)*]
        $pattern:pat = $source:expr => $body:expr $(, $($rest:tt)*)?) => {
        $crate::select!(@arms [$($letters)*] $wait $order $deadline $default [$($arms)* {
            $letter $pattern, $crate::Waitable::new($source), $body
        }] $($($rest)*)?)
    };
    (@arms $letters:tt $wait:tt $order:ident $deadline:tt $default:tt $arms:tt $($rest:tt)+) => {
        ::core::compile_error!(::core::concat!(
            "`select!` expected `pattern = source => body,` or `pattern = source, if condition => body,` (the comma may \
             be left away behind a block), or once at most `deadline(instant) => body,` or `default => body,`; and \
             found `",
            ::core::stringify!($($rest)+),
            "`"
        ))
    };

    (@build $wait:tt $order:ident $deadline:tt $default:tt []) => {
        ::core::compile_error!("`select!` without an arm `pattern = source => body` has nothing to choose from")
    };
    (@build $wait:tt $order:ident [$($deadline:tt)+] [$default:expr] $arms:tt) => {
        ::core::compile_error!("`select!` with `default` never waits, so it can't have a `deadline`")
    };
    (@build [$awaits:tt] $order:ident [] [$default:expr] $arms:tt) => {
        ::core::compile_error!("`select!` with `default` never waits: leave `await` away")
    };
    // A source is an argument, a pattern that of a `let`, and a body stands alone in its block: so
    // the compiler's messages about one of them point at the user's own code.
    (@build [] $order:ident [] [$default:expr] [$({ $letter:ident $pattern:pat, $source:expr, $body:expr })+]) => {{
        $crate::core::preemption_point();
        let segue_chosen = $crate::core::$order(($($source,)+)).attempt();
        #[allow(unreachable_code, clippy::diverging_sub_expression)]
        let segue_yielded = match segue_chosen {
            ::core::option::Option::Some(segue_chosen) => match segue_chosen {
                $($crate::source::OneOf::$letter(segue_output) => { let ($pattern) = segue_output; $body })+
            },
            ::core::option::Option::None => $default,
        };
        segue_yielded
    }};
    (@build [] $order:ident [] [] [$({ $letter:ident $pattern:pat, $source:expr, $body:expr })+]) => {{
        let segue_chosen = $crate::core::$order(($($source,)+)).wait();
        #[allow(unreachable_code, clippy::diverging_sub_expression)]
        let segue_yielded = match segue_chosen {
            ::core::result::Result::Ok(segue_chosen) => ::core::result::Result::Ok(match segue_chosen {
                $($crate::source::OneOf::$letter(segue_output) => { let ($pattern) = segue_output; $body })+
            }),
            ::core::result::Result::Err(segue_cancelled) => ::core::result::Result::Err::<_, $crate::Cancelled>(segue_cancelled),
        };
        segue_yielded
    }};
    (@build [] $order:ident [($at:expr) $late:expr] [] [$({ $letter:ident $pattern:pat, $source:expr, $body:expr })+]) => {{
        let segue_chosen = $crate::core::$order(($($source,)+)).or_else($crate::at(::core::convert::From::from($at))).wait();
        #[allow(unreachable_code, clippy::diverging_sub_expression)]
        let segue_yielded = match segue_chosen {
            ::core::result::Result::Ok(segue_chosen) => ::core::result::Result::Ok(match segue_chosen {
                $($crate::Either::Left($crate::source::OneOf::$letter(segue_output)) => { let ($pattern) = segue_output; $body })+
                $crate::Either::Right(()) => $late,
            }),
            ::core::result::Result::Err(segue_cancelled) => ::core::result::Result::Err::<_, $crate::Cancelled>(segue_cancelled),
        };
        segue_yielded
    }};
    (@build [await] $order:ident [] [] [$({ $letter:ident $pattern:pat, $source:expr, $body:expr })+]) => {{
        let segue_chosen = $crate::core::$order(($($source,)+)).await;
        match segue_chosen {
            $($crate::source::OneOf::$letter(segue_output) => { let ($pattern) = segue_output; $body })+
        }
    }};
    (@build [await] $order:ident [($at:expr) $late:expr] []
        [$({ $letter:ident $pattern:pat, $source:expr, $body:expr })+]) => {{
        let segue_chosen = $crate::core::$order(($($source,)+)).or_else($crate::at(::core::convert::From::from($at))).await;
        match segue_chosen {
            $($crate::Either::Left($crate::source::OneOf::$letter(segue_output)) => { let ($pattern) = segue_output; $body })+
            $crate::Either::Right(()) => $late,
        }
    }};

    (biased; await; $($arms:tt)*) => {
        ::core::compile_error!("in `select!` the order is `await; biased;`")
    };
    (await; biased; $($arms:tt)*) => {
        $crate::select!(@arms [A B C D E F G H I J K L] [await] any_of_biased [] [] [] $($arms)*)
    };
    (await; $($arms:tt)*) => {
        $crate::select!(@arms [A B C D E F G H I J K L] [await] any_of [] [] [] $($arms)*)
    };
    (biased; $($arms:tt)*) => {
        $crate::select!(@arms [A B C D E F G H I J K L] [] any_of_biased [] [] [] $($arms)*)
    };
    ($($arms:tt)*) => {
        $crate::select!(@arms [A B C D E F G H I J K L] [] any_of [] [] [] $($arms)*)
    };
}
