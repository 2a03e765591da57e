"""The kit that will capture a Blackwell card: it compiles to the instructions meant, its words say what they should,
and what a card answers is written down as it is. No card is needed: a stand-in that follows the documentation answers
here.
"""

import functools
import glob
import json
import random
import re
import shutil
import struct
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import settings

from places import ROOT

CAPTURE = ROOT / "sim" / "smemsim" / "capture"

pytest.importorskip("cuda.bindings", reason="the capture tool needs cuda-bindings")
from smemsim import DISPUTES, InstrDescriptor  # noqa: E402
from smemsim.capture import bench  # noqa: E402
from smemsim.capture.blackwell import access, contents, dots, draw, gemm, layouts, machine, pages, suites, transfers, words  # noqa: E402
from smemsim.core.words.operand import operand_addresses  # noqa: E402
from smemsim.evidence import load_suite  # noqa: E402
from strategies import is_night  # noqa: E402

NVCC = shutil.which("nvcc")
needs_nvcc = pytest.mark.skipif(NVCC is None, reason="no nvcc on the PATH")
# Of accesses of tensor memory: those of 32 registers and more, which the same lines write, take the compiler five
# seconds, and are compiled by night.
NUMS = access.NUMS if settings.get_current_profile_name() == "nightly" else access.NUMS[:5]
FORMS = sum(num in NUMS for _, num, *_ in access.forms())


def disassembler():
    """(path, arguments before the cubin), or None."""
    for tool, arguments in (("nvdisasm", []), ("cuobjdump", ["-sass"])):
        found = shutil.which(tool) or next(iter(sorted(glob.glob(f"/usr/local/cuda*/bin/{tool}"))), None)
        if found:
            return [found, *arguments]
    return None


# ------------------------------------------------------------------------------------------------------------------------- the sources

# fmt: off
MEANT = {  # module: SASS instructions that must be there
    "blackwell_machine_1": {"UTCHMMA", "UTCHMMA.WS", "UTCHMMA.ASHIFT", "UTCIMMA", "UTCIMMA.WS", "UTCQMMA", "UTCQMMA.WS", "UTCOMMA", "UTCOMMA.4X",
                            "UTCCP.T.S", "UTCCP.T.S.4dp256bit", "UTCCP.T.S.128dp128bit", "UTCCP.T.S.4x32dp128bit", "UTCCP.T.S.2x64dp128bit_lw02_lw13",
                            "UTCCP.T.S.2x64dp128bit_lw01_lw23", "UTCCP.T.S.4x32dp128bit.U4x16P64", "UTCCP.T.S.U6x16P32", "UTCSHIFT.DOWN",
                            "UTCATOMSWS.FIND_AND_SET.ALIGN", "UTCATOMSWS.AND", "UTCBAR", "LDTM.x32", "STTM.x32", "ELECT", "FENCE.VIEW.ASYNC.S"},
    "blackwell_machine_2": {"UTCHMMA.2CTA", "UTCIMMA.2CTA", "UTCQMMA.2CTA", "UTCOMMA.2CTA", "UTCOMMA.2CTA.4X", "UTCCP.T.S.2CTA", "UTCSHIFT.2CTA.DOWN",
                            "UTCATOMSWS.2CTA.FIND_AND_SET.ALIGN", "UTCBAR.2CTA", "UTCBAR.2CTA.MULTICAST", "UCGABAR_ARV"},
    "blackwell_access": {"LDTM", "STTM", "LDTM.16dp64bit.x8", "STTM.16dp256bit.x16"},
    "blackwell_commit": {"UTCBAR", "UTCBAR.MULTICAST", "UTCBAR.2CTA", "UTCBAR.2CTA.MULTICAST", "UCGABAR_ARV"},
    "blackwell_allocation": {"UTCATOMSWS.FIND_AND_SET.ALIGN", "UTCATOMSWS.2CTA.FIND_AND_SET.ALIGN"},
    "blackwell_gemm": {"UTMALDG.2D", "UTMALDG.2D.2CTA", "UTCHMMA", "UTCQMMA", "UTCIMMA", "UTCHMMA.2CTA", "UTCQMMA.2CTA", "UTCIMMA.2CTA", "UTCBAR",
                       "UTCBAR.2CTA.MULTICAST", "LDTM.x32", "STTM.x32"},
    "blackwell_transfer": {"UTMALDG.2D.GATHER4", "UTMASTG.2D.SCATTER4", "UTMALDG.2D.2CTA", "UTMALDG.2D.MULTICAST.2CTA", "UTMALDG.4D.W",
                           "UTMALDG.4D.W128"},
}
# fmt: on
MMA, COPY, SHIFT, LOAD, STORE, ALLOC, COMMIT, TMA_LOAD, TMA_STORE = (
    0x1EA,
    0x1E7,
    0x1E6,
    0x1EE,
    0x1ED,
    0x1E3,
    0x1E9,
    0x1B4,
    0x1B5,
)  # low nine bits of the opcode
COPIES = len(machine.COPY_SHAPES) * len(machine.DECOMPRESSIONS)
# By day the matrix instructions, a GEMM and the transfers; by night all of them.
BY_DAY = ("blackwell_machine_1", "blackwell_gemm", "blackwell_transfer")
COUNTS = {  # module: how many of each the source names, at least
    **{
        f"blackwell_machine_{group}": {
            MMA: sum(not name.startswith(("cp", "shift")) for name in machine.forms(group)), COPY: COPIES, SHIFT: 1, LOAD: 1, STORE: 1, ALLOC: 2,
        }
        for group in (1, 2)
    },
    "blackwell_access": {LOAD: FORMS, STORE: FORMS, ALLOC: 2},
    "blackwell_allocation": {ALLOC: 5},
    "blackwell_commit": {COMMIT: 8},
    "blackwell_gemm": {MMA: 8, LOAD: 8, STORE: 8, ALLOC: 16, TMA_LOAD: 16},  # STORE: what D held before
    "blackwell_transfer": {TMA_LOAD: 8 + 4 + 6, TMA_STORE: 8},
}  # fmt: skip


