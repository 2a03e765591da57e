"""What a compiled kernel's tcgen05 instructions are given: a constant folder over PTX text.

Compilers compute a descriptor's low half from the address of shared memory, so the words stand nowhere in the text.
Here they are folded: a shared symbol counts as address 0, tensor memory as allocated at 0, and integer instructions on
known values are done at their width. Everything else is unknown, and stays so: a register with more than one definition
(a loop, a join) unless all agree, what a guard that is not known to hold defines, and whatever memory or the machine
decides. Nothing is guessed; an operand that cannot be folded is None.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping

__all__ = ["Cp", "Mma", "Tcgen05", "fold"]

Value = int | None


@dataclasses.dataclass(frozen=True)
class Tcgen05:
    """One tcgen05 instruction: its text, full mnemonic, guard (1 runs, 0 does not, None unknown) and operands, each
    folded or None.
    """

    text: str
    mnemonic: str
    guard: Value
    operands: tuple[tuple[Value, ...], ...]

    @property
    def parts(self) -> list[str]:
        """The mnemonic's dotted parts."""
        return self.mnemonic.split(".")

    @property
    def cta_group(self) -> int:
        """1 or 2, 0 where the instruction names none."""
        return next((int(p.removeprefix("cta_group::")) for p in self.parts if p.startswith("cta_group::")), 0)


@dataclasses.dataclass(frozen=True)
class Mma(Tcgen05):
    """tcgen05.mma: `a` is a descriptor, or an address in tensor memory where `a_in_tmem`; the rest as the PTX ISA names
    it.
    """

    kind: str
    d: Value
    a: Value
    a_in_tmem: bool
    b: Value
    idesc: Value
    enable_input_d: Value
    metadata: Value
    scale_a: Value
    scale_b: Value

    @property
    def ws(self) -> bool:
        """Weight stationary, `.ws`."""
        return "ws" in self.parts

    @property
    def sparse(self) -> bool:
        """A sparse A, `.sp`."""
        return "sp" in self.parts

    @property
    def block_scale(self) -> bool:
        """Operands scaled from tensor memory, `.block_scale`."""
        return "block_scale" in self.parts


@dataclasses.dataclass(frozen=True)
class Cp(Tcgen05):
    """tcgen05.cp: from the shared memory of a descriptor to an address in tensor memory."""

    shape: str
    taddr: Value
    descriptor: Value


# ---- text ------------------------------------------------------------------------------------------------------------

TOKEN = re.compile(r"[{};]|[^{};]+")


def statements(ptx: str) -> Iterator[str]:
    """The statements of a module, without comments and labels; registers that an inner block declares get the block's
    number.
    """
    text = re.sub(r"//[^\n]*|/\*.*?\*/", " ", ptx, flags=re.DOTALL)
    text = re.sub(r"^[ \t]*\.(?:loc|file|pragma)\b[^\n;]*;?$", "", text, flags=re.MULTILINE)
    scopes: list[dict[str, str]] = [{}]
    bodies: list[bool] = []  # of the open braces: a function's, whose registers are the module's in all but name?
    current, depth, blocks = "", 0, 0
    for token in TOKEN.findall(text):
        if token == "{" and (current.strip() and not _opens_body(current)):
            current, depth = current + token, depth + 1  # the braces of a vector
        elif token == "}" and depth:
            current, depth = current + token, depth - 1
        elif token == "{":
            bodies = [*bodies, bool(re.search(r"\.(entry|func)\b", current))]
            scopes.append({})
            current, blocks = "", blocks + 1
        elif token == "}":
            if bodies:
                scopes.pop()
                bodies = bodies[:-1]
            current = ""
        elif token == ";":
            statement = re.sub(r"^(?:\s*[\w$]+:(?!:))+", "", current).strip()
            current = ""
            declared = re.match(r"\.reg\s+\.\w+\s+(.*)", statement, re.DOTALL)
            if declared and bodies and not bodies[-1]:
                scopes[-1] |= {n: f"{n}@{blocks}" for n in re.findall(r"[%\w$]+", declared.group(1))}
            elif statement:
                names = {old: new for scope in scopes for old, new in scope.items()}
                yield re.sub(r"%?[A-Za-z_$][\w$]*", lambda m, names=names: names.get(m.group(), m.group()), statement)  # type: ignore[misc]
        else:
            current += token


def _opens_body(text: str) -> bool:
    """Is the brace after `text` that of a function or a block? After a label, or a function's head."""
    return bool(re.search(r"\.(entry|func)\b", text)) or bool(re.fullmatch(r"(\s*[\w$]+:(?!:))*\s*", text))


def operands(text: str) -> list[str]:
    """Split at the commas outside braces and brackets."""
    out, depth, last = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in "{[(") - (c in "}])")
        if c == "," and not depth:
            out.append(text[last:i].strip())
            last = i + 1
    tail = text[last:].strip()
    return [*out, tail] if tail else out


