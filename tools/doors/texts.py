"""What people type and paste: encode calls, dumps, CuTe layouts, words, wishes for a plan, arrays to solve for, command
lines.
"""

from __future__ import annotations

import contextlib
import io
import os
import pathlib
import random
import subprocess
import sys
import tempfile
from typing import Any

import numpy as np

from smemsim import CuteLayout, Finding, TensorMap, explain_product, find_descriptors, plan, plans
from smemsim.base.errors import InternalError, SmemsimError
from smemsim.campaign.spaces.plans import draw
from smemsim.cli.decode import read_input
from smemsim.cli.options import parse_address, parse_numbers, parse_offsets, parse_word
from smemsim.core.layout.cute import byte_axes, coalesce, composition, logical_divide, recast, tile_to_shape, zipped_divide
from tools.doors.damage import ANYTHING, damaged_bytes, damaged_text
from tools.doors.guard import Bench, command, door

__all__ = ["CALLS", "COMMANDS", "LAYOUTS", "PASTED", "PLANS", "PRINTED", "PROCESSES", "SOLVED", "layout"]

ENUMS = "CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE"
BF16 = "CU_TENSOR_MAP_DATA_TYPE_BFLOAT16"
CALLS = (
    f"cuTensorMapEncodeTiled(&tm, {BF16}, 2, (void*)0x7f0000000000, {{64, 128}}, {{64 * sizeof(__nv_bfloat16)}}, {{64, 64}}, {{1, 1}}, {ENUMS});",
    f"#define K (32 + 32)\nusing T = half;\nconstexpr uint32_t box[] = {{64, K}};\nuint64_t dims[2] = {{K, 128}}, strides[] = {{K * sizeof(T)}};\n"
    f"auto r = encode(&tm, {BF16}, 2u, ptr /* A */, dims, strides, box, (cuuint32_t[]){{1, 1}}, {ENUMS});".replace("ptr", "0x10000"),
    "err, tm = driver.cuTensorMapEncodeTiled(driver.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_UINT8, 1, 0x10000, [driver.cuuint64_t(64)], [], [64], [1] * 1, 0, 3, 0, 0)",
    "TensorMap.tiled(data_type='u8', global_address=0x100, global_dim=[64 * 2, 8], global_strides=(128,), box_dim=[1 << 6, 8], swizzle='64B')",
    f"cuTensorMapEncodeIm2col(&tm, {BF16}, 4, (void*)0x10000, {{64, 16, 16, 2}}, {{128, 2048, 32768}}, {{-1, -1}}, {{-1, -1}}, 64, 64, {{1, 1, 1, 1}}, {ENUMS});",
    f"cuTensorMapEncodeIm2colWide(&tm, {BF16}, 4, p, {{64, 16, 16, 2}}, {{128, 2048, 32768}}, -1, 1, 64, 64, {{1, 1, 1, 1}}, 0, 0, 3, 0, 0);",
    "#if 0\ncuTensorMapEncodeTiled(\n#endif\n" + "std::array<cuuint64_t, 2> d{{64, 8}}; CHECK(cuTensorMapEncodeTiled(&m[0], 9, 2, reinterpret_cast<void*>(1ull << 20), d.data(), {128}, {64, 8}, {1, 1}, 0, 3, 0, 0))",
)  # fmt: skip
WORDS = ("0x4000'4040'0001'0040ULL", "4000404000010040", "-1", "0b101", "4611756662049472512", "0,-64", "(64,)", "0x400", "[1, 2]", "1e3")
DUMP = bytes(TensorMap.tiled(data_type="u8", global_address=0x100, global_dim=(64,), global_strides=(), box_dim=(64,)))
DUMPS = (
    DUMP.hex(),
    "\n".join(f"{i:08x}: {DUMP[i : i + 16].hex(' ', 2)}  {'.' * 16}" for i in range(0, 128, 16)),
    " ".join(f"0x{b:02x}," for b in DUMP),
    "\n".join(f"0x7ffe{i:04x}:\t" + "\t".join(f"0x{int.from_bytes(DUMP[j : j + 8], 'little'):016x}" for j in (i, i + 8)) for i in range(0, 128, 16)),
    " ".join(str(int.from_bytes(DUMP[j : j + 4], "little")) for j in range(0, 128, 4)),
)  # fmt: skip
CUTE = (
    "((8,16),(64,2)):((64,512),(1,8192))", "Sw<3,4,3> o smem_ptr[16b](unset) o (_8,_64):(_64,_1)", "S<3,3,3> o 0 o ((8,16),(64,2)):((64,512),(1,8192))",
    "Swizzle<2,4,3> o (128,64):(64,1)", "(4,3):(3,1)", "12:1", "((2,2),3):((24,2),8)", "(64,1):(1,0)",
)  # fmt: skip


