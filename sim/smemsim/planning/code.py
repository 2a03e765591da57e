"""A plan as source text: C++ constants with the encode call, CuTe, Gluon. If a library has no name for the layout, a
comment in the text has the reason.
"""

from __future__ import annotations

from smemsim.base.arguments import choice
from smemsim.core.spec.shared_memory import CHUNK
from smemsim.core.spec.smem_descriptor import REACH, START
from smemsim.core.spec.swizzles import Swizzle
from smemsim.core.spec.tensor_map import LIMITS
from smemsim.planning.planned import Planned
from smemsim.planning.transfers import Loads

__all__ = ["LANGUAGES", "code_of", "encode_arguments"]


LANGUAGES = ("cpp", "cute", "triton")

# CUTLASS include/cute/arch/mma_sm90_gmma.hpp and mma_sm100_umma.hpp name the atoms so; padded types are allocated as
# bytes.
_ATOMS = {Swizzle.NONE: "INTER", Swizzle.B32: "SW32", Swizzle.B64: "SW64", Swizzle.B128: "SW128", Swizzle.B128_ATOM_32B: "SW128_32B"}
_TYPES = {
    "f16": "cutlass::half_t", "bf16": "cutlass::bfloat16_t", "tf32": "cutlass::tfloat32_t", "e4m3": "cutlass::float_e4m3_t",
    "e5m2": "cutlass::float_e5m2_t", "s8": "int8_t", "u8": "uint8_t", "e2m1": "cutlass::float_e2m1_t",
}  # fmt: skip
_GLUON_WIDTHS = {Swizzle.NONE: 0, Swizzle.B32: 32, Swizzle.B64: 64, Swizzle.B128: 128}


def code_of(plan: Planned, language: str) -> str:
    """The source text of a plan in one of `LANGUAGES`."""
    name = choice("code", language, LANGUAGES, "one of cpp, cute, triton")
    return {"cpp": _cpp, "cute": _cute, "triton": _triton}[name](plan)


def encode_arguments(loads: Loads) -> list[tuple[str, str]]:
    """(parameter, value) of cuTensorMapEncodeTiled after the map, in driver order, in C++ syntax."""
    given = loads.arguments()
    l2, fill = given["l2_promotion"], given["oob_fill"]
    return [
        ("tensorDataType", f"CU_TENSOR_MAP_DATA_TYPE_{given['data_type']}"),
        ("tensorRank", str(loads.rank)),
        ("globalAddress", "the matrix"),
        *((name, _braced(given[key])) for name, key in (("globalDim", "global_dim"), ("globalStrides", "global_strides"),
                                                        ("boxDim", "box_dim"), ("elementStrides", "element_strides"))),
        ("interleave", f"CU_TENSOR_MAP_{given['interleave']}"),
        ("swizzle", f"CU_TENSOR_MAP_{given['swizzle']}"),
        ("l2Promotion", f"CU_TENSOR_MAP_L2_PROMOTION_{l2}"),
        ("oobFill", f"CU_TENSOR_MAP_FLOAT_OOB_FILL_{fill}"),
    ]  # fmt: skip


def _braced(values: list[int]) -> str:
    return "{" + ", ".join(map(str, values)) + "}"


def _cpp(plan: Planned) -> str:
    tile, wish = plan.arrangement, plan.wish
    name, axis = wish.side.upper(), wish.axis.upper()
    word = tile.descriptor().advance(-wish.base_address).encode()
    lines = [
        f"// {plan.title}",
        "#include <cstdint>",
        "#include <cuda.h>",
        "",
        f"constexpr uint64_t {name}_{axis} = {plan.matrix.rows}, {name}_K = {plan.matrix.k};  // the matrix: put yours here",
        f"constexpr uint64_t {name}_PITCH = {plan.matrix.pitch};  // bytes from line to line",
        f"constexpr uint32_t {name}_STAGE_BYTES = {plan.tile_bytes}, {name}_STAGES = {wish.stages};",
        f"constexpr uint32_t {name}_TX_BYTES = {plan.loop.bytes};  // what the mbarrier of a stage expects",
        f"constexpr uint32_t {name}_LBO = {plan.lbo.bytes}, {name}_SBO = {plan.sbo.bytes};  // bytes; LBO: {plan.lbo.walks}",
        f"constexpr uint64_t {name}_DESC = {word:#018x}ull;  // start address 0",
    ]
    if plan.instruction_descriptor is not None:
        idesc = plan.instruction_descriptor
        lines.append(f"constexpr uint32_t IDESC = {idesc.encode():#010x};  // kind::{idesc.kind}, M {idesc.m}, N {idesc.n}")
    lines += ["", f"__device__ inline uint64_t {wish.side}_descriptor(uint32_t stage_address, int block, int step) {{"]
    lines += _array("k_advance", plan.advances[0].tolist(), "of K step i, in units of 16 B")
    lines += _array("mn_advance", plan.advances[:, 0].tolist(), f"of block i of {tile.instruction.rows} rows")
    lines += [
        f"    uint64_t start = (stage_address & {REACH - 1:#x}) >> {START.shift};",
        f"    return {name}_DESC + start + mn_advance[block] + k_advance[step];",
        "}",
        "",
        *_load(plan),
        "",
        *_encode(plan, plan.loop, f"encode_{wish.side}", "boxes of rank 2"),
    ]
    if plan.box is not None and plan.box is not plan.loop:
        at = f"for the tile at ({wish.at[0]}, {wish.at[1]}) issue it at {_braced(list(plan.box.issues[0][1]))}"
        lines += ["", *_encode(plan, plan.box, f"encode_{wish.side}_box", f"one box of rank {plan.box.rank}; {at}")]
    return "\n".join(lines)