# ---- arithmetic ------------------------------------------------------------------------------------------------------


def width_of(op: str) -> int:
    """Bits of an instruction's result, as its last type says; of cvt its first."""
    found = re.findall(r"\.[busf](8|16|32|64)\b", op)
    if not found:
        return 1 if ".pred" in op else 32
    return int(found[0 if op.startswith("cvt.") else -1])


def signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) & 1 else value


def _bfe(op: str, bits: int, a: int, b: int, c: int) -> int:
    start, length = b & 0xFF, c & 0xFF
    if not length:
        return 0
    field = a >> start & (1 << length) - 1 if start < bits else 0
    if f".s{bits}" in op:
        top = min(start + length - 1, bits - 1)
        if a >> top & 1:
            field |= -1 << max(0, top - start + 1)
    return field


def _bfi(op: str, bits: int, a: int, b: int, c: int, d: int) -> int:
    start, length = c & 0xFF, d & 0xFF
    if start >= bits:
        return b
    mask = (1 << length) - 1 << start
    return b & ~mask | a << start & mask


def _shf(op: str, bits: int, a: int, b: int, c: int) -> int:
    n = c & 31 if ".wrap" in op else min(c, 32)
    both = b << 32 | a
    return (both << n) >> 32 if op.startswith("shf.l") else both >> n


def _lop3(op: str, bits: int, a: int, b: int, c: int, table: int) -> int:
    out = 0
    for i in range(8):
        if table >> i & 1:
            out |= (a if i & 4 else ~a) & (b if i & 2 else ~b) & (c if i & 1 else ~c)
    return out


def _prmt(op: str, bits: int, a: int, b: int, c: int) -> int | None:
    if not op.endswith(".b32"):
        return None  # the modes with a name
    source, out = b << 32 | a, 0
    for i in range(4):
        pick = c >> 4 * i & 15
        byte = source >> 8 * (pick & 7) & 0xFF
        out |= (0xFF * (byte >> 7) if pick & 8 else byte) << 8 * i
    return out


def _cvt(op: str, bits: int, a: int) -> int | None:
    types = re.findall(r"\.([busf])(8|16|32|64)\b", op)
    if len(types) != 2 or "f" in types[0][0] + types[1][0] or ".sat" in op:
        return None
    (_, _), (kind, source) = types
    value = a & (1 << int(source)) - 1
    return signed(value, int(source)) if kind == "s" else value


def _shr(op: str, bits: int, a: int, b: int) -> int:
    return signed(a, bits) >> min(b, bits) if f".s{bits}" in op else a >> min(b, bits)


