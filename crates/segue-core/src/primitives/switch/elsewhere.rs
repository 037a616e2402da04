//! Where Segue has no switch: nothing comes to rest here, so nobody goes on.
//!
//! Used so that the rest compiles everywhere; fibers are threads here.

#![allow(unsafe_code)] // The interface is that of the others.

use super::{Resting, Root, Words};

pub(super) const GOES_ON_AT: usize = 0;
pub(super) const FRAME_POINTER: usize = 0;
pub(super) const RETURN: usize = 1;

pub(super) unsafe fn prepare(_base: *mut u8, _root: *mut Root) -> Resting {
    unimplemented!("Segue has no switch for this processor, so that each fiber is a thread")
}

pub(super) unsafe fn switch(_save: *mut Resting, _to: Resting) {
    unreachable!("nothing rests here")
}

pub(super) unsafe fn switch_saying(_save: *mut Resting, _to: Resting, _words: Words) -> Words {
    unreachable!("nothing rests here")
}

pub(super) unsafe fn leave(_to: Resting) -> ! {
    unreachable!("nothing rests here")
}

pub(super) unsafe extern "C" fn root() -> ! {
    unreachable!("nothing rests here")
}
