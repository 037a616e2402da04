//! Options of sockets: methods that hand a value to the kernel, or ask for one.
//!
//! Used by `udp`, `tcp` and `builder`, each for its own options.

/// Methods that call the method of the same kind of a socket of `socket2`.
macro_rules! options {
    (|$it:ident| $io:expr; $($(#[$doc:meta])* $name:ident($($arg:ident: $type:ty),*) -> $value:ty = $theirs:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// Never waits.
        ///
        /// # Errors
        /// The kernel's error.
        pub fn $name(&self, $($arg: $type),*) -> std::io::Result<$value> {
            let $it = self;
            $io.$theirs($($arg),*)
        }
    )*};
}

pub(super) use options;