def _compare(op: str, a: int, b: int) -> int | None:
    parts = op.split(".")
    if parts[-1][0] == "f" or len(parts) > 3:
        return None
    bits = int(parts[-1][1:])
    if parts[-1][0] == "s":
        a, b = signed(a, bits), signed(b, bits)
    table = {"eq": a == b, "ne": a != b, "lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b}
    table |= {"lo": a < b, "ls": a <= b, "hi": a > b, "hs": a >= b}
    return int(table[parts[1]]) if parts[1] in table else None


def _extreme(pick: Callable[[int, int], int]) -> Callable[[str, int, int, int], int]:
    def run(op: str, bits: int, a: int, b: int) -> int:
        return pick(signed(a, bits), signed(b, bits)) if f".s{bits}" in op else pick(a, b)

    return run


def _mul(op: str, bits: int, a: int, b: int) -> int | None:
    wide = ".wide" in op
    if f".s{bits}" in op and (wide or ".hi" in op):
        a, b = signed(a, bits), signed(b, bits)
    return a * b >> bits if ".hi" in op else a * b


def _mad(op: str, bits: int, a: int, b: int, c: int) -> int | None:
    product = _mul(op, bits, a, b)
    return None if product is None else product + c


EVALUATE: dict[str, Callable[..., int | None]] = {
    "add": lambda op, bits, a, b: a + b,
    "sub": lambda op, bits, a, b: a - b,
    "mul": _mul,
    "mad": _mad,
    "and": lambda op, bits, a, b: a & b,
    "or": lambda op, bits, a, b: a | b,
    "xor": lambda op, bits, a, b: a ^ b,
    "not": lambda op, bits, a: ~a,
    "neg": lambda op, bits, a: -a,
    "shl": lambda op, bits, a, b: a << min(b, bits),
    "shr": _shr,
    "min": _extreme(min),
    "max": _extreme(max),
    "bfe": _bfe,
    "bfi": _bfi,
    "shf": _shf,
    "lop3": _lop3,
    "prmt": _prmt,
    "cvt": _cvt,
    "mov": lambda op, bits, a: a,
    # a generic address is the machine's
    "cvta": lambda op, bits, a: None if ".shared" in op and ".to." not in op else a,
    "popc": lambda op, bits, a: a.bit_count(),
    "clz": lambda op, bits, a: bits - a.bit_length(),
}
FLOATS = re.compile(r"\.(f16|bf16|f32|f64|tf32|f16x2|bf16x2)\b")


class _Folder:
    def __init__(self, ptx: str, known: Mapping[str, int]) -> None:
        self.lines = list(statements(ptx))
        # `.shared .align 16 .b8 name[...]`: an address the loader decides; addresses count from there
        symbols = re.findall(r"\.shared\s+(?:\.align\s+\d+\s+)?\.\w+\s+([\w$]+)", ptx)
        self.values: dict[str, Value] = {**dict.fromkeys(symbols, 0), **known}
        self.cells: dict[int, int] = {}  # shared words that tcgen05.alloc wrote
        self.found: list[Tcgen05] = []
        self.definitions: Counter[str] = Counter()
        for line in self.lines:
            _, op, args = split(line)
            if args:
                self.definitions.update(destinations(op, args[0]))
        self.seen: dict[str, list[Value]] = {}

    def value(self, text: str) -> Value:
        """A register, a number, a symbol, or a sum of them."""
        text = text.strip()
        total = 0
        for sign, term in re.findall(r"([+-]?)\s*([^+\-\s]+)", text):
            if re.fullmatch(r"0[xX][0-9a-fA-F]+U?|\d+U?", term):
                number: Value = int(term.rstrip("U"), 0) if term.lower().startswith("0x") else int(term.rstrip("U"))
            elif term in ("true", "false"):
                number = int(term == "true")
            else:
                number = self.values.get(term)
            if number is None:
                return None
            total += -number if sign == "-" else number
        return total

    def operand(self, text: str) -> tuple[Value, ...]:
        text = text.strip()
        inner = text[1:-1] if text[:1] in "{[" else text
        return tuple(self.value(part) for part in operands(inner))

    def define(self, name: str, value: Value) -> None:
        if name == "_":
            return
        # a join or a loop: known only if every definition says the same, and only after the last
        if self.definitions[name] > 1:
            history = self.seen.setdefault(name, [])
            history.append(value)
            same = len(history) == self.definitions[name] and len(set(history)) == 1
            value = value if same else None
        self.values[name] = value

    def run(self) -> list[Tcgen05]:
        for line in self.lines:
            guard_text, op, args = split(line)
            guard: Value = 1
            if guard_text:
                guard = self.value(guard_text.lstrip("!"))
                guard = None if guard is None else guard ^ guard_text.startswith("!")
            if op.startswith("tcgen05."):
                self.tcgen05(line, op, args, guard)
            elif args and op[:1] != ".":
                self.instruction(op, args, guard)
        return self.found

    def instruction(self, op: str, args: list[str], guard: Value) -> None:
        names = destinations(op, args[0])
        if not names:
            return
        results: list[Value]
        if guard == 0:
            results = [self.values.get(n) for n in names]
        elif guard is None:
            results = [None] * len(names)
        else:
            results = self.evaluate(op, args, len(names))
        for name, result in zip(names, results, strict=True):
            self.define(name, result)

    def evaluate(self, op: str, args: list[str], n: int) -> list[Value]:
        base, bits = op.split(".", maxsplit=1)[0], width_of(op)
        mask = (1 << (2 * bits if ".wide" in op else bits)) - 1
        if base == "shfl":  # every lane of the issuing warp has the value, or nothing here is known
            return [self.value(args[1]), None][:n]
        if base == "ld" and ".shared" in op and n == 1:
            at = self.operand(args[1])[0]
            return [None if at is None else self.cells.get(at)]
        if base == "mov" and (args[0].startswith("{") or args[1].startswith("{")):
            return self.vector_move(args, bits, n)
        if base == "setp" and n == 1 and len(args) == 3 and not FLOATS.search(op):
            size = (1 << bits) - 1
            a, b = (None if (v := self.value(x)) is None else v & size for x in args[1:])
            return [None if a is None or b is None else _compare(op, a, b)]
        if base == "selp":
            first, second, chosen = (self.value(x) for x in args[1:])
            if chosen is None:
                return [first if first is not None and first == second else None]
            picked = first if chosen else second
            return [None if picked is None else picked & mask]
        if base not in EVALUATE or n != 1 or FLOATS.search(op) or ".cc" in op or ".sat" in op:
            return [None] * n
        size = (1 << bits) - 1
        given = [self.value(x) for x in args[1:]]
        if base in ("and", "mul") and 0 in given and ".f" not in op:
            return [0]
        if None in given:
            return [None]
        # a minus in the text is a two's complement at the width; the third operand of mad.wide is twice as wide
        numbers = [v & (mask if base == "mad" and i == 2 else size) for i, v in enumerate(given) if v is not None]
        if base == "cvt":  # cut to the type it comes from
            numbers = [v for v in given if v is not None]
        result = EVALUATE[base](op, bits, *numbers)
        return [None if result is None else result & mask]

    def vector_move(self, args: list[str], bits: int, n: int) -> list[Value]:
        """mov between one register and a vector of its parts, the lowest first."""
        if args[1].startswith("{"):
            parts = self.operand(args[1])
            size = bits // len(parts)
            if any(p is None for p in parts):
                return [None]
            return [sum((p & (1 << size) - 1) << size * i for i, p in enumerate(parts) if p is not None)]
        whole, size = self.value(args[1]), bits // n
        return [None if whole is None else whole >> size * i & (1 << size) - 1 for i in range(n)]

    def tcgen05(self, line: str, op: str, args: list[str], guard: Value) -> None:
        folded = tuple(self.operand(a) for a in args)
        common = (line, op, guard, folded)
        parts = op.split(".")
        if parts[1] == "mma":
            self.found.append(_mma(common, args, folded))
        elif parts[1] == "cp":
            self.found.append(
                Cp(*common, shape=next(p for p in parts if re.fullmatch(r"\d+x\d+b", p)), taddr=folded[0][0], descriptor=folded[1][0])
            )
        else:
            if parts[1] == "alloc" and folded[0][0] is not None:
                self.cells[folded[0][0]] = 0
            for name in destinations(op, args[0]) if args else ():
                self.define(name, None)
            self.found.append(Tcgen05(*common))


def split(line: str) -> tuple[str, str, list[str]]:
    """(guard, opcode, operands) of a statement."""
    match = re.match(r"(?:@\s*(!?\s*[%\w$@]+)\s+)?([.\w:]+)\s*(.*)", line, re.DOTALL)
    if not match:
        return "", "", []
    return (match.group(1) or "").replace(" ", ""), match.group(2), operands(match.group(3))


READS_FIRST = re.compile(
    r"st\b|bra|ret|exit|call|bar|red|prefetch|fence|membar|cp\b|mbarrier\.(?!.*try_wait|.*test_wait)|nanosleep|trap|brkpt|griddep|setmaxnreg"
)


def destinations(op: str, first: str) -> list[str]:
    """The registers that an instruction defines: of `a|b` both, of a vector all."""
    if (
        op[:1] in ("", ".")
        or (op.startswith("tcgen05.") and not op.startswith("tcgen05.ld"))
        or READS_FIRST.match(op)
        or first.startswith("[")
    ):
        return []
    return [n for n in re.findall(r"[%\w$@]+", first) if not n.isdigit()]


def _mma(common: tuple[str, str, Value, tuple[tuple[Value, ...], ...]], args: list[str], folded: tuple[tuple[Value, ...], ...]) -> Mma:
    """The operands by name: [d], a, b, ([metadata],) idesc, ([scale A], [scale B],) ({lanes},) enable-input-d, ..."""
    parts = common[1].split(".")
    at = 3
    metadata = scale_a = scale_b = enable = None
    if "sp" in parts:
        metadata, at = folded[at][0], at + 1
    idesc, at = folded[at][0], at + 1
    if "block_scale" in parts:
        scale_a, scale_b, at = folded[at][0], folded[at + 1][0], at + 2
    elif at < len(args) and args[at].startswith("{"):
        at += 1
    if at < len(args):
        enable = folded[at][0]
    return Mma(
        *common,
        kind=next(p.removeprefix("kind::") for p in parts if p.startswith("kind::")),
        d=folded[0][0],
        a=folded[1][0],
        a_in_tmem=args[1].startswith("["),
        b=folded[2][0],
        idesc=idesc,
        enable_input_d=enable,
        metadata=metadata,
        scale_a=scale_a,
        scale_b=scale_b,
    )


def fold(ptx: str, known: Mapping[str, int] | None = None) -> list[Tcgen05]:
    """Every tcgen05 instruction of a PTX module in the order of the text, its operands folded.

    `known` gives special registers a value for this folding, as `{"%cluster_ctarank": 0}`: the CTA whose point of view
    is taken.

    >>> [site] = fold(".shared .b8 s[64]; mov.b32 %r1, s; or.b32 %r2, %r1, 8; mov.b64 %rd1, {%r2, 16};"
    ...               "tcgen05.mma.cta_group::1.kind::f16 [%r9 + 4], %rd1, %rd7, 66, 1;")
    >>> hex(site.a), site.b, site.d, site.idesc, site.enable_input_d
    ('0x1000000008', None, None, 66, 1)
    """
    return _Folder(ptx, known or {}).run()