def opcodes(cubin):
    """How often each opcode occurs: its low nine bits, of the 128 an instruction takes."""
    raw = cubin.read_bytes()
    (table,) = struct.unpack_from("<Q", raw, 0x28)
    size, count, names = struct.unpack_from("<3H", raw, 0x3A)
    sections = [struct.unpack_from("<2I4Q", raw, table + i * size) for i in range(count)]
    out = np.zeros(512, int)
    for name, _, _, _, offset, length in sections:
        at = sections[names][4] + name
        if raw[at : at + 6] == b".text.":
            out += np.bincount(np.frombuffer(raw, "<u2", length // 2, offset)[::8] & 0x1FF, minlength=512)
    return out


@pytest.fixture(scope="session")
def compiled(once):
    """`compiled(module, arch)`: the machine code of a module."""

    def made(module, arch):
        source = once(f"{module}-{arch}.cu", functools.partial(write, module, arch))
        return once(f"{module}-{arch}.cubin", functools.partial(compile_, source, arch))

    return made


def write(module, arch, path):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(machine.settings, "arch", arch)
        patch.setattr(access, "NUMS", NUMS)
        path.write_text(suites.MODULES[module]())


def compile_(source, arch, path):
    code = f"-gencode=arch={arch.replace('sm', 'compute')},code={arch}"
    done = subprocess.run([NVCC, "-cubin", code, "-I", CAPTURE, "-o", path, source], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stderr, done.stderr


def test_every_module_says_which_instructions_are_meant():
    assert set(MEANT) == set(COUNTS) == set(suites.MODULES)


@needs_nvcc
@pytest.mark.parametrize("module", MEANT if is_night() else BY_DAY)
def test_every_source_compiles_for_blackwell_and_the_machine_code_holds_the_instructions_meant(module, compiled):
    cubin = compiled(module, "sm_100a")
    tool = disassembler()
    if tool is None:
        pytest.skip("it compiles; neither nvdisasm nor cuobjdump is there to look into the machine code")
    listing = subprocess.run([*tool, cubin], capture_output=True, text=True, check=True).stdout
    found = re.findall(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)", listing)
    assert set(found) >= MEANT[module], MEANT[module] - set(found)


@needs_nvcc
@pytest.mark.parametrize("module", COUNTS if is_night() else BY_DAY)
def test_the_machine_code_has_as_many_instructions_as_the_sources_name(module, compiled):
    """The opcodes as nvdisasm names them; this needs no disassembler."""
    found = opcodes(compiled(module, "sm_100a"))
    assert {code: int(found[code]) for code, least in COUNTS[module].items() if found[code] < least} == {}


@needs_nvcc
@pytest.mark.parametrize("module", ["blackwell_machine_1", "blackwell_gemm"] if is_night() else ["blackwell_machine_1"])
def test_the_portable_part_builds_for_hopper_with_wgmma(module, compiled):
    cubin = compiled(module, "sm_90a")
    tool = disassembler()
    if tool is None:
        pytest.skip("it compiles; neither nvdisasm nor cuobjdump is there to look into the machine code")
    listing = subprocess.run([*tool, cubin], capture_output=True, text=True, check=True).stdout
    assert "HGMMA.64x128x16.F32.BF16" in listing
    assert "UTC" not in listing


def test_every_wait_has_an_end():
    """Nothing in the kit spins on a barrier without counting cycles."""
    for path in sorted((CAPTURE / "blackwell").glob("*.cu*")):
        text = re.sub(r"//.*", "", path.read_text())
        for wait in re.findall(r"while \((.*)\)", text):
            assert "PATIENCE" in wait or "most_bytes" in wait or "finished" in wait, (path.name, wait)


def test_every_wait_looks_once_more_when_its_patience_is_over():
    body = (CAPTURE / "blackwell" / "tcgen05.cuh").read_text().partition("bool barrier_wait(")[2].partition("\n}")[0]
    assert re.search(r"while \(.*PATIENCE\) done = barrier_try\(barrier, phase\);\s+return done \|\| barrier_try\(barrier, phase\);", body)
    assert "barrier_wait(t.barrier, 0, PATIENCE) || barrier_test(t.barrier, 0)" in (CAPTURE / "blackwell" / "transfer.cu").read_text()


def test_a_pair_meets_before_it_allocates():
    """Both CTAs take part in tcgen05.alloc.cta_group::2, so both must be there."""
    for name in ("machine.cu", "gemm.cu", "allocation.cu"):
        text = (CAPTURE / "blackwell" / name).read_text()
        assert "cluster_sync();" in text[: text.index("tensor_alloc<GROUP>(")], name


def test_all_tcgen05_instructions_of_a_kernel_name_one_cta_group():
    """PTX ISA 9.1 §9.7.16.7.1: all tcgen05 instructions within a kernel must specify the same value for .cta_group."""
    for group in (1, 2):
        assert {g for code in machine.forms(group).values() for g in re.findall(r"cta_group::(\d)", code)} == {str(group)}


def test_a_form_has_one_number_in_both_kernels():
    assert set(machine.forms(2)) < set(machine.forms(1)) == set(machine.OPS)
    for group in (1, 2):
        numbers = re.findall(r"case (\d+): .*  // (\S+)\n", machine.source(group))
        assert {name: int(number) for number, name in numbers} == {name: machine.OPS.index(name) for name in machine.forms(group)}


def test_a_step_is_as_long_for_the_host_as_for_the_kernel():
    step = machine.packed_step(machine.step("shift"))
    assert len(step) == 4 * 4 + 2 * 8 + 4 * 4 + 8 * 4 + 8 == 88
    assert struct.unpack_from("<I", step)[0] == machine.OPS.index("shift")


# --------------------------------------------------------------------------------------------------------------------------- the words


@pytest.mark.parametrize(
    ("word", "arguments"),
    [  # published or emitted by shipping compilers: Triton's tests, CuTe DSL, MLIR
        (0x08200490, {"kind": "f16", "a": "bf16", "b": "bf16", "m": 128, "n": 128}),
        (0x08218490, {"kind": "f16", "a": "bf16", "b": "bf16", "m": 128, "n": 128, "mn_major_a": True, "mn_major_b": True}),
        (0x08410010, {"kind": "f16", "a": "f16", "b": "f16", "m": 128, "n": 256, "mn_major_b": True}),
        (0x04200000, {"kind": "f16", "a": "f16", "b": "f16", "m": 64, "n": 128, "d": "f16"}),
        (0x08100910, {"kind": "tf32", "a": "tf32", "b": "tf32", "m": 128, "n": 64}),
        (0x082004A8, {"kind": "i8", "a": "s8", "b": "s8", "m": 128, "n": 128, "d": "s32", "saturate": True}),
        (0x08200020, {"kind": "i8", "a": "u8", "b": "u8", "m": 128, "n": 128, "d": "s32"}),
        (0x10200490, {"kind": "f16", "a": "bf16", "b": "bf16", "m": 256, "n": 128}),
        (0x08A01400, {"kind": "mxf8f6f4", "a": "e4m3", "b": "e2m1", "m": 128, "n": 128}),
        (0x28A01410, {"kind": "mxf8f6f4", "a": "e4m3", "b": "e2m1", "m": 128, "n": 128, "scale_a_id": 1, "scale_b_id": 1}),
        (
            0x68A102B0,
            {"kind": "mxf8f6f4", "a": "e2m1", "b": "e4m3", "m": 128, "n": 128, "mn_major_b": True, "scale_a_id": 3, "scale_b_id": 3},
        ),
    ],
)
def test_instruction_descriptors_are_those_of_shipping_compilers(word, arguments):
    assert words.instruction_descriptor(**arguments) == word


@pytest.mark.parametrize("kind", suites.RESERVED)
def test_every_reserved_field_of_an_instruction_descriptor_is_probed(kind):
    """The kit has its bits from the manual, as `words`; the tables of the model have the same."""
    bits = set(suites.RESERVED[kind])
    fields = InstrDescriptor.decode(0, kind=kind).table.fields
    reserved = [set(range(f.low, f.high + 1)) for name, f in fields.items() if name.startswith("_")]
    assert all(bits & field for field in reserved)
    assert bits - set().union(*reserved) == ({fields["sparsity_version"].low} if kind == "mxf4" else set())


@pytest.mark.parametrize(
    ("word", "arguments"),
    [
        (0x4000404000000000, (0, 0, 1024, words.LAYOUT_CODES["128B"])),
        (0x4000404002000000, (0, 8192, 1024, words.LAYOUT_CODES["128B"])),
        (0x0000400800800000, (0, 2048, 128, words.LAYOUT_CODES["none"])),
        (0xC000401000010000, (0, 16, 256, words.LAYOUT_CODES["32B"])),
        (0x8000402000010000, (0, 16, 512, words.LAYOUT_CODES["64B"])),
        (0x2000402000400000, (0, 1024, 512, words.LAYOUT_CODES["128B_ATOM_32B"])),
        (0x0000400800400010, (256, 1024, 128, words.LAYOUT_CODES["none"])),
    ],
)
def test_matrix_descriptors_are_those_of_shipping_compilers(word, arguments):
    assert words.matrix_descriptor(*arguments) == word


def test_a_stride_that_no_descriptor_holds_is_refused():
    with pytest.raises(ValueError, match="leading byte offset = 24 B"):
        words.matrix_descriptor(0, 24, 128, 0)
    with pytest.raises(ValueError, match="stride byte offset = 262144 B"):
        words.matrix_descriptor(0, 16, 1 << 18, 0)


@pytest.mark.parametrize(("name", "theirs"), [("e4m3", "float8_e4m3fn"), ("e5m2", "float8_e5m2"), ("e2m3", "float6_e2m3fn"),
                                              ("e3m2", "float6_e3m2fn"), ("e2m1", "float4_e2m1fn"), ("bf16", "bfloat16")])  # fmt: skip
def test_numbers_are_written_as_ml_dtypes_writes_them(name, theirs):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    dtype, element = getattr(ml_dtypes, theirs), words.ELEMENTS[name]
    unsigned = {1: np.uint8, 2: np.uint16}[np.dtype(dtype).itemsize]
    for code in range(0, 1 << element.bits, 1 if element.bits < 16 else 97):
        value = float(np.array([code], unsigned).view(dtype)[0])
        if np.isfinite(value) and (value or not code):
            assert element.encode(Fraction(value)) == code
    with pytest.raises(ValueError, match="more bits"):
        element.encode(Fraction(1) + Fraction(1, 1 << 20))


def test_chunks_of_sub_byte_types_are_packed_from_their_first_byte():
    """PTX ISA 9.1 §9.7.16.10.4: 16 elements in 12 or 8 bytes, then padding; 32 packed ones where the kind takes no
    padding.
    """
    six = words.pack(words.ELEMENTS["e3m2"], np.arange(16)[None] + 40)[0]
    assert [int.from_bytes(six[:12].tobytes(), "little") >> 6 * i & 63 for i in range(16)] == list(range(40, 56))
    assert six[12:].tolist() == [0xFF] * 4
    assert words.pack(words.ELEMENTS["e2m1"], np.arange(16)[None])[0, :8].tolist() == [0x10, 0x32, 0x54, 0x76, 0x98, 0xBA, 0xDC, 0xFE]
    assert (
        words.pack(words.ELEMENTS["e2m1x2"], (np.arange(32) % 16)[None])[0].tolist() == [0x10, 0x32, 0x54, 0x76, 0x98, 0xBA, 0xDC, 0xFE] * 2
    )


# --------------------------------------------------------------------------------------------------------------------------- the cases


def drawn():
    return {
        "operands": [(vars(p), w) for p, w in draw.operands(9201)],
        "edges": [(what, vars(p), w) for what, p, w in draw.edges(9202)],
        "layouts": suites.layout_cases()[::9],
        "modifiers": suites.modifier_cases(9203),
        "metadata": suites.metadata_cases(9204)[::9],
        "copies": suites.copy_cases(9205)[::9],
        "allocations": suites.allocation_cases(9206),
        "access": access.cases(9301),
        "gemm": gemm.variants("sm_100a"),
        "dots": dots.random_cases(9602)[::40],
    }


def test_cases_are_the_same_every_time_and_fit_through_json():
    first, second = (json.dumps(drawn(), sort_keys=True) for _ in range(2))
    assert first == second


def test_every_form_that_a_case_names_is_in_the_kernel_that_runs_it():
    cases = [draw.operand_case(p, w) for p, w in draw.operands(9201)[::5]] + suites.layout_cases() + suites.modifier_cases(9203)
    cases += suites.tmem_operand_cases() + suites.scale_cases()[::7] + suites.metadata_cases(9204) + suites.copy_cases(9205)
    cases += [draw.operand_case(p, w) for _, p, w in draw.edges(9202)[::5]]
    for case in cases:
        assert {step["op"] for step in case["steps"]} <= set(machine.forms(case["group"]))
        assert case["steps"][-1]["flags"] & machine.WAIT
        assert case["columns"][1] % 32 == 0
        assert 0 < sum(case["columns"]) <= 512
        assert len(case["steps"]) <= machine.MOST_STEPS


def test_every_kind_operand_major_and_group_is_probed():
    probed = {(p.kind, p.dtype, p.operand, p.group) for p, _ in draw.operand_probes()}
    assert probed == {(kind, dtype, o, g) for kind, (_, types) in words.KINDS.items() for dtype in types for o in "AB" for g in (1, 2)}
    assert {(p.ws, p.sparse, p.major) for p, _ in draw.operand_probes()} >= {
        (w, s, m) for w in (0, 1) for s in (0, 1) for m in ("K", "MN") if not (w and s)
    }


def test_drawn_descriptors_read_inside_the_window_and_below_the_other_operand():
    for probe, word in draw.operands(9201)[::3]:
        if probe.dtype == "e2m1x2":
            continue
        dtype = probe.dtype if words.ELEMENTS[probe.dtype].bits >= 8 else "e4m3"
        address = operand_addresses(word, arch="sm_100a", dtype=dtype, major=probe.major, rows=probe.rows, k=probe.stored_k)
        assert address.min() >= contents.WINDOW_BEGIN
        assert address.max() < contents.OTHER


def test_edges_hold_every_reserved_bit_layout_code_and_base_offset():
    edges = draw.edges(9202)
    assert {w >> 61 for _, _, w in edges} == set(range(8))
    assert {w >> 49 & 7 for what, _, w in edges if what == "base offset"} == set(range(8))
    assert {w >> 46 & 7 for what, _, w in edges if what == "constant bits"} == {0, 2, 4, 3, 7}
    for bit in (14, 15, 30, 31, 47, 48, 52, *range(53, 61)):
        assert any(w >> bit & 1 for what, _, w in edges if what == f"bit {bit}")


def test_directed_probes_are_exact_and_name_what_they_ask():
    for i in dots.instructions():
        probes = dots.directed(i)
        assert len(probes) >= 4
        for name, codes, c, scales, enable in probes:
            assert name
            assert ";" not in name
            assert len(codes) == i.k
            assert all(0 <= a < 1 << words.ELEMENTS[i.a].bits and 0 <= b < 1 << words.ELEMENTS[i.b].bits for a, b in codes)
            assert 0 <= c < 1 << (16 if i.d == "f16" else 32)
            assert all(0 <= word < 1 << 32 for word in scales)
            assert enable in (0, 1)
            assert i.scales or scales == i.one_scales


def test_operands_of_the_reference_kernel_hold_every_element_once():
    """TMA puts element (row, k) where the K step's descriptor looks for it."""
    for dtype in ("bf16", "tf32", "e4m3"):
        for mode in ("128B", "64B", "32B", "none", "128B_ATOM_32B"):
            for major in ("K", "MN"):
                if (mode == "128B_ATOM_32B") != (dtype == "tf32" and major == "MN"):
                    continue
                side = gemm.operand(dtype, mode, major, 128)
                size = words.ELEMENTS[dtype].bits // 8
                width = words.WIDTHS[words.LAYOUT_CODES[mode]]
                loaded = {}
                for offset, row0, k0 in side["boxes"]:
                    inner, outer = side["box_dim"]
                    for y in range(outer):
                        for x in range(inner):
                            lin = offset + y * width + x * size
                            shift = (5, 3) if mode == "128B_ATOM_32B" else (4, width // 16 - 1)
                            at = lin ^ (lin >> 7 & shift[1]) << shift[0] if width > 16 else lin
                            row, k = (row0 + y, k0 + x) if major == "K" else (row0 + x, k0 + y)
                            loaded[row, k] = at
                assert len(loaded) == 128 * side["k_stage"]
                step = 32 // size
                for s, word in enumerate(side["words"]):
                    read = operand_addresses(word, arch="sm_100a", dtype=dtype, major=major, rows=128, k=step)
                    assert all(int(read[r, k]) == loaded[r, s * step + k] for r in range(0, 128, 7) for k in range(step))


# ---------------------------------------------------------------------------------------------------- a stand-in that follows the manual


def numbers(element, codes):
    table = np.zeros(1 << min(element.bits, 8), np.float64)
    if element.bits <= 8:
        for code in range(1 << element.bits):
            if element.integer:
                table[code] = code - (1 << element.bits) * (element.signed and code >> element.bits - 1)
            else:
                sign, body = code >> element.bits - 1, code & (1 << element.bits - 1) - 1
                field, fraction = body >> element.fraction_bits, body & (1 << element.fraction_bits) - 1
                size = (fraction + (1 << element.fraction_bits) * (field > 0)) * 2.0 ** (
                    max(field, 1) - element.bias - element.fraction_bits
                )
                table[code] = -size if sign else size
        return table[codes]
    if element.name == "f16":
        return codes.astype(np.uint16).view(np.float16).astype(np.float64)
    shift = 16 if element.bits == 16 else 0
    return (codes.astype(np.uint32) << np.uint32(shift)).view(np.float32).astype(np.float64)


def elements(element, image):
    """Every element of a window, by place - that of its first one."""
    chunks = image.reshape(-1, 16)
    if element.bits >= 8:
        return np.ascontiguousarray(chunks).view({8: np.uint8, 16: np.uint16, 32: np.uint32}[element.bits]).ravel()
    one = np.unpackbits(chunks[:, : element.bits * element.per_chunk // 8], axis=1, bitorder="little")
    return (one.reshape(len(chunks) * element.per_chunk, element.bits) << np.arange(element.bits)).sum(1)


def read_operand(image, word, dtype, major, rows, k):
    element = words.ELEMENTS[dtype]
    size = max(element.bits // 8, 1)
    address = operand_addresses(word, arch="sm_100a", dtype=dtype if element.bits >= 8 else "e4m3", major=major, rows=rows, k=k)
    place = address // 16 * element.per_chunk + address % 16 // size
    return numbers(element, elements(element, image)[place - contents.WINDOW_BEGIN // 16 * element.per_chunk]), place


def pretend(case, probe, flip=None):
    """What the manual says a card answers: words (pass, CTA, lane, column). `flip` maps (lane, column) where a card
    might disagree.
    """
    step = case["steps"][0]
    halves = (probe.operand == "A" and probe.major == "MN", probe.operand == "B" and probe.major == "MN")
    out = []
    for one in case["passes"]:
        images = [contents.shared_image(r) for r in one["shared"]]
        keep = int(one["tensor"][0][0][3] != 0x44444444)
        rows_a, rows_b = probe.m // probe.group, probe.n // probe.group
        a = np.concatenate(
            [read_operand(i, step["a"], probe.dtype, "MN" if halves[0] else "K", rows_a, probe.k // (1 + probe.sparse))[0] for i in images]
        )
        b = np.concatenate([read_operand(i, step["b"], probe.dtype, "MN" if halves[1] else "K", rows_b, probe.k)[0] for i in images])
        if probe.sparse:
            full = np.zeros((len(a), probe.k))
            for k in range(probe.k):
                if contents.kept_half(probe.dtype, k) == keep:
                    full[:, k] = a[:, contents.stored_column(probe.dtype, k)]
            a = full
        d = a @ b.T
        words_ = np.full((probe.group, 128, case["columns"][1]), contents.SENTINEL, np.uint32)
        for m in range(probe.m):
            for n in range(probe.n):
                cta, lane, column = layouts.documented(probe.m, probe.n, m, n, group=probe.group, ws=probe.ws, sparse=probe.sparse)
                lane, column = flip(lane, column) if flip else (lane, column)
                value = np.int32(d[m, n]).view(np.uint32) if probe.kind == "i8" else np.float32(d[m, n]).view(np.uint32)
                words_[cta, lane, column] = value
        out.append(words_)
    return np.array(out)


def answering(monkeypatch, answers):
    """Let suites find these answers instead of a card, and a device that is none."""
    remaining = list(answers)

    def in_processes(_, chosen):
        taken = [remaining.pop(0) for _ in chosen]
        return [{**a, "words": pages.compressed(a["words"])} if "words" in a else a for a in taken]

    monkeypatch.setattr(suites, "in_processes", in_processes)

    class Nothing:
        device = type("Device", (), {"describe": lambda self: {"gpu": "none: a test", "compute_capability": "10.0"}})()
        write = bench.write

    monkeypatch.setattr(bench.settings, "arch", "sm_100a")
    return Nothing()


PROBES = [
    draw.Probe("f16", "bf16", "A", "K", 64, 16),
    draw.Probe("f16", "bf16", "B", "MN", 128, 32),
    draw.Probe("tf32", "tf32", "B", "K", 128, 24),
    draw.Probe("f8f6f4", "e2m1", "A", "K", 64, 32),
    draw.Probe("f8f6f4", "e3m2", "B", "MN", 64, 32),
    draw.Probe("i8", "u8", "B", "K", 128, 32),
    draw.Probe("f16", "bf16", "B", "K", 256, 32, group=2),
    draw.Probe("f16", "f16", "A", "K", 128, 32, group=2),
    draw.Probe("f16", "bf16", "A", "K", 32, 64, ws=True),
    draw.Probe("f16", "bf16", "B", "MN", 64, 64, ws=True),
    draw.Probe("f16", "bf16", "B", "K", 64, 32, sparse=True),
    draw.Probe("tf32", "tf32", "A", "K", 128, 16, sparse=True),
]


def test_on_a_card_that_follows_the_manual_the_operand_suite_finds_every_place(monkeypatch, tmp_path):
    rng = random.Random(1)
    chosen = [("", p, draw.descriptor(rng, p.dtype, p.rows, p.stored_k, p.major, rng.choice(draw.CODES))) for p in PROBES]
    answers = [{"status": 0, "completed": 1, "tensor_base": [0], "words": pretend(draw.operand_case(p, w), p)} for _, p, w in chosen]
    suites.write_operands(answering(monkeypatch, answers), tmp_path, "kit", "a test", 1, chosen)
    suite = load_suite(tmp_path / "kit")
    for at, (_, p, word) in enumerate(chosen):
        _, place = read_operand(np.zeros(contents.WINDOW_END - contents.WINDOW_BEGIN, np.uint8), word, p.dtype, p.major, p.rows, p.stored_k)
        found = suite.ragged("element", at).reshape(-1, p.stored_k)
        np.testing.assert_array_equal(found, np.concatenate([place] * p.group), err_msg=str(p))
        if p.group == 2:  # whose shared memory it is: rows of A and of B are shared out between the CTAs
            owner = suite.ragged("owner", at).reshape(1, 2, 128, -1)
            half, cta, lane, column = suites.where(p)
            np.testing.assert_array_equal(
                owner[half, cta, lane, column], np.repeat([1, 2], p.rows)[:, None] + np.zeros((1, p.stored_k), int)
            )


def test_a_card_that_lays_d_out_otherwise_is_seen_and_not_hidden(monkeypatch, tmp_path):
    probe = PROBES[0]
    word = words.matrix_descriptor(0x4000, 16, 1024, 2)
    odd = pretend(draw.operand_case(probe, word), probe, flip=lambda lane, column: (lane ^ 16, column))
    answers = [{"status": 0, "completed": 1, "tensor_base": [0], "words": odd}, {"status": 715}]
    suites.write_operands(answering(monkeypatch, answers), tmp_path, "kit", "a test", 1, [("", probe, word)] * 2)
    suite = load_suite(tmp_path / "kit")
    assert (suite.ragged("element", 0) == suites.UNTOUCHED).all()
    raw = suite.ragged("raw", 0).reshape(128, 64)
    assert sorted(np.flatnonzero((raw != suites.UNTOUCHED).any(1))) == sorted((m % 16 + 32 * (m // 16)) ^ 16 for m in range(64))
    assert suite.arrays["status"].tolist() == [0, 715]
    assert suite.ragged("raw", 1).size == 0


@pytest.mark.parametrize("shape", [("f16", "bf16", 128, 32, 1, False, False), ("tf32", "tf32", 64, 16, 1, False, False), ("f8f6f4", "e4m3", 256, 32, 2, False, False),
                                   ("f8f6f4", "e2m1", 128, 32, 2, False, False), ("i8", "u8", 32, 64, 1, True, False), ("i8", "s8", 64, 64, 1, True, False),
                                   ("f16", "f16", 128, 64, 1, False, True)])  # fmt: skip
def test_layout_probes_number_the_rows_of_a_and_b(shape):
    kind, dtype, m, n, group, ws, sparse = shape
    case = suites.layout_case(kind, dtype, m, n, group=group, ws=ws, sparse=sparse)
    probe = draw.Probe(kind, dtype, "A", "K", m, n, group, ws, sparse)
    answer = suites.values(pretend(case, probe), probe.accumulator)
    for row in range(0, m, 5):
        for column in range(0, n, 3):
            cta, lane, at = layouts.documented(m, n, row, column, group=group, ws=ws, sparse=sparse)
            number = row // (m // group) * 128 + row % (m // group), column // (n // group) * 128 + column % (n // group)
            assert (answer[0, cta, lane, at], answer[1, cta, lane, at]) == number


def test_metadata_and_scale_contents_say_their_place():
    scales = [contents.tensor_image([[416, 32, "scale tags", True, i]])[:, 416:448].view(np.uint8).astype(int) - 112 for i in range(3)]
    assert (scales[0] | scales[1] << 5 | scales[2] << 10).ravel().tolist() == list(range(128 * 128))
    nibbles = contents.tensor_image([[384, 4, "nibbles", "bf16", 1]])[:, 384:388]
    assert {int(w) >> 4 * i & 15 for w in nibbles.ravel() for i in range(8)} == set(contents.NIBBLES)
    index = [contents.tensor_image([[0, 512, "index", i]]) & 0x7FFF for i in range(2)]
    assert (index[0] == np.arange(128)[:, None]).all()
    assert (index[1] == np.arange(512)).all()


# ------------------------------------------------------------------------------------------------------------------ traps and time-outs


def test_a_process_that_says_nothing_is_ended_and_keeps_what_it_said(monkeypatch):
    monkeypatch.setattr(bench, "PATIENCE", 0.4)
    script = """echo '{"status": 0}'; exec sleep 60"""
    with subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, text=True) as process:
        lines, hung = bench.read_lines(process)
    assert [json.loads(line) for line in lines] == [{"status": 0}]
    assert hung


def test_a_process_that_ends_is_not_taken_for_one_that_hangs():
    with subprocess.Popen([sys.executable, "-c", "print('noise'); print('{}')"], stdout=subprocess.PIPE, text=True) as process:
        assert bench.read_lines(process) == (["{}\n"], False)


def test_every_dispute_has_a_question_that_decides_it_or_is_said_not_to():
    plan = (CAPTURE / "blackwell" / "PLAN.md").read_text()
    questions = {int(number) for number in re.findall(r"^\| (\d+) \|", plan, re.MULTILINE)}
    assert questions == set(range(1, len(questions) + 1))
    decided = {}
    for names, rows in re.findall(
        r"^\| (`.*`) \| ([\d, ]+|none: not covered) \|$", plan.partition("| `smemsim.DISPUTES` |")[2], re.MULTILINE
    ):
        for name in re.findall(r"`([^`]+)`", names):
            decided[name] = {int(row) for row in re.findall(r"\d+", rows)}
    assert set(decided) == set(DISPUTES)
    for rows in decided.values():
        assert rows <= questions


def test_every_suite_of_the_kit_is_planned():
    plan = (CAPTURE / "blackwell" / "PLAN.md").read_text()
    for name in suites.SUITES:
        assert f"`{name}`" in plan, name
    assert set(transfers.SUITES) <= set(suites.SUITES)
