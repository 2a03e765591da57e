"""Scenarios: what their files say, as typed tables, and their reading with line and key of every mistake."""

from __future__ import annotations

import dataclasses
import datetime
import json
import pathlib
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from smemsim.base.arguments import shown, suggestion
from smemsim.base.errors import InputError
from smemsim.core.finding import Path, Value
from smemsim.core.spec.formats import element_format
from smemsim.core.tables import (
    Source,
    TableError,
    as_in,
    check_table,
    is_list_of,
    is_number,
    key,
    keys_of,
    made,
    mistake,
    name_told,
    plain,
    read_table,
    schema_of,
    with_value,
)

__all__ = [
    "OPERANDS",
    "STEPS",
    "TABLES",
    "AnyOperand",
    "Buffer",
    "BulkStep",
    "CopyStep",
    "Expect",
    "Grid",
    "Layout",
    "MapArguments",
    "Meant",
    "MmaStep",
    "Operand",
    "ScenarioTables",
    "Step",
    "Tensor",
    "TensorStep",
    "ThreadsStep",
    "TmaLoad",
    "TmaReduce",
    "TmaStore",
    "json_schema",
    "listed",
    "plain_tables",
    "read_scenario",
    "scenario_of_tables",
]

Ints: TypeAlias = int | tuple[int, ...]
# one, one a K step, or a list of them for each block
Grid: TypeAlias = int | tuple[int, ...] | tuple[tuple[int, ...], ...]
Digits: TypeAlias = tuple[tuple[int, int], ...]


# ---- The tables of a scenario file: their keys, what each holds and what it means. Files written to them exist
# elsewhere; keys are only ever added


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tensor:
    """`[tensor.NAME]`: a tensor in global memory."""

    dtype: str = key("text", "the element type: f16 bf16 tf32 f32 e4m3 e5m2 e3m2 e2m3 e2m1 s8 u8 ...", required=True)
    extent: Mapping[str, int] = key("table", "the number of elements of each axis. The names of axes are yours", required=True)
    stride: Mapping[str, int] = key(
        "table", "bytes from one element to the next, for each axis. It is 1 along packed elements of 4 and 6 bits", required=True
    )
    address: int | None = key("int", "the address of the first element", default="any")
    scale_blocks: tuple[str, str] | None = key(
        "axes",
        "only for scale factors that are stored in blocks of 512 bytes (128 rows x 4 factors): the axis of rows, and the axis of factors along K",
    )
    walks: Mapping[str, tuple[tuple[int, int, int, int], ...]] | None = key("table", "only for an axis whose elements do not have one stride: the axis, and the list of its dimensions in memory, fastest first. A dimension has four numbers: how many indices, the bytes from one to the next, the first index that is in the tensor, and the index after the last one. Other indices are padding. Example: m has 64 rows in two planes of 32. Rows are 128 B apart, planes 16384 B: m = [[32, 128, 0, 32], [2, 16384, 0, 2]]. Row 33 is at 16384 + 128")  # fmt: skip


@dataclasses.dataclass(frozen=True, kw_only=True)
class Layout:
    """`layout` of a buffer, as a table."""

    swizzle: str | None = key("text", "the swizzle: none, 32B, 64B, 128B, 128B_ATOM_32B", default="none")
    xor: str | None = key(
        "text",
        "what the software's XOR uses: the 'address' in shared memory, like hardware, or the 'offset' in the buffer",
        default="address",
    )
    mn: Digits = key("pairs", "the layout along M or N: a list of [size, stride in bytes], fastest first. A size is a number of elements. On the contiguous axis a size is a number of bytes, because elements may be smaller than a byte (example below)", required=True)  # fmt: skip
    k: Digits = key("pairs", "the layout along K, in the same form", required=True)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Buffer:
    """`[buffer.NAME]`: a buffer in shared memory."""

    address: int | None = key("int", "the .shared address of the buffer, as cvta.to.shared gives it", default="from `base` and `offset`")
    offset: int | None = key("int", "instead of `address`: bytes from the start of the pool of shared memory", default="0")
    base: int | None = key("int", "the address of the pool", default="the first legal address")
    base_align: int | None = key(
        "int",
        "the alignment that the kernel guarantees for the pool, in bytes",
        default="placed at a multiple of 1024, but nothing is guaranteed",
    )
    bytes: int | None = key("int", "the size in bytes, of all stages together", default="unknown: the end is not checked")
    declared_align: int | None = key(
        "int", "the alignment that the source declares for this buffer itself, such as 1024 in `alignas(1024)`", default="unknown"
    )
    stages: int | None = key("int", "the number of stages", default="1")
    stage_bytes: int | None = key("int", "bytes from one stage to the next", default="equal parts of the buffer")
    layout: str | Layout | None = key("any", "only for steps of threads: where the software puts each element. A table (below), or a CuTe layout as text, (M or N, K) in elements, such as 'Sw<3,4,3> o ((8,8),64):((64,512),1)'")  # fmt: skip


