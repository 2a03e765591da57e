"""Random formats of a kernel's printf: writes what `printf_probe.cu` reads, and compares what
it printed with the model.

    python -m tools.capture.printf_formats write CASES --seed 17
    nvcc -arch=sm_90a -o printf_probe tools/capture/printf_probe.cu && ./printf_probe CASES 0 > PRINTED    # on the card
    python -m tools.capture.printf_formats compare CASES PRINTED

A case is the format, behind 48 words of packed arguments, and then its strings. Formats that write (`%n`) end the
program on a card and are not drawn.
"""

from __future__ import annotations

import argparse
import pathlib
import random
import re
import struct
import sys

from smemsim.run.isa.threads.printing import formatted

__all__ = ["main"]

FORMAT_AT = 384
INTEGERS = (0, 1, -1, 42, -12345, 2147483647, -2147483648, 255, 65535, 1234567890123, 0xDEADBEEFCAFE)
FLOATS = (
    0.0,
    -0.0,
    1.0,
    -2.5,
    0.5,
    1e300,
    1e-310,
    99999.95,
    999999.5,
    123456789.125,
    0.1,
    float("inf"),
    float("-inf"),
    float("nan"),
    5e-324,
)
STRINGS = (b"", b"hello", b"a", b"x" * 40, b"100%d", b"\xc3\xa9\x80")
ALIGNED = {"d": 8, "s": 8, "p": 8, "q": 8, "i": 4}


def _conversion(rng: random.Random, *, is_alone: bool) -> tuple[str, list[tuple[str, int | float | bytes]]]:
    """One conversion, and its arguments: (kind, value). Lengths that the card does not know `is_alone`: beside others
    they take what a register holds.
    """
    kind = rng.choice("diuoxXeEfFgGaAcsp%")
    flags = "".join(rng.choice("-+ #0") for _ in range(rng.choice((0, 0, 1, 2))))
    width, precision = rng.choice(("", "", str(rng.randrange(1, 24)), "*")), rng.choice(("", "", ".", f".{rng.randrange(20)}"))
    length = rng.choice(("", "", "l", "ll", "h", *("zjtL" if is_alone else ""))) if kind in "diuoxX" else ""
    arguments: list[tuple[str, int | float | bytes]] = [("i", rng.choice((9, -9, 0)))] if width == "*" and kind != "%" else []
    if kind in "diuoxX":
        arguments.append(("q" if length in ("l", "ll", "z", "j", "t", "L") else "i", rng.choice(INTEGERS)))
    elif kind in "eEfFgGaA":
        arguments.append(("d", rng.choice(FLOATS)))
    elif kind in "cp":
        arguments.append(("i", rng.choice((65, 97, 10))) if kind == "c" else ("p", rng.choice((0, 0x1234, 0xDEADBEEFCAFE))))
    elif kind == "s":
        arguments.append(("s", rng.choice(STRINGS)))
    return f"%{flags}{'' if kind == '%' else width}{precision}{length}{kind}", arguments


def _case(rng: random.Random) -> tuple[bytes, list[int]]:
    """The bytes of a case, and where addresses of its strings stand."""
    count = rng.choice((1, 1, 2, 4))
    parts = [_conversion(rng, is_alone=count == 1) for _ in range(count)]
    form = "[" + "".join(text + rng.choice("]| ,") for text, _ in parts)
    packed, tail, places = bytearray(), bytearray(), []
    for kind, value in (argument for _, arguments in parts for argument in arguments):
        packed += bytes(-len(packed) % ALIGNED[kind])
        if isinstance(value, bytes):
            places.append(len(packed))
            packed += struct.pack("<Q", FORMAT_AT + len(form) + 1 + len(tail))
            tail += value + b"\0"
        else:
            packed += (
                struct.pack("<d", value)
                if isinstance(value, float)
                else (value % (1 << 8 * ALIGNED[kind])).to_bytes(ALIGNED[kind], "little")
            )
    return bytes(packed).ljust(FORMAT_AT, b"\0") + form.encode() + b"\0" + bytes(tail), places


def write(path: pathlib.Path, seed: int, count: int) -> None:
    """A file of cases."""
    rng, parts = random.Random(seed), [struct.pack("<I", count)]
    for _ in range(count):
        data, places = _case(rng)
        parts += [struct.pack("<III", len(data), len(places), 0), data, *(struct.pack("<I", place) for place in places)]
    path.write_bytes(b"".join(parts))


def compare(path: pathlib.Path, printed: pathlib.Path) -> int:
    """How many cases differ, each told with both texts."""
    data, at, cases = path.read_bytes(), 4, []
    for _ in range(struct.unpack_from("<I", data)[0]):
        size, places, _ = struct.unpack_from("<III", data, at)
        cases.append(data[at + 12 : at + 12 + size])
        at += 12 + size + 4 * places
    differ = 0
    for found in re.finditer(rb"\n@@(\d+)\n(.*?)\n@r(-?\d+) 0\n", printed.read_bytes(), re.DOTALL):
        case = cases[int(found[1])]
        form = case[FORMAT_AT:].split(b"\0")[0]
        here = formatted(form, case[:FORMAT_AT], lambda address, case=case: case[address:].split(b"\0")[0])
        if here != (found[2], int(found[3])):
            differ += 1
            print(f"{form!r}: card {found[2]!r} ({int(found[3])}), here {here[0]!r} ({here[1]})")
    return differ


def main() -> int:
    """The command line; 1 where something differs."""
    parser = argparse.ArgumentParser(prog="python -m tools.capture.printf_formats", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("what", choices=("write", "compare"))
    parser.add_argument("cases", type=pathlib.Path)
    parser.add_argument("printed", type=pathlib.Path, nargs="?")
    parser.add_argument("--seed", type=int, default=17)
    parser.add_argument("--count", type=int, default=3000)
    given = parser.parse_args()
    if given.what == "write":
        write(given.cases, given.seed, given.count)
        return 0
    return int(compare(given.cases, given.printed) > 0)


if __name__ == "__main__":
    sys.exit(main())
