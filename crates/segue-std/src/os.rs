//! What std has for this system, with Segue's sockets and commands in front.
#![allow(unsafe_code)] // `pre_exec` is unsafe, as std's.

#[doc(no_inline)]
pub use std::os::*;

/// [`std::os::unix`].
pub mod unix {
    #[doc(no_inline)]
    pub use std::os::unix::*;

    /// [`std::os::unix::net`], with the sockets of [`segue::net`].
    pub mod net {
        pub use segue::net::{UnixDatagram, UnixListener, UnixStream};
        #[doc(no_inline)]
        pub use std::os::unix::net::*;
    }

    /// [`std::os::unix::prelude`].
    pub mod prelude {
        pub use super::process::CommandExt;
        #[doc(no_inline)]
        pub use std::os::unix::prelude::*;
    }

    pub mod process {
        //! [`std::os::unix::process`], with a [`CommandExt`] for Segue's command.

        #[doc(no_inline)]
        pub use std::os::unix::process::*;

        use crate::process::Command;
        use std::ffi::OsStr;
        use std::io;
        use std::os::unix::process::CommandExt as OfStd;

        /// [`std::os::unix::process::CommandExt`], of Segue's [`Command`].
        ///
        /// # Examples
        ///
        /// ```
        /// use segue_std::os::unix::process::CommandExt;
        /// use segue_std::process::Command;
        ///
        /// let named = Command::new("sh").args(["-c", "echo $0"]).arg0("named").output()?;
        /// assert_eq!(named.stdout, b"named\n");
        /// # Ok::<(), std::io::Error>(())
        /// ```
        pub trait CommandExt: Sealed {
            /// The user that the child is.
            fn uid(&mut self, id: u32) -> &mut Command;

            /// The group that the child is of.
            fn gid(&mut self, id: u32) -> &mut Command;

            /// The name that the program is told as its own.
            fn arg0<S: AsRef<OsStr>>(&mut self, arg: S) -> &mut Command;

            /// As [`Command::process_group`].
            fn process_group(&mut self, group: i32) -> &mut Command;

            /// A closure that the child calls before the program is executed.
            ///
            /// # Safety
            /// The closure does what [`std::os::unix::process::CommandExt::pre_exec`] lets a
            /// closure do in a process that was forked, and calls nothing of Segue's.
            unsafe fn pre_exec<F>(&mut self, f: F) -> &mut Command
            where
                F: FnMut() -> io::Result<()> + Send + Sync + 'static;

            /// Replaces this process by the program, with all of its fibers.
            ///
            /// # Errors
            /// Returns only if that fails.
            fn exec(&mut self) -> io::Error;
        }

        /// Keeps [`CommandExt`] to the one type.
        #[doc(hidden)]
        pub trait Sealed {}

        impl Sealed for Command {}

        impl CommandExt for Command {
            fn uid(&mut self, id: u32) -> &mut Command {
                self.as_std_mut().uid(id);
                self
            }

            fn gid(&mut self, id: u32) -> &mut Command {
                self.as_std_mut().gid(id);
                self
            }

            fn arg0<S: AsRef<OsStr>>(&mut self, arg: S) -> &mut Command {
                self.as_std_mut().arg0(arg);
                self
            }

            fn process_group(&mut self, group: i32) -> &mut Command {
                Command::process_group(self, group)
            }

            unsafe fn pre_exec<F>(&mut self, f: F) -> &mut Command
            where
                F: FnMut() -> io::Result<()> + Send + Sync + 'static,
            {
                // SAFETY: our caller vouches for the closure, by the clause of std's method.
                unsafe { OfStd::pre_exec(self.as_std_mut(), f) };
                self
            }

            fn exec(&mut self) -> io::Error {
                match self.refused() {
                    Err(error) => error,
                    Ok(()) => OfStd::exec(self.as_std_mut()),
                }
            }
        }
    }
}