_LISTS = ("global_dim", "global_strides", "box_dim", "element_strides", "pixel_box_lower_corner", "pixel_box_upper_corner")
_OF_TILED, _OF_IM2COL = ("box_dim",), ("pixel_box_upper_corner", "channels_per_pixel", "pixels_per_column")
_ENCODE = ("data_type", *_LISTS, "interleave", "swizzle", "l2_promotion", "oob_fill", "channels_per_pixel", "pixels_per_column")


@dataclasses.dataclass(frozen=True, kw_only=True)
class MapArguments:
    """`[map.NAME]`: a tensor map, by the arguments of the encode call, or by its bytes."""

    of: str | None = key("text", "the tensor that the map should describe. check compares the two", default="not compared")
    raw: str | None = key("text", "the 128 bytes of the CUtensorMap as 256 hex digits, instead of the arguments")
    data_type: str | int | None = key("enum", "the element type of the map, such as BFLOAT16", default="required without `raw`")
    global_address: str | int | None = key(
        "place", "the address of the tensor: a number, or the name of a tensor", default="required without `raw`"
    )
    global_offset: int | None = key("int", "bytes that are added to `global_address`", default="0")
    object_address: int | None = key("int", "the address of the CUtensorMap object itself, for its alignment", default="not checked")
    global_dim: Ints | None = key("ints", "elements of each dimension of the tensor, dimension 0 first", default="required without `raw`")
    global_strides: Ints | None = key("strides", "strides in bytes, from dimension 1 on", default="required without `raw`, from rank 2 on")
    box_dim: Ints | None = key(
        "ints", "elements of each dimension of the box, dimension 0 first", default="required for a tiled map without `raw`"
    )
    element_strides: Ints | None = key("ints", "element strides, dimension 0 first", default="1 each")
    interleave: str | int | None = key("enum", "none, 16B, 32B", default="none")
    swizzle: str | int | None = key("enum", "none, 32B, 64B, 128B, 128B_ATOM_32B, 128B_ATOM_32B_FLIP_8B, 128B_ATOM_64B", default="none")
    l2_promotion: str | int | None = key("enum", "none, 64B, 128B, 256B", default="none")
    oob_fill: str | int | None = key("enum", "the content of elements outside: zeros, nan", default="zeros")
    pixel_box_lower_corner: Ints | None = key(
        "ints", "only im2col: the lower corner of the pixel box, W first. A map with this key is im2col"
    )
    pixel_box_upper_corner: Ints | None = key(
        "ints", "only im2col: the upper corner of the pixel box, W first", default="required for an im2col map without `raw`"
    )
    channels_per_pixel: int | None = key("int", "only im2col: channels of each pixel", default="required for an im2col map without `raw`")
    pixels_per_column: int | None = key("int", "only im2col: pixels of a load", default="required for an im2col map without `raw`")

    @property
    def is_im2col(self) -> bool:
        """Is the map im2col?"""
        return self.pixel_box_lower_corner is not None

    @property
    def swizzle_given(self) -> str | int:
        """The swizzle; "none" if it is not given."""
        return "none" if self.swizzle is None else self.swizzle

    @property
    def bytes_of_map(self) -> bytes:
        """The bytes of the map that `raw` has in hex. Raises ValueError for what is no hex."""
        return bytes.fromhex("".join((self.raw or "").split()).removeprefix("0x"))

    @property
    def encode_arguments(self) -> dict[str, object]:
        """The given arguments of the encode call, without the address."""
        given = {name: getattr(self, name) for name in _ENCODE if getattr(self, name) is not None}
        given |= {name: listed(given[name]) for name in _LISTS if name in given}
        return {"element_strides": (1,) * len(given["global_dim"]), **given} if "global_dim" in given else given