def _array(name: str, offsets: list[int], what: str) -> list[str]:
    values = [str(x // CHUNK) for x in offsets]
    rows = ["        " + ", ".join(values[i : i + 12]) + "," for i in range(0, len(values), 12)]
    return [f"    constexpr uint32_t {name}[{len(values)}] = {{  // {what}", *rows, "    };"]


def _encode(plan: Planned, loads: Loads, function: str, what: str) -> list[str]:
    """The call; extents of the matrix stay symbols."""
    tile, matrix, wish, given = plan.arrangement, plan.matrix, plan.wish, dict(encode_arguments(loads))
    name, axis = wish.side.upper(), wish.axis.upper()
    across, down = (f"{name}_K", f"{name}_{axis}") if wish.major == "K" else (f"{name}_{axis}", f"{name}_K")
    tm, pitch, prefix = loads.tensor_map, f"{name}_PITCH", function.removeprefix("encode_")
    height, panel = tm.box_dim[1], tile.inner * wish.fmt.bits // 8
    panels = loads.rank > 2 and tile.grid[1] > 1
    grouped = any(s == height * matrix.pitch for s in tm.global_strides[1:])
    dims, strides = [str(tile.inner) if panels else across, str(height) if grouped else down], [pitch]
    for stride in tm.global_strides[1:]:
        is_panel = panels and stride == panel
        strides.append(str(panel) if is_panel else f"{height} * {pitch}")
        dims.append(f"{across} / {tile.inner}" if is_panel else f"{down} / {height}")
    return [
        f"inline CUresult {function}(CUtensorMap* tensor_map, void* global_address) {{  // {what}",
        f"    const cuuint64_t {prefix}_global_dim[{loads.rank}] = {{{', '.join(dims)}}};",
        f"    const cuuint64_t {prefix}_global_strides[{loads.rank - 1}] = {{{', '.join(strides)}}};",
        f"    const cuuint32_t {prefix}_box_dim[{loads.rank}] = {given['boxDim']};",
        f"    const cuuint32_t {prefix}_element_strides[{loads.rank}] = {given['elementStrides']};",
        f"    return cuTensorMapEncodeTiled(tensor_map, {given['tensorDataType']}, {loads.rank}, global_address,",
        f"        {prefix}_global_dim, {prefix}_global_strides, {prefix}_box_dim, {prefix}_element_strides,",
        f"        {given['interleave']}, {given['swizzle']},",
        f"        {given['l2Promotion']}, {given['oobFill']});",
        "}",
    ]


def _load(plan: Planned) -> list[str]:
    """The loop over the boxes; `load_2d(shared address, x, y)` issues one cp.async.bulk.tensor.2d."""
    tile, wish = plan.arrangement, plan.wish
    inner, height = plan.loop.tensor_map.box_dim
    shared, first, second = "stage_address", *(("k0", f"{wish.axis}0") if wish.major == "K" else (f"{wish.axis}0", "k0"))
    text, indent, pieces = [], "    ", tile.lines // height
    if tile.grid[1] > 1:
        text.append(f"{indent}for (uint32_t panel = 0; panel < {tile.grid[1]}; ++panel)")
        shared, first, indent = f"{shared} + panel * {tile.contiguous_bytes}", f"{first} + int(panel) * {inner}", indent + "    "
    if pieces > 1:
        piece = height * wish.mode.width if tile.panels else tile.strided_bytes
        text.append(f"{indent}for (uint32_t piece = 0; piece < {pieces}; ++piece)")
        shared, second, indent = f"{shared} + piece * {piece}", f"{second} + int(piece) * {height}", indent + "    "
    count = len(plan.loop.issues)
    return [
        "template <class Load>",
        f"__device__ void load_{wish.side}(uint32_t stage_address, int {wish.axis}0, int k0, Load load_2d) {{"
        f"  // {count} box{'es' * (count > 1)} of {{{inner}, {height}}}",
        *text,
        f"{indent}load_2d({shared}, {first}, {second});",
        "}",
    ]


def _cute(plan: Planned) -> str:
    tile, wish = plan.arrangement, plan.wish
    space = "GMMA" if wish.machine.instruction == "wgmma" else "UMMA"
    kind = "uint8_t" if tile.padded else _TYPES[wish.fmt.name]
    atom = f"cute::{space}::Layout_{wish.major}_{_ATOMS[wish.swizzle]}_Atom<{kind}>"
    staged = wish.stages > 1
    extents = [wish.rows, wish.k, *([wish.stages] if staged else [])]
    order = [f"cute::_{x + 1}" for x in (*tile.order, *([2] if staged else []))]
    note = ["// padded 4- and 6-bit elements take a byte each in shared memory: CUTLASS allocates them as uint8_t"] if tile.padded else []
    if wish.swizzle is Swizzle.B128_ATOM_32B and wish.stack != "strided" and 1 not in tile.grid:
        note.append("// CuTe DSL's atom of this name has 8 lines of K, this one has 4: stacked this way the tile is another one there")
    return "\n".join([
        f"// {plan.title}",
        *note,
        f"using SmemAtom = {atom};",
        "using SmemLayout = decltype(cute::tile_to_shape(",
        "    SmemAtom{},",
        f"    cute::Shape<{', '.join(f'cute::Int<{x}>' for x in extents)}>{{}},",
        f"    cute::Step<{', '.join(order)}>{{}}));",
        f"// {plan.cute.tile}{' a stage' if staged else ''}",
    ])  # fmt: skip


def _triton(plan: Planned) -> str:
    """Gluon's layout where Triton 3.9.0's own linear layout of it (`to_linear_layout`) is that of the plan."""
    tile, wish = plan.arrangement, plan.wish
    why = ""
    if wish.swizzle not in _GLUON_WIDTHS:
        why = f"it has no swizzle {wish.swizzle}"
    elif wish.fmt.bits == 6:
        why = "it has no 6-bit types"
    elif not wish.mode.mask and tile.grid[1] > 1:
        why = "swizzle_byte_width=0 is plain rows, not 16-byte columns of 8 lines"
    elif wish.stack != "strided" and 1 not in tile.grid:
        why = f"it stacks atoms along the strided axis first; plan with stack='strided' ({'MN' if wish.major == 'K' else 'K'} first)"
    elif wish.major == "MN" and tile.lines > LIMITS.max_box and tile.grid[1] > 1:
        why = f"it stacks transposed atoms in blocks of at most {LIMITS.max_box} lines, this tile has {tile.lines} in a panel"
    elif any(extent & (extent - 1) for extent in (wish.rows, wish.k)):
        why = "its tiles have powers of two as extents"
    if why:
        return f"# {plan.title}\n# no NVMMASharedLayout is this layout: {why}"
    extents = (wish.rows, wish.k) if wish.fmt.bits >= 8 else (wish.rows, wish.k // 2) if wish.major == "K" else (wish.rows // 2, wish.k)
    given = f"swizzle_byte_width={_GLUON_WIDTHS[wish.swizzle]}, element_bitwidth={max(8, wish.fmt.bits)}, rank=2, transposed={wish.major == 'MN'}"
    dtype = {"f16": "float16", "bf16": "bfloat16", "tf32": "float32", "e4m3": "float8e4nv", "e5m2": "float8e5", "s8": "int8"}.get(
        wish.fmt.name, "uint8"
    )
    of = "bytes of two elements" if wish.fmt.bits == 4 else "elements"
    shape = [*([wish.stages] if wish.stages > 1 else []), *extents]
    return "\n".join([
        f"# {plan.title}",
        f"layout: gl.constexpr = gl.NVMMASharedLayout({given}{', fp4_padded=True' if tile.padded else ''})",
        f"tile = gl.allocate_shared_memory(gl.{dtype}, {shape}, layout)  # {wish.axis.upper()} x K {of}",
    ])  # fmt: skip
