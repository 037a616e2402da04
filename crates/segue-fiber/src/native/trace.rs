//! Where an overflowed fiber was: code addresses, as far as a signal handler can tell them safely.
//!
//! Used by `overflow`.
//!
//! Rust code keeps no frame pointers by default and unwinding is not async-signal-safe, so the stack is scanned
//! instead: a word that points into the program's code right behind a call instruction is, nearly always, a return
//! address. Some may be left over from calls that have ended. Only the slot's own memory and the program's own code
//! are read, both of which are mapped. Addresses are printed as they stand in the program's file, so that `addr2line`
//! resolves them.

#![allow(unsafe_code)] // Reads the stack and code.

use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::sync::OnceLock;

use super::overflow::Writer;
use super::registers::Registers;
use super::registry::Slot;

/// How many addresses are printed, and how far the scan goes.
const PRINTED: usize = 16;
const SCANNED: usize = 64 * 1024;

/// The program's load address and its largest piece of executable code.
struct Image {
    base: usize,
    code: Range<usize>,
}

static IMAGE: OnceLock<Image> = OnceLock::new();

/// Finds the program's code, ahead of time: what it calls is not async-signal-safe.
pub(super) fn learn_image() {
    unsafe extern "C" fn first(info: *mut libc::dl_phdr_info, _size: usize, image: *mut c_void) -> c_int {
        // SAFETY: the loader passes a valid structure, and the pointer given below, to an `Image`.
        let (info, image) = unsafe { (&*info, &mut *image.cast::<Image>()) };
        image.base = info.dlpi_addr as usize;
        for index in 0..info.dlpi_phnum as usize {
            // SAFETY: there are `dlpi_phnum` headers.
            let header = unsafe { &*info.dlpi_phdr.add(index) };
            let start = image.base + header.p_vaddr as usize;
            let code = start..start + header.p_memsz as usize;
            if header.p_type == libc::PT_LOAD && header.p_flags & libc::PF_X != 0 && code.len() > image.code.len() {
                image.code = code;
            }
        }
        // The first is the program itself; stop.
        1
    }

    IMAGE.get_or_init(|| {
        let mut image = Image { base: 0, code: 0..0 };
        // SAFETY: the callback keeps to its signature and takes the pointer for what it is.
        unsafe { libc::dl_iterate_phdr(Some(first), (&raw mut image).cast()) };
        image
    });
}

/// Prints the faulting instruction and what look like return addresses, innermost first.
///
/// # Safety
///
/// The slot is in use by the interrupted code of this thread.
pub(super) unsafe fn print(slot: &Slot, registers: &Registers, out: &mut Writer) {
    let Some(image) = IMAGE.get() else { return };
    if image.code.is_empty() {
        return;
    }
    out.text(b"It was here, called from here (resolve with addr2line -Cfie PROGRAM; calls may be missing or stale):\n");
    let mut line = |address: usize| {
        out.text(b"  ");
        out.hexadecimal((address - image.base) as u64);
        out.text(b"\n");
    };
    if image.code.contains(&registers.instruction) {
        line(registers.instruction);
    }
    let word = size_of::<usize>();
    let mut place = registers.stack.max(slot.bottom).next_multiple_of(word);
    let end = slot.top.min(place + SCANNED);
    let mut printed = 0;
    while place + word <= end && printed < PRINTED {
        // SAFETY: between the guard and the slot's top all memory is readable (by the contract the slot is in use),
        // and what runs on it is interrupted.
        let value = unsafe { (place as *const usize).read_volatile() };
        // SAFETY: `IMAGE` holds a mapped piece of code.
        if unsafe { follows_call(value, &image.code) } {
            // The address of the call rather than of what follows: it may be another function's.
            line(value - 1);
            printed += 1;
        }
        place += word;
    }
}

/// Whether the instruction before an address is a call.
///
/// # Safety
///
/// `code` is mapped and readable.
unsafe fn follows_call(address: usize, code: &Range<usize>) -> bool {
    if !(code.start + 8..code.end).contains(&address) {
        return false;
    }
    // SAFETY: at most 8 bytes before an address at least 8 bytes into the code.
    let byte = |before: usize| unsafe { ((address - before) as *const u8).read_volatile() };
    if cfg!(target_arch = "x86_64") {
        // call rel32; call r/m64 (FF /2) with no, 8-bit and 32-bit displacement, with and without an index byte.
        let indirect = |before: usize| byte(before) == 0xff && byte(before - 1) & 0x38 == 0x10;
        byte(5) == 0xe8 || [2, 3, 4, 6, 7].into_iter().any(indirect)
    } else {
        // A word-aligned address into the code is all that is asked for elsewhere.
        address.is_multiple_of(4)
    }
}
