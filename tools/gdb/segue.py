"""Fibers in gdb: `source tools/gdb/segue.py`, then `segue fibers` and `segue bt ID`.

It reads the lists and labels that segue-fiber keeps for signal handlers, and the words with which a suspended coroutine
rests. No debug information is needed for that. The layouts are those of `registry.rs` and `coroutine.rs` in
crates/segue-fiber/src/native, and of `primitives/switch/` in crates/segue-core/src.

Works on a live process and on a core file, on x86-64. Nothing of the program is run or changed.
"""

import bisect
import re
import struct

import gdb
from gdb.unwinder import Unwinder, register_unwinder

COLOURS, LINE = 16, 64


def read(address, layout):
    data = gdb.selected_inferior().read_memory(address, struct.calcsize(layout))
    return struct.unpack(layout, data.tobytes())


def head():
    """The address of the list of arenas: a symbol, which is there unless the program was stripped."""
    found = gdb.execute("info variables -q ^segue_fiber::host::registry::HEAD", to_string=True)
    addresses = re.findall(r"^(0x[0-9a-f]+) ", found, re.MULTILINE)
    if not addresses:
        raise gdb.GdbError("no symbol for the arenas of segue-fiber: the program is stripped, or has no fibers")
    return int(addresses[0], 16)


def slots():
    """The usable part of every slot that was ever used."""
    (entry,) = read(head(), "<Q")
    while entry:
        following, start, stride, guard, size, _, version, prepared = read(entry, "<QQQQQIII")
        if version % 2:
            for number in range(prepared):
                slot = start + number * stride
                yield slot + guard, slot + size - number % COLOURS * LINE
        entry = following


def words(rests):
    """Frame pointer, instruction and rbx of whoever rests there."""
    return read(rests - 24, "<QQQ")


class Fiber:
    """A coroutine in the middle of its function. Where it rests is true if it is suspended, and old otherwise."""

    def __init__(self, bottom, top, root):
        self.bottom, self.top, self.root = bottom, top, root
        # One more than the number that it was given.
        _, label, name, length = read(top - LINE, "<QQ47sB")
        self.id = label - 1 if label else None
        self.name = name[:length].decode(errors="replace")
        self.link, _, self.rests = read(root, "<QQQ")

    def __str__(self):
        if self.id is None:
            return "a handler's or a generator's body"
        return "fiber %s%d" % ("'%s' " % self.name if self.name else "", self.id)


class Fibers:
    """All of them, by their stacks."""

    def __init__(self):
        self.all = []
        for bottom, top in slots():
            (root,) = read(top - LINE, "<Q")
            if bottom <= root < top and read(root + 16, "<Q")[0]:
                self.all.append(Fiber(bottom, top, root))
        self.bottoms = [fiber.bottom for fiber in self.all]
        # Whoever is below a thread runs, whoever is below somebody else that is suspended is captured.
        self.busy = set()
        for thread in gdb.selected_inferior().threads():
            chosen = gdb.selected_thread()
            thread.switch()
            self.busy.update(self.chain(int(gdb.newest_frame().read_register("rsp")), None))
            chosen.switch()
        for fiber in self.all:
            if fiber not in self.busy:
                self.busy.update(self.chain(fiber.rests, fiber)[:-1])

    def at(self, address):
        number = bisect.bisect_right(self.bottoms, address) - 1
        fiber = self.all[number] if number >= 0 else None
        return fiber if fiber and address < fiber.top else None

    def chain(self, address, last):
        """The fibers on whose stacks somebody is who is at that address, up to the last."""
        found = []
        fiber = self.at(address)
        while fiber and fiber not in found:
            found.append(fiber)
            fiber = self.at(fiber.link) if fiber is not last else None
        return found

    def suspended(self):
        return [fiber for fiber in self.all if fiber not in self.busy]


class Frame:
    def __init__(self, sp, pc):
        self.sp, self.pc = gdb.Value(sp), gdb.Value(pc)


class Rests(Unwinder):
    """While `at` is set, the caller of the thread's innermost frame is who rests there."""

    def __init__(self):
        super().__init__("segue")
        self.at = None

    def __call__(self, pending):
        here = int(pending.read_register("rsp")), int(pending.read_register("rip"))
        if self.at is None or here != self.innermost:
            return None
        frame_pointer, instruction, rbx = words(self.at)
        word = gdb.lookup_type("unsigned long")
        caller = pending.create_unwind_info(Frame(*here))
        for name, value in ("rip", instruction), ("rsp", self.at), ("rbp", frame_pointer), ("rbx", rbx):
            caller.add_saved_register(name, gdb.Value(value).cast(word))
        return caller


RESTS = Rests()
register_unwinder(None, RESTS, replace=True)


def backtrace(fiber, stacks):
    """gdb's own backtrace, as if the thread's innermost frame had been called from where the fiber rests."""
    newest = gdb.newest_frame()
    RESTS.innermost = int(newest.read_register("rsp")), int(newest.read_register("rip"))
    own = 1
    while newest.type() == gdb.INLINE_FRAME:
        newest, own = newest.older(), own + 1
    RESTS.at = fiber.rests
    gdb.invalidate_cached_frames()
    try:
        lines = gdb.execute("bt", to_string=True).splitlines()[own:]
    finally:
        RESTS.at = None
        gdb.invalidate_cached_frames()
    # What begins a stack looks like a signal's frame. Below the fiber's own is who resumed it last, which is old.
    ends = [number for number, line in enumerate(lines) if "<signal handler called>" in line]
    return "\n".join(lines[: ends[stacks - 1]] if len(ends) >= stacks else lines)


class Segue(gdb.Command):
    """Fibers of a Segue program."""

    def __init__(self):
        super().__init__("segue", gdb.COMMAND_STACK, prefix=True)


class ListFibers(gdb.Command):
    """segue fibers: every suspended fiber, and the function in which it rests."""

    def __init__(self):
        super().__init__("segue fibers", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        fibers = Fibers()
        for fiber in fibers.suspended():
            symbol = gdb.execute("info symbol %d" % words(fiber.rests)[1], to_string=True)
            print("%s rests in %s" % (fiber, symbol.split(" in section")[0].strip()))
        print("%d suspended; %d run, or are captured in these" % (len(fibers.suspended()), len(fibers.busy)))


class Backtrace(gdb.Command):
    """segue bt ID, or segue bt NAME: where a suspended fiber is, on its own stack and on those captured with it.
    segue bt all: where each of them is."""

    def __init__(self):
        super().__init__("segue bt", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        fibers = Fibers()
        found = [fiber for fiber in fibers.suspended() if argument in ("all", str(fiber.id), fiber.name)]
        if not found:
            raise gdb.GdbError("no suspended fiber of this name or number; `segue fibers` lists them")
        for fiber in found:
            stacks = len(fibers.chain(fiber.rests, fiber))
            print("%s:\n%s\n" % (fiber, backtrace(fiber, stacks)))


Segue()
ListFibers()
Backtrace()