@dataclasses.dataclass(frozen=True, kw_only=True)
class Meant:
    """`meant` of an operand: where its elements should come from."""

    tensor: str = key("text", "the tensor that the operand should come from", required=True)
    axes: tuple[str, str] = key("axes", "two axes of the tensor: that of the rows (M or N), that of K", required=True)
    at: tuple[int, int] | None = key("pair", "the element that belongs at row 0, k 0 of the first K step", default="[0, 0]")
    k_step: int | None = key("int", "elements of K from one K step to the next", default="the `k` of the step")
    mn_step: int | None = key("int", "rows from one block of M or N to the next", default="the rows of the operand")
    scale_block: bool | None = key(
        "bool", "only for scale factors: true if each word reads whole blocks of 512 bytes", default="true if the tensor has `scale_blocks`"
    )

    @property
    def origin(self) -> tuple[int, int]:
        """The element at row 0, K 0 of the first step."""
        return self.at or (0, 0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class AnyOperand:
    """The reads of an instruction. Scale factors need not have their type."""

    dtype: str | None = key("text", "the element type")
    major: str | None = key("text", "the contiguous axis: K or MN")
    rows: int | None = key("int", "rows that one instruction reads", default="`m` for A, `n` for B")
    words: tuple[int, ...] | tuple[tuple[int, ...], ...] | None = key("words", "the descriptors: a list with one for each K step, or a list of such lists, one for each block of M or N")  # fmt: skip
    word: int | None = key("word", "instead of `words`: one descriptor. `start`, `k_add` and `mn_add` move its start address")
    start: str | int | None = key(
        "place",
        "the name of a buffer, or an address. It is added to the start address in `word`. So leave the start address of `word` at 0 if you give `start`",
        default="0",
    )
    start_offset: int | None = key("int", "bytes that are added to the start address", default="0")
    k_add: Ints | None = key("ints", "bytes that are added to the start address, one number for each K step", default="0: one K step")
    mn_add: Ints | None = key(
        "ints", "bytes that are added to the start address, one number for each block of M or N", default="0: one block"
    )
    meant: Meant | None = key("table", "the intended content (see `meant` of an operand)", default="only the descriptor is checked")
    tmem: Grid | None = key("grid", "only for operands in tensor memory: the address, one for all K steps or one for each")
    id: Grid | None = key(
        "grid",
        "only for scale factors: the scale id, one for all K steps or one for each",
        default="bits 31:30 of `tmem` if they are not 0, else that of `idesc`",
    )
    stage: int | None = key("int", "the stage of the buffer, from 0 on", default="0")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Operand(AnyOperand):
    """`[step.a]`, `[step.b]`: an operand in shared or in tensor memory."""

    dtype: str = key("text", "the element type", required=True)
    major: str = key("text", "the contiguous axis: K or MN", required=True)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Expect:
    """`[expect]`: what `check` should find."""

    findings: tuple[str, ...] = key("texts", "a list of codes. The exit code is 0 if check reports exactly these", required=True)


# ---- Steps


@dataclasses.dataclass(frozen=True, kw_only=True)
class Step:
    """`[[step]]`: something that happens."""

    op: str = key("text", "the kind of the step", required=True)

    @property
    def buffer(self) -> str:
        """The buffer that it writes or reads; "" for none."""
        return ""

    @property
    def operands(self) -> dict[str, Operand]:
        """A and B of an instruction, those that it has."""
        return {}

    @property
    def readers(self) -> Mapping[str, AnyOperand]:
        """All operands of an instruction, scale factors too."""
        return self.operands


@dataclasses.dataclass(frozen=True, kw_only=True)
class TensorStep(Step):
    """A transfer by TMA through a tensor map."""

    map: str = key("text", "the name of the tensor map", required=True)
    stage: int | None = key("int", "the stage of the buffer, from 0 on", default="0")
    offset: Ints | None = key("ints", "bytes from the start of the stage. A list has one entry for each transfer of the step", default="0")
    at: tuple[int, ...] | tuple[tuple[int, ...], ...] = key("places", "the coordinates of the box, dimension 0 first. A list of coordinates makes one transfer for each", required=True)  # fmt: skip

    @property
    def places(self) -> tuple[tuple[int, ...], ...]:
        """The coordinates of every issue."""
        return self.at if self.at and isinstance(self.at[0], tuple) else (self.at,)  # type: ignore[return-value]


@dataclasses.dataclass(frozen=True, kw_only=True)
class TmaLoad(TensorStep):
    """`op = "tma_load"`: a tensor copy from global into shared memory."""

    im2col_offsets: Ints | None = key("ints", "only im2col loads: the offsets, W first", default="0 each")
    expect_bytes: int | None = key("int", "bytes that the mbarrier expects for all transfers of the step together", default="not checked")
    to: str = key("text", "the name of the buffer that is written", required=True)

    @property
    def buffer(self) -> str:
        return self.to


@dataclasses.dataclass(frozen=True, kw_only=True)
class TmaStore(TensorStep):
    """`op = "tma_store"`: a tensor copy from shared into global memory."""

    source: str = key("text", "the name of the buffer that is read", name="from", required=True)
    im2col_offsets: Ints | None = key("ints", "accepted for old files. It has no effect: only loads have offsets")
    expect_bytes: int | None = key("int", "accepted for old files. It has no effect: a store has no mbarrier")

    @property
    def buffer(self) -> str:
        return self.source


@dataclasses.dataclass(frozen=True, kw_only=True)
class TmaReduce(TmaStore):
    """`op = "tma_reduce"`: a tensor reduction from shared into global memory."""

    reduce: str = key("text", "the operation: add, min, max, inc, dec, and, or, xor", required=True)


@dataclasses.dataclass(frozen=True, kw_only=True)
class BulkStep(Step):
    """`op = "bulk"`: a bulk copy or a bulk reduction, which does not change the order of bytes."""

    to: str | None = key("text", "the name of the buffer that is written", default="required without `from`")
    source: str | None = key("text", "instead of `to`: the name of the buffer that is read", name="from", default="required without `to`")
    bytes: int = key("int", "the size of each copy in bytes", required=True)
    reduce: str | None = key("text", "the operation of a reduction: add, min, max, inc, dec, and, or, xor", default="a copy")
    stage: int | None = key("int", "the stage of the buffer, from 0 on", default="0")
    offset: Ints | None = key("ints", "bytes from the start of the stage. A list has one entry for each transfer of the step", default="0")
    tensor: str | None = key("text", "the name of the tensor that is copied", default="the content is unknown")
    global_offset: Ints | None = key("ints", "bytes from the start of the tensor. A list has one entry for each transfer", default="0")
    expect_bytes: int | None = key("int", "only copies into shared memory (`to`): bytes that the mbarrier expects for all transfers of the step together", default="not checked")  # fmt: skip

    @property
    def buffer(self) -> str:
        return self.to if self.to is not None else self.source or ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ThreadsStep(Step):
    """`op = "threads"`: ordinary stores or loads through the layout of the buffer."""

    to: str | None = key("text", "the name of the buffer that threads write", default="required without `from`")
    source: str | None = key(
        "text", "instead of `to`: the name of the buffer that threads read", name="from", default="required without `to`"
    )
    load: bool | None = key(
        "bool",
        "false: threads write the tensor's elements. true: threads read the buffer, and check compares what they read with the tensor's elements",
        default="true with `from`, false with `to`",
    )
    tensor: str = key("text", "the tensor whose elements the threads write or read", required=True)
    axes: tuple[str, str] = key("axes", "two axes of the tensor: that of `mn` of the layout, that of `k`", required=True)
    contiguous: str = key(
        "text",
        "the axis whose elements are next to each other in memory: 'mn', 'k', or the name of the tensor's axis. In the layout, the sizes of this axis are bytes",
        required=True,
    )
    at: tuple[int, int] | None = key("pair", "the element of the tensor at (0, 0) of the layout", default="[0, 0]")
    stage: int | None = key("int", "the stage of the buffer, from 0 on", default="0")

    @property
    def buffer(self) -> str:
        return self.to if self.to is not None else self.source or ""

    @property
    def reads(self) -> bool:
        """Do threads read the buffer?"""
        return self.load if self.load is not None else self.to is None


@dataclasses.dataclass(frozen=True, kw_only=True)
class MmaStep(Step):
    """`op = "mma"`: one `wgmma` or `tcgen05.mma`, or several: one for each K step and each block of rows."""

    kind: str | None = key(
        "text", "wgmma, or a kind of tcgen05.mma: f16 tf32 f8f6f4 i8 mxf8f6f4 mxf4 mxf4nvf4", default="required without `instruction`"
    )
    instruction: str | None = key("text", "instead of `kind`: the PTX name of the instruction", default="required without `kind`")
    m: int = key("int", "M of one instruction. For a pair: of both CTAs together", required=True)
    n: int = key("int", "N of one instruction", required=True)
    k: int = key("int", "K of one instruction, in elements", required=True)
    idesc: int | None = key("int", "the instruction descriptor of tcgen05.mma (32 bits)", default="not checked")
    transpose: object | None = key("any", "accepted for old files. It has no effect: `major` of A and B counts")
    cta_group: int | None = key("int", "the number of CTAs that execute the instruction: 1 or 2", default="that of the file")
    sparse: bool | None = key("bool", "true: the instruction is sparse (.sp)", default="false")
    ws: bool | None = key("bool", "true: the instruction has .ws", default="false")
    scale_vec: str | None = key("text", "the scale vector size of block-scaled kinds: 1X, 2X or 4X")
    a: Operand | None = key("table", "operand A (see An operand)", default="not checked")
    b: Operand | None = key("table", "operand B (see An operand)", default="not checked")
    scale_a: AnyOperand | None = key("table", "the scale factors of A: an operand with `tmem`, `id` and `meant`", default="not checked")
    scale_b: AnyOperand | None = key("table", "the scale factors of B, in the same form", default="not checked")

    @property
    def operands(self) -> dict[str, Operand]:
        return {side: of for side, of in (("a", self.a), ("b", self.b)) if of is not None}

    @property
    def readers(self) -> Mapping[str, AnyOperand]:
        return {**self.operands, **{side: of for side, of in (("scale_a", self.scale_a), ("scale_b", self.scale_b)) if of is not None}}


@dataclasses.dataclass(frozen=True, kw_only=True)
class CopyStep(Step):
    """`op = "copy"`: `tcgen05.cp`, a copy from shared into tensor memory."""

    op: str = key("text", "the kind of the step", required=True)
    instruction: str | None = key("text", "instead of `shape` and `multicast`: the PTX name of the instruction")
    shape: str | None = key("text", "the shape: 128x256b, 4x256b, 128x128b, 64x128b, 32x128b", default="required without `instruction`")
    multicast: str | None = key("text", "the multicast: warpx4, warpx2::02_13, warpx2::01_23", default="none")
    to_tmem: Grid | None = key("grid", "the address in tensor memory. A list has one for each K step")
    m: int | None = key("int", "the number of rows", default="that of the shape")
    n: int | None = key("int", "accepted for old files. It has no effect")
    k: int | None = key("int", "elements of a row", default="that of the shape")
    rows: int | None = key("int", "another name of `m`")
    cta_group: int | None = key("int", "the number of CTAs that execute the instruction: 1 or 2", default="that of the file")
    a: Operand = key("table", "the rows that are copied (see An operand)", required=True)

    @property
    def operands(self) -> dict[str, Operand]:
        return {"a": self.a}


STEPS: dict[str, type[Step]] = {
    "tma_load": TmaLoad, "tma_store": TmaStore, "tma_reduce": TmaReduce, "bulk": BulkStep, "threads": ThreadsStep, "mma": MmaStep, "copy": CopyStep,
}  # fmt: skip
OPERANDS: dict[str, type[AnyOperand]] = {"a": Operand, "b": Operand, "scale_a": AnyOperand, "scale_b": AnyOperand}


def listed(value: Ints) -> tuple[int, ...]:
    """A key's numbers where one stands for a list of one."""
    return value if isinstance(value, tuple) else (value,)


# ---- The whole


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScenarioTables:
    """The tables of a scenario file: the changes of shared memory, and the intended tiles."""

    arch: str = key("text", "the architecture: sm_90a, sm_100a or sm_103a", required=True)
    title: str | None = key("text", "a title")
    from_where: str | None = key("text", "where the scenario comes from, for example a link", name="source")
    cta_group: int | None = key(
        "int", "the CTAs that execute each tcgen05 step: 1 or 2", default="not known: `rows` of each operand says how many rows a CTA reads"
    )
    excerpt: bool | None = key(
        "bool",
        "true: the file is a part of a kernel. Then check does not report bytes that no step writes, or no step reads",
        default="false",
    )
    tensors: Mapping[str, Tensor] = key("table", "tensors in global memory, by name", name="tensor")
    buffers: Mapping[str, Buffer] = key("table", "shared buffers, by name", name="buffer")
    maps: Mapping[str, MapArguments] = key("table", "tensor maps, by name", name="map")
    steps: tuple[Step, ...] = key("any", "the steps: transfers and instructions, in order", name="step")
    expect: Expect | None = key("table", "the findings that a test expects")
    source: Source = dataclasses.field(default=Source("scenario"), compare=False, repr=False)

    def as_dict(self) -> dict[str, object]:
        """The scenario as a file has it, keys in the order of the format."""
        found: dict[str, object] = {name: value for name, value in plain(self).items() if value or name in ("arch", "excerpt")}
        return found

    def value_at(self, path: Path) -> Value:
        """The value that a file has at a path; None where nothing stands there."""
        there: object = self
        for part in path.keys:
            if isinstance(there, tuple) and isinstance(part, int):
                there = there[part] if part < len(there) else None
            elif isinstance(there, Mapping):
                there = there.get(part)
            elif dataclasses.is_dataclass(there) and not isinstance(there, type):
                of = keys_of(type(there)).get(str(part))
                there = None if of is None else getattr(there, of.attribute)
            else:
                return None
        value: Value = plain(there)
        return value

    def with_change(self, path: Path, value: object) -> ScenarioTables:
        """The scenario with another value at a path, as a file would have it; what is not changed is shared. Raises
        TableError for what cannot stand there.

        >>> scenario = read_scenario({"arch": "sm_90a", "buffer": {"s": {"address": 1024}}})
        >>> scenario.with_change(Path.of("buffer", "s", "address"), "0x800").buffers["s"].address
        2048
        """
        taken = plain_tables(value, path.key)
        return with_value(self, path, read_table(Layout, taken, path) if isinstance(taken, dict) and path.key == "layout" else taken)

    def operands(self) -> Iterator[tuple[Path, Operand]]:
        """Every operand A and B of the steps, and where it stands."""
        for number, step in enumerate(self.steps):
            yield from ((Path.of("step", number, side), operand) for side, operand in step.operands.items())


TABLES: dict[str, type] = {
    "scenario": ScenarioTables, "tensor": Tensor, "buffer": Buffer, "layout": Layout, "map": MapArguments, "meant": Meant, "expect": Expect,
}  # fmt: skip


def json_schema() -> dict[str, object]:
    """The JSON schema of scenario files."""
    tables = {name: schema_of(keys_of(table)) for name, table in (TABLES | STEPS | OPERANDS).items() if name != "scenario"}
    inner = {"meant": tables["meant"]}
    sides = {side: schema_of(keys_of(table), inner) for side, table in OPERANDS.items()}
    layout = {"anyOf": [{"type": "string"}, tables["layout"]]}
    steps = []
    for op, table in STEPS.items():
        keys = keys_of(table)
        steps.append(schema_of(keys, {"op": {"const": op}} | {side: of for side, of in sides.items() if side in keys}))
    by_name = {"tensor": tables["tensor"], "buffer": schema_of(keys_of(Buffer), {"layout": layout}), "map": tables["map"]}
    whole = schema_of(
        keys_of(ScenarioTables),
        {name: {"type": "object", "additionalProperties": of} for name, of in by_name.items()}
        | {"step": {"type": "array", "items": {"anyOf": steps}}, "expect": tables["expect"]},
    )
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "smemsim scenario", **whole}


