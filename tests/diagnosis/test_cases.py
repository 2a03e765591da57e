"""Operands of kernels that people run: descriptors, advances, tensor maps and tile layouts as their sources have them.

`data/configs.json` holds the numbers, one operand an entry, sizes and offsets in bytes; each names the repository, path
and commit it was read from. `shared_layout` says where the tile lies: for each axis a list of [size, stride], fastest
first, counting bytes along the contiguous axis and rows along the other. An issue is (offset from the tile's base,
coordinates, and the tile element that lands first).
"""

import json

import numpy as np
import pytest

from hand import FUNCTORS, word
from places import TESTS
from smemsim import GlobalMemory, Severity, SharedMemory, SmemDescriptor, TensorMap, operand_addresses

CONFIGS = json.loads((TESTS / "data" / "configs.json").read_text())
CONFIG = pytest.mark.parametrize("c", CONFIGS, ids=[c["id"] for c in CONFIGS])
LOADED = pytest.mark.parametrize("c", [c for c in CONFIGS if "tensor_map" in c], ids=[c["id"] for c in CONFIGS if "tensor_map" in c])
BASES = (1024, 1024 + 128, 8192 + 5 * 128)  # where the swizzle begins with the tile, and where it does not


def along(pieces, index):
    """Offset of an index through [size, stride] pieces, fastest first."""
    offset = np.zeros_like(index)
    for size, stride in pieces:
        offset, index = offset + index % size * stride, index // size
    assert not index.any()
    return offset


def tile_indices(c, block, step):
    """(mn, k) inside the tile of every element that the instruction at this block and step reads."""
    mn, k = np.indices((c["rows"], c["k"]))
    return mn + block * c["rows"], k + step * c["k"]


def laid_out(c, base, mn, k):
    """The address `shared_layout` gives: the swizzle of the complete sum."""
    if c["major"] == "K":
        k = k * c["element_bits"] // 8
    else:
        mn = mn * c["element_bits"] // 8
    return FUNCTORS[c["swizzle"]](base + along(c["shared_layout"]["mn"], mn) + along(c["shared_layout"]["k"], k))


def instructions(c, base):
    """(block, step, word) of every instruction of the tile."""
    for block, down in enumerate(c["mn_block_offsets"]):
        for step, right in enumerate(c["k_step_offsets"]):
            yield block, step, int(c["word"], 16) | (base + down + right) >> 4


def operand(c):
    return {"arch": c["arch"], "dtype": c["dtype"], "major": c["major"], "rows": c["rows"], "k": c["k"]}


@CONFIG
def test_words_of_kernels_hold_their_fields(c):
    d = SmemDescriptor.decode(int(c["word"], 16), arch=c["arch"])
    fields = {"leading_byte_offset", "stride_byte_offset", "layout_code"}
    assert {name: getattr(d, name) for name in fields} == {name: c[name] for name in fields}
    assert (d.start_address, d.base_offset, str(d.swizzle)) == (0, 0, c["swizzle"])
    assert d.encode() == word(c["arch"], c["swizzle"], lbo=c["leading_byte_offset"], sbo=c["stride_byte_offset"])


@CONFIG
def test_the_instructions_of_a_tile_read_all_of_it(c):
    assert len(c["mn_block_offsets"]) * c["rows"] == c["tile"][0]
    assert len(c["k_step_offsets"]) * c["k"] == c["tile"][1]


@CONFIG
@pytest.mark.parametrize("base", BASES)
def test_every_instruction_reads_where_the_kernel_laid_the_tile(c, base):
    for block, step, d in instructions(c, base):
        np.testing.assert_array_equal(operand_addresses(d, **operand(c)), laid_out(c, base, *tile_indices(c, block, step)))


@CONFIG
def test_descriptors_of_working_kernels_have_no_grave_problem(c):
    for _, _, d in instructions(c, 1024):
        context = {name: c[name] for name in ("dtype", "major", "rows", "k")}
        found = SmemDescriptor.decode(d, arch=c["arch"]).problems(**context)
        assert not [str(f) for f in found if f.severity in (Severity.TRAP, Severity.WRONG)]


def coded(size, itemsize):
    """`size` bytes whose elements tell their own index, as far as their bits go."""
    index = np.arange(size // itemsize, dtype=np.uint64) * np.uint64(40503) + np.uint64(7)
    return (index >> np.uint64(3)).astype(f"u{itemsize}")


@LOADED
@pytest.mark.parametrize("base", BASES)
def test_every_instruction_reads_the_elements_that_tma_brought(c, base):
    given, matrix, itemsize = c["tensor_map"], c["matrix"], c["element_bits"] // 8
    strides = (itemsize, *given["global_strides"])
    size = itemsize + sum((n - 1) * stride for n, stride in zip(given["global_dim"], strides, strict=True))
    world, shared, values = GlobalMemory(), SharedMemory(c["arch"]), coded(size, itemsize)
    tm = TensorMap.tiled(**given, global_address=world.place(values), arch=c["arch"])
    for offset, coordinates, _, _ in c["tma_issues"]:
        shared.tma_load(tm, coordinates, smem_address=base + offset, source=world)
    for block, step, d in instructions(c, base):
        got = shared.read_operand(d, **operand(c))
        mn, k = (i + first for i, first in zip(tile_indices(c, block, step), matrix["tile_origin"], strict=True))
        assert mn.max() < matrix["mn"]
        assert k.max() < matrix["k"]
        slow, fast = (mn, k) if matrix["contiguous"] == "k" else (k, mn)
        meant = matrix["outer_offset_bytes"] + slow * matrix["pitch_bytes"] + fast * itemsize
        held = got.coordinates()[..., : len(strides)] @ np.array(strides)
        np.testing.assert_array_equal(held, meant)
        np.testing.assert_array_equal(got.bits, values[meant // itemsize])
        assert not got.torn.any()


@LOADED
def test_each_issue_brings_the_tile_element_it_is_meant_for_first(c):
    given, matrix, base = c["tensor_map"], c["matrix"], 1024
    strides = (c["element_bits"] // 8, *given["global_strides"])
    for offset, coordinates, mn, k in c["tma_issues"]:
        assert laid_out(c, base, np.array(mn), np.array(k)) == FUNCTORS[c["swizzle"]](base + offset)
        rows, columns = (matrix["tile_origin"][0] + mn, matrix["tile_origin"][1] + k)
        slow, fast = (rows, columns) if matrix["contiguous"] == "k" else (columns, rows)
        first = sum(at * stride for at, stride in zip(coordinates, strides, strict=True))
        assert first == matrix["outer_offset_bytes"] + slow * matrix["pitch_bytes"] + fast * strides[0]