def _pasted(rng: random.Random, cases: int, bench: Bench) -> None:
    def read(text: str) -> None:
        for given in read_input((text,), rng.choice((None, "sm_90a", "sm_100a"))).maps:
            for sentence in (
                one.printed.sentence() if isinstance(one, Finding) else one for one in (*given.violations, given.unreadable, *given.hints)
            ):
                assert "\n" not in str(sentence), sentence
            assert given.tm is not None or given.violations or given.unreadable

    for _ in range(cases):
        text = damaged_text(rng, rng.choice(CALLS), list(ENUMS.split(", ")))
        bench.through(lambda text=text: read(text), {"text": text})
        bench.cases -= 1
        bench.through(lambda text=text: TensorMap.parse(text), {"text": text})


def _printed(rng: random.Random, cases: int, bench: Bench) -> None:
    for _ in range(cases):
        if rng.random() < 0.5:
            text = damaged_text(rng, rng.choice(DUMPS))
            bench.through(lambda text=text: read_input((text,), None), {"text": text})
            continue
        text, way = damaged_text(rng, rng.choice(WORDS)), rng.randrange(4)
        call = (parse_word, lambda t: parse_numbers("--at", t, "coordinates"), parse_offsets, lambda t: parse_address("--smem", t))[way]
        bench.through(lambda text=text, call=call: call(text), {"text": text, "way": way})


def layout(rng: random.Random, text: str) -> None:
    """A CuTe layout's text, read, evaluated, and taken through the algebra."""
    read = CuteLayout.parse(text, element_bits=rng.choice((0, 0, 0, 4, 8, 16, 32)))
    str(read), read.size, read.cosize, read.rank
    read(rng.choice((0, 1, 17)))
    read.address(0x400, 16, rng.choice((0, 5)))
    coordinates = tuple(rng.choice((0, 1, (0, 1), 10**12)) for _ in range(rng.choice((1, 2, 3))))
    for step in (
        lambda: read(*coordinates), lambda: coalesce(read), lambda: byte_axes(read, 16), lambda: recast(read, rng.choice((8, 16, 128)), rng.choice((8, 16, 0, 6))),
        lambda: composition(read, rng.choice(((2, 2), 4, 0, CuteLayout(4, 2), (1, 2, 3)))), lambda: logical_divide(read, rng.choice((2, (2, 2), 7))),
        lambda: zipped_divide(read, (2, 2)), lambda: tile_to_shape(read, (128, 128), (0, 1)),
    ):  # fmt: skip
        try:
            step()
        except InternalError:
            raise
        except SmemsimError:
            continue


def _layouts(rng: random.Random, cases: int, bench: Bench) -> None:
    for _ in range(cases):
        text = rng.choice(CUTE) if rng.random() < 0.2 else damaged_text(rng, rng.choice(CUTE))
        bench.through(lambda text=text: layout(rng, text), {"text": text})


def _plans(rng: random.Random, cases: int, bench: Bench) -> None:
    for number in range(cases):
        wish = draw(rng)
        for _ in range(rng.choice((0, 0, 0, 1, 1, 2, 3))):
            wish[rng.choice([*wish, "m", "n", "pitch_bytes"])] = rng.choice(ANYTHING)
        made = bench.through(lambda wish=wish: plan(**wish), wish)
        if made is not None:
            bench.cases -= 1
            bench.classes["answer"] -= 1
            bench.through(lambda made=made: (made.text(), made.as_dict(), made.code(rng.choice(("cpp", "cute", "triton")))), wish)
        if number % 20 == 0:
            few = {name: value for name, value in wish.items() if name not in ("swizzle", "stack")}
            bench.cases -= 1
            bench.through(lambda few=few: plans(**few), few)