# ---- Reading a scenario: from a TOML or JSON file, or the same structure as a dict; what does not fit is a sentence
# with the line and the key


A_SCENARIO = (
    "a scenario has arch, [tensor.NAME], [buffer.NAME], [map.NAME] and [[step]]; "
    "`smemsim plan 128x64 --arch sm_90a --dtype bf16 --scenario` writes one to begin with"
)
MOST_BYTES = 1 << 24  # a larger file is no scenario


def read_scenario(given: object) -> ScenarioTables:
    """The scenario of a file's path, or of the same structure as a dict. Raises TableError
    with the line and the key.
    """
    if isinstance(given, Mapping):
        source = Source("scenario")
    elif isinstance(given, (str, pathlib.Path)):
        source = Source.of_file(pathlib.Path(given), MOST_BYTES, "a scenario")
    else:
        raise TableError(f"scenario = {shown(given)}: needs a path, or the same structure as a dict", located=True)
    try:
        tables = plain_tables(given if isinstance(given, Mapping) else _parsed(source))
        if tables == {}:
            raise TableError(f"{source.name}: holds nothing; {A_SCENARIO}", located=True)
        if isinstance(tables, dict) and {"args", "arrays", "grid", "block"} & set(tables) and not {"step", "tensor"} & set(tables):
            raise TableError(
                f"{source.name}: is a launch file, not a scenario: smemsim run kernel.ptx --launch {source.name}", located=True
            )
        return dataclasses.replace(scenario_of_tables(tables), source=source)
    except TableError as e:
        raise source.located(e) from None
    except RecursionError:
        raise TableError(f"{source.name}: nested too deeply", located=True) from None


