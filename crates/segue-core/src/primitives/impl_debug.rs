//! `Debug` by a line, for types that show some of their values, or their names alone.
//!
//! Used in all crates. A derive would ask that the values behind a channel or a handle have a
//! `Debug` too, and would show all fields.

/// Implements `Debug` for a type: its name, then each of these values by its name, then two dots.
///
/// ```
/// struct Door<T> {
///     key: T,
///     is_open: bool,
/// }
///
/// segue_core::impl_debug!([T] Door<T>, |it| open: it.is_open);
///
/// assert_eq!(format!("{:?}", Door { key: (), is_open: true }), "Door { open: true, .. }");
/// ```
#[doc(hidden)]
#[macro_export]
macro_rules! impl_debug {
    ([$($generics:tt)*] $name:ident $(<$($of:tt),*>)? $(, |$it:ident| $($field:ident: $value:expr),+)?) => {
        impl<$($generics)*> ::std::fmt::Debug for $name $(<$($of),*>)? {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                $(let $it = self;)?
                f.debug_struct(::std::stringify!($name))
                    $($(.field(::std::stringify!($field), &$value))+)?
                    .finish_non_exhaustive()
            }
        }
    };
}
pub(crate) use impl_debug;
