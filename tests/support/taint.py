"""Random programs of one warp that read uninitialised bytes, and which loads a bit-wise interpreter blames for what
they use.

The interpreter knows nothing of smemsim: a dictionary of bytes for each memory, 32 sets of lines for each register.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

__all__ = ["Program"]

LANES = 32
REGISTERS = 8
OWN = 16  # bytes of shared and of local memory that a lane has
BASES = {"shared": "%r21", "local": "loc", "global": "%d1"}
GUARDS = {"": lambda lane: True, "@%p1 ": lambda lane: lane % 2 == 0, "@%p2 ": lambda lane: lane < 9}
Lines = frozenset[int]
CLEAN: Lines = frozenset()
HEAD = """.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out, .param .u64 held)
{
.reg .pred %p<4>; .reg .b32 %r<40>; .reg .b64 %d<8>; .shared .align 16 .b8 sm[512]; .local .align 16 .b8 loc[16];
ld.param.u64 %d0, [out]; ld.param.u64 %d1, [held]; mov.u32 %r25, %tid.x; mul.wide.u32 %d2, %r25, 16; add.u64 %d1, %d1, %d2; mov.u32 %r20, %tid.x; mov.u32 %r21, sm; shl.b32 %r22, %r20, 4; add.u32 %r21, %r21, %r22; xor.b32 %r23, %r21, 16;
and.b32 %r24, %r20, 1; setp.eq.u32 %p1, %r24, 0; setp.lt.u32 %p2, %r20, 9;
mov.u32 %r0, %r20; mov.u32 %r1, 1; mov.u32 %r2, 2; mov.u32 %r3, 3; mov.u32 %r4, 4; mov.u32 %r5, 5; mov.u32 %r6, 6; mov.u32 %r7, 7;"""


class Program:
    """A program of some random instructions, and the lines that are to blame for the values that it uses: an atomic
    operation on some registers.
    """

    def __init__(self, seed: int, length: int = 24) -> None:
        """Its parameters are 4 bytes to add to, and 512 that nothing has written: to these it stores numbers of threads
        alone.
        """
        self.random = random.Random(seed)
        self.lines = HEAD.splitlines()
        self.registers = [[[CLEAN] * 32 for _ in range(REGISTERS)] for _ in range(LANES)]
        self.memory: dict[tuple[str, int, int], Lines] = {}  # by space, lane and offset what is written
        self.blamed: set[int] = set()
        for _ in range(length):
            self.random.choice((
                self._store, self._load, self._load, self._load, self._move, self._mask, self._shift, self._field, self._insert, self._funnel, self._reverse,
                self._permute, self._add, self._exchange, self._ballot,
            ))()  # fmt: skip
        for register in range(REGISTERS):
            self._use(register)
        self.text = "\n".join([*self.lines, "ret;", "}"])

    def _emit(self, text: str) -> int:
        self.lines.append(text)
        return len(self.lines)

    def _any(self) -> int:
        return self.random.randrange(REGISTERS)

    def _guard(self) -> tuple[str, Iterator[int]]:
        guard = self.random.choice(["", *GUARDS])
        return guard, (lane for lane in range(LANES) if GUARDS[guard](lane))

    def _place(self) -> tuple[str, str, int, int, int]:
        """A space, the register of the address, the size of an element, how many, and an offset."""
        space = self.random.choice(("shared", "local", "global"))
        size = self.random.choice((1, 2, 4, 4))
        count = self.random.choice((1, 1, 2, 4)) if size == 4 else 1
        return space, BASES[space], size, count, self.random.randrange(OWN // (size * count)) * size * count

    def _vector(self, registers: list[int]) -> str:
        names = ", ".join(f"%r{n}" for n in registers)
        return f"{{{names}}}" if len(registers) > 1 else names

    def _store(self) -> None:
        (guard, lanes), (space, base, size, count, offset) = self._guard(), self._place()
        registers = [self._any() for _ in range(count)]
        stored = [20] * count if space == "global" else registers
        self._emit(f"{guard}st.{space}{f'.v{count}' if count > 1 else ''}.b{8 * size} [{base}+{offset}], {self._vector(stored)};")
        for lane in lanes:
            for n, register in enumerate(registers):
                for byte in range(size):
                    own = CLEAN if space == "global" else CLEAN.union(*self.registers[lane][register][8 * byte : 8 * byte + 8])
                    self.memory[space, lane, offset + n * size + byte] = own

    def _load(self) -> None:
        (guard, lanes), (space, base, size, count, offset) = self._guard(), self._place()
        of_other = space == "shared" and self.random.random() < 0.4  # what the neighbour has written
        if of_other:
            base = "%r23"
            self._emit("bar.warp.sync -1;")
        registers = self.random.sample(range(REGISTERS), count)
        kind = self.random.choice("us") if count == 1 else "u"
        line = self._emit(
            f"{guard}ld.{space}{f'.v{count}' if count > 1 else ''}.{kind}{8 * size} {self._vector(registers)}, [{base}+{offset}];"
        )
        for lane in lanes:
            for n, register in enumerate(registers):
                places = [(space, lane ^ of_other, offset + n * size + byte) for byte in range(size)]
                found = [self.memory.get(place, frozenset((line,))) for place in places for _ in range(8)]
                above = found[-1] if kind == "s" else CLEAN
                self.registers[lane][register] = found + [above] * (32 - 8 * size)
        if of_other:
            self._emit("bar.warp.sync -1;")

    def _move(self) -> None:
        (guard, lanes), to, of = self._guard(), self._any(), self._any()
        self._emit(f"{guard}mov.b32 %r{to}, %r{of};")
        for lane in lanes:
            self.registers[lane][to] = list(self.registers[lane][of])

    def _mask(self) -> None:
        (guard, lanes), to, of = self._guard(), self._any(), self._any()
        mask = self.random.choice((0xFF00FF, 0xFFFF0000, 0x1FF, 0xF0F0F0F, 0x80000001, self.random.getrandbits(32)))
        kept = [mask >> n & 1 for n in range(32)]
        op, number = self.random.choice((("and", mask), ("or", mask ^ 0xFFFFFFFF)))
        self._emit(f"{guard}{op}.b32 %r{to}, %r{of}, {number:#x};")
        for lane in lanes:
            self.registers[lane][to] = [own if is_kept else CLEAN for own, is_kept in zip(self.registers[lane][of], kept, strict=True)]

    def _shift(self) -> None:
        (guard, lanes), to, of, far = self._guard(), self._any(), self._any(), self.random.choice((0, 1, 4, 8, 13, 16, 24, 31))
        op = self.random.choice(("shl.b32", "shr.u32", "shr.s32"))
        self._emit(f"{guard}{op} %r{to}, %r{of}, {far};")
        for lane in lanes:
            own = self.registers[lane][of]
            above = [own[-1] if op == "shr.s32" else CLEAN] * far
            self.registers[lane][to] = [CLEAN] * far + own[: 32 - far] if op == "shl.b32" else own[far:] + above

    def _field(self) -> None:
        (guard, lanes), to, of = self._guard(), self._any(), self._any()
        begin, bits = self.random.randrange(40), self.random.randrange(1, 34)
        kind = self.random.choice(("u32", "s32"))
        self._emit(f"{guard}bfe.{kind} %r{to}, %r{of}, {begin}, {bits};")
        for lane in lanes:
            own = self.registers[lane][of]
            above = own[min(begin + bits - 1, 31)] if kind == "s32" else CLEAN
            self.registers[lane][to] = [own[begin + n] if n < bits and begin + n < 32 else above for n in range(32)]

    def _insert(self) -> None:
        (guard, lanes), to, one, two = self._guard(), self._any(), self._any(), self._any()
        begin, bits = self.random.randrange(40), self.random.randrange(34)
        self._emit(f"{guard}bfi.b32 %r{to}, %r{one}, %r{two}, {begin}, {bits};")
        for lane in lanes:
            field, around = self.registers[lane][one], self.registers[lane][two]
            self.registers[lane][to] = [field[n - begin] if begin <= n < begin + bits else around[n] for n in range(32)]

    def _funnel(self) -> None:
        (guard, lanes), to, one, two, far = self._guard(), self._any(), self._any(), self._any(), self.random.randrange(40)
        side, mode = self.random.choice("lr"), self.random.choice(("wrap", "clamp"))
        self._emit(f"{guard}shf.{side}.{mode}.b32 %r{to}, %r{one}, %r{two}, {far};")
        far = far % 32 if mode == "wrap" else min(far, 32)
        begin = 32 - far if side == "l" else far
        for lane in lanes:
            self.registers[lane][to] = (self.registers[lane][one] + self.registers[lane][two])[begin : begin + 32]

    def _reverse(self) -> None:
        (guard, lanes), to, of = self._guard(), self._any(), self._any()
        self._emit(f"{guard}brev.b32 %r{to}, %r{of};")
        for lane in lanes:
            self.registers[lane][to] = self.registers[lane][of][::-1]

    def _permute(self) -> None:
        (guard, lanes), to, one, two = self._guard(), self._any(), self._any(), self._any()
        which = [self.random.randrange(16) for _ in range(4)]  # from 8 on the sign of a byte
        self._emit(f"{guard}prmt.b32 %r{to}, %r{one}, %r{two}, {sum(n << 4 * at for at, n in enumerate(which)):#x};")
        for lane in lanes:
            both = self.registers[lane][one] + self.registers[lane][two]
            self.registers[lane][to] = [both[8 * (n % 8) + (bit if n < 8 else 7)] for n in which for bit in range(8)]

    def _ballot(self) -> None:
        """Which lanes hold an odd number: the lowest bit of each lane's register."""
        to, of = self._any(), self._any()
        self._emit(f"and.b32 %r26, %r{of}, 1;")
        self._emit("setp.ne.u32 %p3, %r26, 0;")
        self._emit(f"vote.sync.ballot.b32 %r{to}, %p3, -1;")
        given = [self.registers[lane][of][0] for lane in range(LANES)]
        for lane in range(LANES):
            self.registers[lane][to] = list(given)

    def _add(self) -> None:
        """What is carried goes upward."""
        (guard, lanes), to, one, two = self._guard(), self._any(), self._any(), self._any()
        self._emit(f"{guard}add.u32 %r{to}, %r{one}, %r{two};")
        for lane in lanes:
            a, b = self.registers[lane][one], self.registers[lane][two]
            self.registers[lane][to] = [CLEAN.union(*a[: n + 1], *b[: n + 1]) for n in range(32)]

    def _exchange(self) -> None:
        to, of, by = self._any(), self._any(), self.random.choice((1, 2, 16))
        self._emit(f"shfl.sync.bfly.b32 %r{to}, %r{of}, {by}, 31, -1;")
        given = [list(self.registers[lane ^ by][of]) for lane in range(LANES)]
        for lane in range(LANES):
            self.registers[lane][to] = given[lane]

    def _use(self, register: int) -> None:
        guard, lanes = self._guard()
        if self.random.random() < 0.6:
            return
        self._emit(f"{guard}red.global.add.u32 [%d0], %r{register};")
        for lane in lanes:
            self.blamed |= CLEAN.union(*self.registers[lane][register])