def _parsed(source: Source) -> object:
    """The tables of a file. Raises TableError."""
    try:
        return source.parsed()
    except tomllib.TOMLDecodeError as e:
        if re.search(r"^\s*\.(?:version|target|visible|entry)\b", source.text, re.MULTILINE):
            raise TableError(
                f"{source.name}: is PTX, not a scenario: smemsim run {source.name} --launch launch.toml", located=True
            ) from None
        raise TableError(f"{source.name}: {e}", located=True) from None
    except json.JSONDecodeError as e:
        raise TableError(f"{source.name}:{e.lineno}: {e.msg} (column {e.colno})", located=True) from None
    except InputError as e:
        raise TableError(f"{source.name}: {e}", located=True) from None


TEXTS = ("title", "source", "raw", "layout")  # what stays a text though it looks like a number
_HEX_TEXT = re.compile(r"0[xX](?:_?[0-9a-fA-F]){1,20}")


def plain_tables(value: object, key: str = "") -> object:
    """Somebody's structure as tables, lists, numbers and texts: words and addresses as JSON cannot write them,
    "0x4000...", as numbers, arrays as lists.
    """
    if isinstance(value, str):
        text = str.__str__(value)
        return int(text, 16) if key not in TEXTS and text.startswith(("0x", "0X")) and _HEX_TEXT.fullmatch(text) else text
    if value is None or isinstance(value, (bool, float, datetime.date, datetime.time)):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, Mapping):
        return {_name_of(name): plain_tables(inner, _name_of(name)) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_tables(inner, key) for inner in value]
    if hasattr(value, "tolist"):  # numpy's
        return plain_tables(value.tolist(), key)
    if isinstance(value, (pathlib.Path, bytes)):
        return value.hex() if isinstance(value, bytes) else str(value)
    raise TableError(f"{shown(value)} in a scenario: needs numbers, texts, lists and tables", located=True)