def _matrix(rng: random.Random) -> Any:
    shape = tuple(rng.choice((0, 1, 2, 8, 16, 64, 64)) for _ in range(rng.choice((1, 2, 2, 2, 2, 3, 4))))
    kind = rng.choice((np.uint8, np.uint16, np.uint16, np.uint32, np.uint64, np.int8, np.int32, np.float32, np.float16, np.float64, np.bool_, "U2", "S3", np.complex64, "M8[s]", "V2"))  # fmt: skip
    draw = np.random.default_rng(rng.getrandbits(64))
    if kind in (np.float32, np.float64, np.float16):
        with np.errstate(all="ignore"):
            values = draw.choice([0.0, 1.0, -0.0, 0.1, 1e30, np.nan, np.inf, 3.5], shape).astype(kind)
    else:
        values = draw.integers(0, 256, (*shape, max(np.dtype(kind).itemsize, 1)), np.uint8)
        values = values.view(kind)[..., 0] if np.dtype(kind).kind in "ui" else np.zeros(shape, kind)
    if rng.random() < 0.2:
        values = (
            values * 0
            if values.dtype.kind in "uif" and not np.isnan(values.astype(float)).any() and not np.isinf(values.astype(float)).any()
            else values
        )
    return values


def _npy(rng: random.Random, values: Any) -> bytes:
    packed = io.BytesIO()
    np.save(packed, values)
    return packed.getvalue() if rng.random() < 0.6 else damaged_bytes(rng, packed.getvalue())


def _solved(rng: random.Random, cases: int, bench: Bench) -> None:
    """The command with files, and the functions with arrays: of a dump, of places, of a product."""
    with tempfile.TemporaryDirectory(prefix="smemsim-") as folder:
        for _ in range(cases):
            _solve(rng, pathlib.Path(folder), bench)


def _solve(rng: random.Random, folder: pathlib.Path, bench: Bench) -> None:
    types, arch = rng.choice(("bf16", "e4m3", "tf32", "s8", "e2m1", "nothing")), rng.choice(("sm_90a", "sm_100a", "sm_103a", "sm_80"))
    major, swizzle = rng.choice(("K", "MN", "k")), rng.choice(("none", "128B", "32B", "x"))
    values, way = [_matrix(rng) for _ in range(4)], rng.randrange(5)
    case = {"types": types, "arch": arch, "major": major, "swizzle": swizzle, "shapes": [f"{v.dtype}{v.shape}" for v in values], "way": way}
    if way == 0:
        sizes = {"rows": rng.choice((None, 8, 64, 0)), "k": rng.choice((None, 16, 3))}
        bench.through(lambda: find_descriptors(values[0], arch=arch, dtype=types, major=major, **sizes), case)
    elif way == 1:
        at = rng.choice((0x400, 0x400, 0, -1, 1 << 40))
        bench.through(lambda: find_descriptors(dump=values[1], base=at, operand=values[0], arch=arch, dtype=types, major=major), case)
    elif way == 2:
        c = rng.choice((None, values[3]))
        bench.through(lambda: explain_product(*values[:3], c, arch=arch, a_type=types, a_swizzle=swizzle, a_major=major), case)
    else:
        dump, array, a, b, d = (folder / name for name in ("dump.bin", "dump.npy", "a.npy", "b.npy", "d.npy"))
        dump.write_bytes(rng.randbytes(rng.choice((0, 100, 4096))))
        for path in (array, a, b, d):
            path.write_bytes(_npy(rng, rng.choice(values)))
        common = ["--arch", arch, *(["--json"] if rng.random() < 0.5 else [])]
        product = ["solve", "--d", d, "--a", a, "--b", b, "--a-type", types, "--a-swizzle", swizzle, *common]
        base = rng.choice(("0x400", "0", "x"))
        memory = ["solve", rng.choice((dump, array)), a, "--base", base, "--dtype", types, "--major", major, "--k", "16", *common]
        command(bench, [str(x) for x in (product if way == 3 else memory)], case)


VALUES = ("--arch", "--dtype", "--major", "--rows", "--k", "--k-add", "--mn-add", "--at", "--smem", "--offsets", "--mode", "--store", "--json", "--csv", "--svg", "--lines",
          "--kind", "--element", "--cell", "--register", "--ld", "--swizzle", "--side", "--m", "--n", "--base", "--stages", "--matrix", "--pitch", "--all", "--scenario",
          "--one-box", "--code", "-a", "-b", "-c", "--a-type", "--d-type", "--values", "--cta-group", "--ws", "--packing", "--stack", "--operand", "--help", "-1", "--")  # fmt: skip
