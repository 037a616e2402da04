//! Frames of C on the stack: a call that goes through the C library.
//!
//! Used by the interpreter on the runtime for functions of C, so that effects, resumptions,
//! exceptions and unwinding really cross foreign frames.

#![allow(unsafe_code)] // A function of the C library that calls back.

use std::ffi::c_void;

unsafe extern "C-unwind" {
    /// `bsearch(3)`. The C library's own comparison functions may throw: glibc builds it with
    /// unwind tables for that.
    fn bsearch(
        key: *const c_void,
        base: *const c_void,
        count: usize,
        size: usize,
        compare: unsafe extern "C-unwind" fn(*const c_void, *const c_void) -> i32,
    ) -> *mut c_void;
}

/// Calls `f`, with a frame of the C library between here and there: `f` is what a binary search
/// compares with.
///
/// `f` may perform, and its stack may be captured, resumed, or unwound, with the foreign frame on
/// it.
///
/// # Panics
///
/// If `f` does. The panic crosses the foreign frame.
pub fn through_c<R>(f: impl FnOnce() -> R) -> R {
    struct Call<F, R> {
        f: Option<F>,
        result: Option<R>,
    }

    /// # Safety
    ///
    /// `call` points to a `Call<F, R>` that nobody else uses until this returns.
    unsafe extern "C-unwind" fn compare<F: FnOnce() -> R, R>(call: *const c_void, _: *const c_void) -> i32 {
        // SAFETY: by the contract; it was a mutable pointer.
        let call = unsafe { &mut *call.cast::<Call<F, R>>().cast_mut() };
        let f = call.f.take().expect("a search among one element compares once");
        call.result = Some(f());
        0 // Found.
    }

    fn with<F: FnOnce() -> R, R>(f: F) -> R {
        let mut call = Call { f: Some(f), result: None };
        let element = 0u8;
        // SAFETY: one element of one byte is searched, so that `compare` is called once, with the
        // key as it is. The key is `call`, of these types, which is not used here before the search
        // returns. The foreign frame holds nothing and has unwind tables, so it may be left by
        // unwinding.
        unsafe { bsearch((&raw mut call).cast(), (&raw const element).cast(), 1, 1, compare::<F, R>) };
        call.result.expect("the comparison was called")
    }

    with(f)
}