def _name_of(name: object) -> str:
    if isinstance(name, str):
        return name
    raise TableError(f"{shown(name)} in a scenario: needs texts as keys", located=True)


def scenario_of_tables(raw: object) -> ScenarioTables:
    """The scenario of a file's tables, lists, numbers and texts. Raises TableError."""
    if not isinstance(raw, dict):
        raise TableError(f"a {type(raw).__name__}, not a table; {A_SCENARIO}")
    check_table(raw, keys_of(ScenarioTables), Path())
    expect = read_table(Expect, raw["expect"], Path.of("expect")) if "expect" in raw else None
    tables = {kind: raw.get(kind) or {} for kind in ("tensor", "buffer", "map")}
    for kind, named in tables.items():
        for name, table in named.items():
            check_table(table, keys_of(TABLES[kind]), Path.of(kind, name))
    buffers = {name: _buffer(table, Path.of("buffer", name)) for name, table in tables["buffer"].items()}
    maps = {name: _map(table, tables["tensor"], Path.of("map", name)) for name, table in tables["map"].items()}
    tensors = {name: _tensor(name, table) for name, table in tables["tensor"].items()}
    named = ScenarioTables(arch=raw["arch"], tensors=tensors, buffers=buffers, maps=maps, steps=())
    steps = raw.get("step", [])
    if not isinstance(steps, list):
        raise mistake(Path.of("step"), "needs a list of steps: write [[step]], in two brackets, before each")
    read = tuple(_step(named, step, Path.of("step", number)) for number, step in enumerate(steps))
    for code in expect.findings if expect else ():
        if not re.fullmatch(r"[A-Z]\d{3}", code):
            raise mistake(Path.of("expect", "findings"), f"{shown(code)}: needs codes as 'R503'")
    rest = {name: raw[name] for name in ("title", "source", "cta_group", "excerpt") if name in raw}
    return made(ScenarioTables, {"arch": raw["arch"], **rest}, tensors=tensors, buffers=buffers, maps=maps, steps=read, expect=expect)