GIVEN = ("sm_90a", "sm_100a", "bf16", "e2m1", "K", "MN", "8", "64", "0", "-1", "256", "99999999999", "0,32", "(", "", "0x400", "f16", "mxf4", "128B", "none", "3f80*8", "1.5 nan", "*", "2*99999999",
         "tile", "im2col", "cpp", "triton", "128x64", "0x0", "1,2,3", "32x32b.x128", "step[0].a", "é", "\x00", "/dev/null", ".", "nothing.toml")  # fmt: skip
LINES = (
    "decode 0x4000004000010040 --arch sm_90a --dtype bf16 --major K --rows 64 --k 16", "decode 0x8210490 --kind f16", "map 0x4000004000010040 --arch sm_90a --dtype bf16 --major K --rows 16 --k 16",
    "map 0x04200490 --kind f16 --element 20,3", "map 0x04200490 --kind f16 --register 1,4,3 --ld 32x32b.x128", "show 0x4000004000010040 --arch sm_90a --dtype bf16 --major K --rows 64 --k 16 --k-add 0,32",
    "plan 128x64 --arch sm_100a --dtype bf16 --major K --swizzle 128B", "dot --a-type bf16 -a 3f80 -b 3f80*16 -c 3f000000", "dot --kind mxf4nvf4 --a-type e2m1 -a 2*64 -b 7*64 --scale-a 38*4 --scale-b 40",
    "replay nothing", "check nothing.toml", "solve", "dot --values --a-type f16 --d-type f16 -a 0.5 -b 1", f"map {DUMP.hex()} --at 0 --smem 0x400", f"decode {DUMP.hex()}",
)  # fmt: skip


def _arguments(rng: random.Random) -> list[str]:
    words = rng.choice(LINES).split()
    for _ in range(rng.choice((0, 1, 1, 2, 4))):
        at = rng.randrange(1, len(words) + 1)
        match rng.randrange(5):
            case 0:
                words[at:at] = [rng.choice(VALUES), rng.choice(GIVEN)]
            case 1:
                words[at : at + 1] = [rng.choice(GIVEN)]
            case 2:
                del words[at : at + 1]
            case 3 if at < len(words):
                words[at] = damaged_text(rng, words[at])
            case _:
                words[at : at + 1] = [rng.choice(VALUES)]
    return [word.replace("\0", "?") for word in words]  # no process is given a zero byte


def _commands(rng: random.Random, cases: int, bench: Bench) -> None:
    # `replay` alone replays what lies below
    with tempfile.TemporaryDirectory(prefix="smemsim-") as empty, contextlib.chdir(empty):
        for _ in range(cases):
            words = _arguments(rng)
            command(bench, words, None, damaged_text(rng, rng.choice((*CALLS, *DUMPS))).encode("utf-8", "replace"))


def _processes(rng: random.Random, cases: int, bench: Bench) -> None:
    def run(words: list[str], empty: str) -> None:
        found = subprocess.run(
            [sys.executable, "-m", "smemsim", *words],
            capture_output=True,
            timeout=60,
            check=False,
            input=rng.randbytes(200),
            cwd=empty,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert found.returncode in (0, 1, 2, 3), found.returncode
        assert b"Traceback" not in found.stderr, found.stderr[-400:]

    with tempfile.TemporaryDirectory(prefix="smemsim-") as empty:
        for _ in range(cases):
            words = _arguments(rng)
            bench.through(lambda words=words: run(words, empty), {"command": words})


PASTED = door("pasted", "damaged encode calls of C, C++ and Python: read as the commands do, and by TensorMap.parse", 100, _pasted)
PRINTED = door("printed", "damaged dumps, words, lists of numbers, addresses", 200, _printed)
LAYOUTS = door("layouts", "damaged texts of CuTe layouts: read, evaluated, divided, recast", 500, _layouts)
PLANS = door("plans", "wishes for a plan, each of its arguments possibly anything", 5, _plans)
SOLVED = door("solved", "arrays of any type and shape, damaged .npy files: solve for descriptors, for a fault of a product", 10, _solved)
COMMANDS = door("commands", "command lines with damaged arguments, through the commands' functions", 10, _commands)
PROCESSES = door("processes", "the same in processes of their own", 2, _processes)