def _buffer(table: dict[str, object], path: Path) -> Buffer:
    layout = table.get("layout")
    if "layout" not in table or isinstance(layout, str):
        return made(Buffer, table)
    return made(Buffer, table, layout=read_table(Layout, layout, path / "layout"))


def _map(table: dict[str, object], tensors: Mapping[str, object], path: Path) -> MapArguments:
    is_im2col = "pixel_box_lower_corner" in table
    missing = [name for name in ("data_type", "global_dim", *(_OF_IM2COL if is_im2col else _OF_TILED)) if name not in table]
    if "raw" not in table and missing:
        raise mistake(
            path,
            f"{' and '.join(missing)} missing: needs the arguments of the encode call, or raw{as_in(missing[0], keys_of(MapArguments)[missing[0]])}",
        )
    for name in _OF_TILED if is_im2col else _OF_IM2COL:
        if "raw" not in table and name in table:
            other = (
                "a tiled map has: this one has pixel_box_lower_corner" if is_im2col else "an im2col map has, with pixel_box_lower_corner"
            )
            raise mistake(path / name, f"only {other}")
    address = table.get("global_address")
    if isinstance(address, str) and address not in tensors:
        raise mistake(path / "global_address", f"{shown(address)}: there is no [tensor.{name_told(address)}]")
    return made(MapArguments, table)


def _type(dtype: str, path: Path) -> None:
    try:
        element_format(dtype)
    except InputError as e:
        raise mistake(path / "dtype", str(e).removeprefix("dtype = ")) from None


def _names(names: Iterable[str]) -> str:
    """Names of people's own, as short as a sentence needs them."""
    text = ", ".join(names)
    return text if len(text) <= 120 else text[:119] + "…"


def _tensor(name: str, table: dict[str, object]) -> Tensor:
    path, tensor = Path.of("tensor", name), made(Tensor, table)
    _type(tensor.dtype, path)
    if set(tensor.extent) != set(tensor.stride):
        raise mistake(path / "stride", f"has {_names(tensor.stride)}, extent has {_names(tensor.extent)}: needs the same axes")
    for key_, counts, first, needs in (
        ("extent", tensor.extent, 1, "a whole number of elements from 1 on"),
        ("stride", tensor.stride, 0, "a whole number of bytes from 0 on"),
    ):
        for axis, value in counts.items():
            if not is_number(value) or value < first:
                raise mistake(path / key_, f"{axis} = {shown(plain(value))}: needs {needs}")
    for axis, modes in (tensor.walks or {}).items():
        if axis not in tensor.extent:
            raise mistake(path / "walks", f"{name_told(axis)}: needs axes of {name_told(name)} ({_names(tensor.extent)})")
        if not (modes and is_list_of(plain(modes), _is_walk)):
            raise mistake(path / "walks", f"{name_told(axis)} = {shown(plain(modes))}: needs [[indices, bytes from one to the next, the first inside, the end of these], ...]")  # fmt: skip
    if odd := _overlap(tensor):
        raise mistake(path / "stride", odd)
    return tensor


def _is_walk(mode: list[int]) -> bool:
    return is_list_of(mode, is_number, 4) and mode[0] > 0 <= mode[1] and 0 <= mode[2] <= mode[3]


def _overlap(tensor: Tensor) -> str:
    """The oddity of byte strides: elements that overlap along their closest axis look like a stride in elements."""
    bits = element_format(tensor.dtype).bits
    close = [axis for axis, stride in tensor.stride.items() if 0 < 8 * stride < bits and tensor.extent[axis] > 1]
    return f"{close[0]} = {tensor.stride[close[0]]}: strides are bytes, and {tensor.dtype} has {bits // 8}" if close else ""


def _step(scenario: ScenarioTables, table: object, path: Path) -> Step:
    op = table.get("op") if isinstance(table, dict) else table
    if not isinstance(table, dict) or not isinstance(op, str) or op not in STEPS:
        raise mistake(path / "op", f'{shown(op)}: needs one of {" ".join(STEPS)}{suggestion(op, STEPS)}; as in: op = "tma_load"')
    keys = keys_of(STEPS[op])
    check_table(table, keys, path)
    for key_, kind, known in (
        ("map", "map", scenario.maps),
        ("to", "buffer", scenario.buffers),
        ("from", "buffer", scenario.buffers),
        ("tensor", "tensor", scenario.tensors),
    ):
        if key_ in table:
            _known(table[key_], kind, known, path / key_)
    if op in ("bulk", "threads") and not {"to", "from"} & table.keys():
        raise mistake(path, "to is missing: needs the name of a buffer (from, where it is read)")
    if op == "threads" and "from" in table and ("to" in table or table.get("load") is False):
        raise mistake(path, "threads read the buffer of from: needs no to, and load = true or no load")
    operands = {side: _operand(scenario, OPERANDS[side], table[side], path / side) for side in OPERANDS if side in table}
    return made(STEPS[op], {name: value for name, value in table.items() if name not in operands}, **operands)


def _known(name: str, kind: str, known: Mapping[str, object], path: Path) -> None:
    """There is a map, buffer or tensor of that name."""
    if name not in known:
        raise mistake(path, f"{shown(name)}: there is no [{kind}.{name_told(name)}]{suggestion(name, known)}")


def _operand(scenario: ScenarioTables, kind: type[AnyOperand], table: object, path: Path) -> AnyOperand:
    check_table(table, keys_of(kind), path)
    assert isinstance(table, dict)
    if "major" in table and table["major"] not in ("K", "MN"):
        raise mistake(path / "major", f"{shown(table['major'])}: needs 'K' (K is contiguous) or 'MN'")
    if isinstance(table.get("start"), str):
        _known(table["start"], "buffer", scenario.buffers, path / "start")
    if "dtype" in table:
        _type(table["dtype"], path)
    if "meant" not in table:
        return made(kind, table)
    meant = read_table(Meant, table["meant"], path / "meant")
    _known(meant.tensor, "tensor", scenario.tensors, path / "meant" / "tensor")
    axes = scenario.tensors[meant.tensor].extent
    if any(axis not in axes for axis in meant.axes):
        raise mistake(
            path / "meant" / "axes",
            f"{shown(list(meant.axes))}: needs two axes of {meant.tensor} ({_names(axes)}): that of rows, that of K",
        )
    return made(kind, table, meant=meant)
