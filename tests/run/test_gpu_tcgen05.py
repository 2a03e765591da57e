"""tcgen05 instructions of kernels against the memories' own model: many products at once, and registers to and from
tensor memory.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from launches import Device, refused
from ptx_kernels import kernel, wait
from smemsim import (
    InputError,
    InstrDescriptor,
    SharedMemory,
    TensorMemory,
    TmemAccess,
    TmemAddress,
    Unmodelled,
    tcgen05_cp,
    tcgen05_mma,
    tcgen05_shift,
)
from smemsim.core.machine import Issue, Tcgen05Mma
from smemsim.core.machine.tcgen05 import execute, prepare
from smemsim.core.spec.tcgen05 import KINDS
from smemsim.core.spec.tensor_memory import COPY_SHAPES, LOAD_STORE_SHAPES, METADATA
from strategies import examples


def listed(first: int, count: int) -> str:
    return "{" + ", ".join(f"%r{first + n}" for n in range(count)) + "}"


# ---- one model: many instructions at once come to what each of them does alone


def filled(
    seed: int, ctas: int, *, owners: bool, room: np.ndarray | None = None, first: int = 0
) -> tuple[tuple[SharedMemory, ...], tuple[TensorMemory, ...]]:
    """Memories full of random bits, in a room of their own or from number `first` of one on; scale factors that repeat
    in every 32 lanes from column 448 on, legal metadata from 480 on.
    """
    rng, found = np.random.default_rng(seed), []
    scales = np.tile(rng.integers(110, 140, (32, 32, 4)).astype(np.uint8).view(np.uint32)[..., 0], (4, 1))
    for n in range(ctas):
        shared = SharedMemory("sm_100a")
        tensor = TensorMemory("sm_100a", owners=owners, room=room, at=0 if room is None else first + n)
        shared.write(shared.begin, rng.integers(0, 256, shared.end - shared.begin).astype(np.uint8))
        tensor.alloc(512, cta_group=ctas)
        cells = rng.integers(0, 1 << 32, (128, 512), np.uint64).astype(np.uint32)
        cells[:, 448:480] = scales
        cells[:, 480:512] = 0x44444444
        tensor.write_cells(np.arange(128)[:, None], np.arange(512), cells, "test")
        found.append((shared, tensor))
    return tuple(s for s, _ in found), tuple(t for _, t in found)


@st.composite
def instructions(draw):
    """(fields of the descriptor, what goes with the instruction, operands): most often an instruction that exists."""
    kind = draw(st.sampled_from(list(KINDS)))
    row = KINDS[kind]
    group, ws = draw(st.sampled_from([(1, False), (1, False), (2, False), (1, True)]))
    sparse = draw(st.booleans()) and kind in METADATA and kind != "mxf4"
    m = draw(st.sampled_from([32, 64, 128] if ws else [128, 256] if group == 2 else [64, 128]))
    fields = {"kind": kind, "m": m, "n": draw(st.sampled_from([32, 64, 128])), "sparsity": sparse}
    for side, types in (("a", row.a_types), ("b", row.b_types), ("d", row.d_types)):
        fields[f"{side}_type"] = draw(st.sampled_from(list(dict.fromkeys(types.values()))))
    if kind not in ("i8", "mxf4", "mxf4nvf4"):
        fields |= {"negate_a": draw(st.booleans()), "negate_b": draw(st.booleans())}
    words = [draw(st.integers(64, 4096)) | 0x4008 << 32 | draw(st.sampled_from([8, 16, 64])) << 16 for _ in range(2)]
    operands = {"a": TmemAddress(0, 384) if draw(st.booleans()) else words[0], "b": words[1], "enable_input_d": draw(st.booleans())}
    if row.block_scaled:
        operands |= {"scale_a": 448, "scale_b": 464}
    elif not ws and draw(st.booleans()):
        operands["disable_output_lane"] = tuple(draw(st.integers(0, (1 << 32) - 1)) for _ in range(4 * group))
    if sparse:
        operands["metadata"] = 480
    if row.scale_input_d and not ws:
        operands["scale_input_d"] = draw(st.integers(0, 15)) * draw(st.booleans())
    if ws and draw(st.booleans()):
        operands["zero_column_mask"] = draw(st.integers(0, 15)) << 32 | 1 << 39 | 0x0302 << 40 | draw(st.integers(0, 255))
    scale_vec = {"mxf8f6f4": "1X", "mxf4": "2X", "mxf4nvf4": draw(st.sampled_from(["2X", "4X"]))}.get(kind)
    return fields, {"ws": ws, "scale_vec": scale_vec}, group, operands, draw(st.integers(0, 1 << 32))


@examples(80)
@given(instructions())
def test_many_at_once_are_each_alone(drawn):
    """Bit for bit in tensor memory; where one is refused, the other is as well."""
    fields, form, group, operands, seed = drawn
    try:
        i = InstrDescriptor(**fields)
    except InputError:
        return
    places = (0, 128)
    alone = [filled(seed + d, group, owners=True) for d in places]
    room = np.zeros((2 * group, 128, 512), np.uint32)  # as the CTAs of a wave have one
    together = [filled(seed + d, group, owners=False, room=room, first=n * group) for n, d in enumerate(places)]
    before = [np.stack([t.cells.copy() for t in tensor]) for _, tensor in alone]
    words = operands | form | {"cta_group": group}

    def one(number: int):
        shared, tensor = alone[number]
        (shared, tensor) = (found if group == 2 else found[0] for found in (shared, tensor))
        given_ = {name: value for name, value in operands.items() if name not in ("a", "b")}
        return tcgen05_mma(
            tensor, places[number], operands["a"], operands["b"], i.word, kind=i.kind, shared=shared, cta_group=group, **form, **given_
        )  # fmt: skip

    try:
        results = [one(0), one(1)]
    except (InputError, Unmodelled) as problem:
        with pytest.raises(InputError if isinstance(problem, InputError) else Unmodelled):
            execute(
                [
                    Issue(prepare(Tcgen05Mma(i, "sm_100a", d, **words)), tensor, shared)
                    for (shared, tensor), d in zip(together, places, strict=True)
                ]
            )
        return
    prepared = [prepare(Tcgen05Mma(i, "sm_100a", d, **words)) for d in places]
    assert execute([Issue(mma, tensor, shared) for mma, (shared, tensor) in zip(prepared, together, strict=True)]) == [False, False]
    for (shared, mine), (_, theirs), old, what, result in zip(together, alone, before, prepared, results, strict=True):
        found = np.stack([t.cells for t in mine])
        np.testing.assert_array_equal(found, np.stack([t.cells for t in theirs]))
        assert (what.grade(shared), what.disputes) == (result.grade, result.disputes)
        written = np.zeros(found.shape, bool)
        for cta, lanes, first, end in what.writes:
            written[cta, lanes, first:end] = True
        assert not ((found != old) & ~written).any()
        assert {cta for cta, *_ in what.writes} <= set(range(group))


@pytest.mark.parametrize(
    ("kind", "a_type", "b_type", "group", "ws", "m", "n"),
    [
        ("f16", "bf16", "bf16", 1, False, 64, 64),
        ("f16", "f16", "f16", 1, False, 128, 128),
        ("f16", "bf16", "bf16", 2, False, 128, 64),
        ("tf32", "tf32", "tf32", 2, False, 256, 128),
        ("f16", "f16", "f16", 1, True, 32, 64),
        ("f8f6f4", "e4m3", "e5m2", 1, True, 64, 128),
    ],
)
def test_sums_in_one_room_are_each_alone(kind, a_type, b_type, group, ws, m, n):
    """Where the CTAs of a wave have their tensor memory, dense products of shared memory are added without leaving it:
    to D, or in its place.
    """
    i = InstrDescriptor(kind=kind, m=m, n=n, a_type=a_type, b_type=b_type, d_type="f32")
    room, words = np.zeros((3 * group, 128, 512), np.uint32), {"a": 0x4008 << 32 | 16 << 16 | 64, "b": 0x4008 << 32 | 8 << 16 | 1024}
    forms = [{"cta_group": group, "ws": ws, "enable_input_d": adds} for adds in (True, False, True)]
    issues = []
    for number, form in enumerate(forms):
        shared, tensor = filled(number, group, owners=False, room=room, first=number * group)
        issues.append(Issue(prepare(Tcgen05Mma(i, "sm_100a", 128 * (number > 1), **words, **form)), tensor, shared))
    assert execute(issues) == [False] * len(issues)
    for number, form in enumerate(forms):
        shared, tensor = (found if group == 2 else found[0] for found in filled(number, group, owners=True))
        tcgen05_mma(tensor, 128 * (number > 1), words["a"], words["b"], i.word, kind=kind, shared=shared, **form)
        expected = np.stack([memory.cells for memory in (tensor if group == 2 else (tensor,))])
        np.testing.assert_array_equal(room[number * group : (number + 1) * group], expected)


# ---- registers and tensor memory


FORMS = [
    (name, repeat, packed)
    for name, row in LOAD_STORE_SHAPES.items()
    for repeat in (1, 2, 16)
    if repeat <= row.most
    for packed in (False, True)
]


def access(name: str, repeat: int, packed: bool, column: int) -> TmemAccess:
    return TmemAccess(name, repeat, pack=packed, half_split_offset=64 if name == "16x32bx2" else None, taddr=column)


ALLOCATE = """
    mov.u32 %r0, %tid.x;
    shr.u32 %r198, %r0, 5;
    setp.ne.u32 %p0, %r198, 0;
    mov.u32 %r199, smem;
    @!%p0 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r199], 256;
    @!%p0 tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
    bar.sync 0;
    ld.shared.b32 %r197, [%r199];
    and.b32 %r196, %r198, 3;
    shl.b32 %r196, %r196, 21;
    add.u32 %r196, %r196, %r197;
"""
FREE = """
    bar.sync 0;
    @!%p0 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r197, 256;
"""
ADDRESS = """
    ld.param.b64 %rd0, [in];
    ld.param.b64 %rd1, [out];
    mul.wide.u32 %rd2, %r0, 4;
    add.u64 %rd0, %rd0, %rd2;
    add.u64 %rd1, %rd1, %rd2;
"""


@pytest.mark.parametrize("stored", FORMS, ids=lambda form: f"{form[0]}.x{form[1]}{'.16b' if form[2] else ''}")
def test_registers_go_to_the_cells_that_the_map_names(stored: tuple[str, int, bool]) -> None:
    """A store of one form and a load of another, of four warps, against TensorMemory.st and .ld; columns are filled
    first.
    """
    name, repeat, packed = stored
    other = FORMS[(FORMS.index(stored) * 7 + 5) % len(FORMS)]
    st_, ld_ = access(*stored, 0), access(*other, 0)
    split = (", 64" if name == "16x32bx2" else ""), (", 64" if other[0] == "16x32bx2" else "")
    rng = np.random.default_rng(repeat)
    values = rng.integers(0, 1 << 32, (st_.registers, 128), np.uint64).astype(np.uint32)
    ground = 0x01020304
    body = ALLOCATE + ADDRESS + f"    mov.u32 %r150, {ground};\n"
    body += "\n".join(
        f"    add.u32 %r151, %r196, {column}; tcgen05.st.sync.aligned.32x32b.x32.b32 [%r151], {{{', '.join(['%r150'] * 32)}}};" for column in range(0, 256, 32)
    )  # fmt: skip
    body += "\n    tcgen05.wait::st.sync.aligned;\n"
    body += "\n".join(f"    ld.global.b32 %r{1 + n}, [%rd0+{512 * n}];" for n in range(st_.registers))
    body += f"""
    tcgen05.st.sync.aligned.{name}.x{repeat}{".unpack::16b" if packed else ""}.b32 [%r196]{split[0]}, {listed(1, st_.registers)};
    tcgen05.wait::st.sync.aligned;
    bar.sync 0;
    tcgen05.ld.sync.aligned.{other[0]}.x{other[1]}{".pack::16b" if other[2] else ""}.b32 {listed(1, ld_.registers)}, [%r196]{split[1]};
    tcgen05.wait::ld.sync.aligned;
"""
    body += "\n".join(f"    st.global.b32 [%rd1+{512 * n}], %r{1 + n};" for n in range(ld_.registers)) + FREE
    gpu = Device("sm_100a")
    out = gpu.array(np.zeros((ld_.registers, 128), np.uint32))
    text = kernel(body, ".b64 in", ".b64 out", shared=64, arch="sm_100a")
    launch = gpu.launch(text, "k", block=128, args=(gpu.array(values), out))
    assert launch.result.findings == {}
    tensor = TensorMemory("sm_100a")
    tensor.alloc(256)
    tensor.write_cells(np.arange(128)[:, None], np.arange(256), np.full((128, 256), ground, np.uint32), "ground")
    tensor.st(st_, values.reshape(st_.registers, 4, 32).transpose(1, 2, 0))
    np.testing.assert_array_equal(out.numpy(), tensor.ld(ld_).transpose(2, 0, 1).reshape(ld_.registers, 128))


@pytest.mark.parametrize(("value", "is_known"), [("%r194", True), ("%r0", False)])
def test_both_halves_of_a_warp_may_store_the_same_value_to_a_cell(value: str, is_known: bool) -> None:
    body = (
        ALLOCATE
        + ADDRESS
        + f"""
    and.b32 %r194, %r0, 15;
    tcgen05.st.sync.aligned.16x32bx2.x1.b32 [%r196], 0, {{{value}}};
    tcgen05.wait::st.sync.aligned;
    tcgen05.ld.sync.aligned.16x32bx2.x1.b32 {{%r1}}, [%r196], 0;
    tcgen05.wait::ld.sync.aligned;
    st.global.b32 [%rd1], %r1;
"""
        + FREE
    )
    gpu = Device("sm_100a")
    out = gpu.array(np.zeros(128, np.uint32))
    text = kernel(body, ".b64 in", ".b64 out", shared=64, arch="sm_100a")
    if not is_known:
        with pytest.raises(Unmodelled, match="which thread's value stays"):
            gpu.launch(text, "k", block=128, args=(out, out))
        return
    assert gpu.launch(text, "k", block=128, args=(out, out)).result.findings == {}
    np.testing.assert_array_equal(out.numpy(), np.arange(128) % 16)


@pytest.mark.parametrize("operation", ["min", "max"])
@pytest.mark.parametrize("kind", ["f32", "f32.abs", "f32.NaN", "u32", "s32"])
def test_a_reduction_beside_the_load(operation: str, kind: str) -> None:
    """sm_103a: the smallest or largest of a thread's registers; NaN counts only with .NaN. Triton writes the result as
    a list of one.
    """
    dtype, _, more = kind.partition(".")
    rng = np.random.default_rng(3)
    values = rng.integers(0, 1 << 32, (8, 128), np.uint64).astype(np.uint32)
    if dtype == "f32":
        values = (rng.normal(size=(8, 128)) * 100).astype(np.float32)
        values[3, ::5] = np.nan
        values = values.view(np.uint32)
    words = f".{operation}{f'.{more}' if more else ''}.{dtype}"
    body = ALLOCATE + ADDRESS + "\n".join(f"    ld.global.b32 %r{1 + n}, [%rd0+{512 * n}];" for n in range(8))
    body += f"""
    tcgen05.st.sync.aligned.32x32b.x8.b32 [%r196], {listed(1, 8)};
    tcgen05.wait::st.sync.aligned;
    tcgen05.ld.red.sync.aligned.32x32b.x8{words} {listed(11, 8)}, {listed(30, 1) if more == "NaN" else "%r30"}, [%r196];
    tcgen05.wait::ld.sync.aligned;
    st.global.b32 [%rd1], %r30;
    st.global.b32 [%rd1+512], %r15;
""" + FREE  # fmt: skip
    gpu = Device("sm_103a")
    out = gpu.array(np.zeros((2, 128), np.uint32))
    launch = gpu.launch(kernel(body, ".b64 in", ".b64 out", shared=64, arch="sm_103a"), "k", block=128, args=(gpu.array(values), out))
    assert launch.result.findings == {}
    numbers_ = values.view({"f32": np.float32, "u32": np.uint32, "s32": np.int32}[dtype])
    numbers_ = np.abs(numbers_) if more == "abs" else numbers_
    by = {"min": (np.min, np.nanmin), "max": (np.max, np.nanmax)}[operation][dtype == "f32" and more != "NaN"]
    found = out.numpy()
    np.testing.assert_array_equal(found[0].view(numbers_.dtype), by(numbers_, axis=0))
    np.testing.assert_array_equal(found[1], values[4])


def test_sm_100a_has_no_reduction() -> None:
    body = "tcgen05.ld.red.sync.aligned.32x32b.x2.min.f32 {%r1, %r2}, %r3, [%r0];"
    with pytest.raises(InputError, match=r"line 13: tcgen05\.ld\.red.*needs sm_103f or sm_103a"):
        Device("sm_100a").launch(kernel(body, arch="sm_100a"), "k", block=32)


def test_a_collector_buffer_needs_a_use() -> None:
    line = "tcgen05.mma.cta_group::1.kind::f16.collector::a{} [%r0], %d0, %d1, %r1, %p0;"
    assert refused([line.format("::fill")]) == {}
    assert "collector::a" in refused([line.format("")])[0]


# ---- from shared memory


COPIES = [(name, multicast, "") for name, multicast in COPY_SHAPES] + [("128x128b", "", "b4x16_p64"), ("32x128b", "warpx4", "b6x16_p32")]
WORD = 0x0000400800080080  # no swizzle, LBO 128 B, SBO 128 B, from 0x800 on


@pytest.mark.parametrize("form", [*COPIES, None], ids=lambda form: ".".join(filter(None, form)) if form else "shift")
def test_copies_and_shifts_go_where_the_machine_says(form: tuple[str, str, str] | None) -> None:
    """tcgen05.cp of every form, and tcgen05.shift of what one copied, read back by tcgen05.ld behind a commit."""
    name, multicast, source = form or ("128x256b", "", "")
    words = ".".join(filter(None, (name, multicast, f"b8x16.{source}" if source else "")))
    shift = "" if form else "@%p1 tcgen05.shift.cta_group::1.down [%r197];"
    body = ALLOCATE + ADDRESS + f"""
    mov.u32 %r150, 0x01020304; tcgen05.st.sync.aligned.32x32b.x8.b32 [%r196], {{{", ".join(["%r150"] * 8)}}}; tcgen05.wait::st.sync.aligned;
    setp.eq.u32 %p1, %r0, 0; add.u32 %r161, %r199, 8; shl.b32 %r151, %r0, 2; add.u32 %r152, %r199, %r151; mov.u32 %r153, 0;
    @%p1 mbarrier.init.shared::cta.b64 [%r161], 1;
FILL:
    ld.global.b32 %r154, [%rd0]; st.shared.b32 [%r152+1024], %r154; add.u32 %r152, %r152, 512; add.u64 %rd0, %rd0, 512;
    add.u32 %r153, %r153, 1; setp.lt.u32 %p3, %r153, 16;
    @%p3 bra FILL;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    mov.b64 %rd3, {WORD};
    @%p1 tcgen05.cp.cta_group::1.{words} [%r197], %rd3;
    {shift}
    @%p1 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r161];
{wait("%r161")}
    tcgen05.ld.sync.aligned.32x32b.x8.b32 {listed(1, 8)}, [%r196];
    tcgen05.wait::ld.sync.aligned;
""" + "\n".join(f"    st.global.b32 [%rd1+{512 * n}], %r{1 + n};" for n in range(8)) + FREE  # fmt: skip
    data = np.random.default_rng(2).integers(0, 256, 8192).astype(np.uint8)
    gpu = Device("sm_100a")
    out = gpu.array(np.zeros((8, 128), np.uint32))
    launch = gpu.launch(kernel(body, ".b64 in", ".b64 out", shared=9216, arch="sm_100a"), "k", block=128, args=(gpu.array(data), out))
    assert launch.result.findings == {}
    shared, tensor = SharedMemory("sm_100a"), TensorMemory("sm_100a")
    shared.write(0x800, data)
    tensor.alloc(256)
    tensor.write_cells(np.arange(128)[:, None], np.arange(8), np.full((128, 8), 0x01020304, np.uint32), "ground")
    tcgen05_cp(tensor, 0, WORD, shape=name, multicast=multicast, src_fmt=source, shared=shared)
    if form is None:
        tcgen05_shift(tensor, 0)
    np.testing.assert_array_equal(out.numpy(), tensor.cells[:, :8].T)


ALLOCATES = """.version 8.8
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 out) {
.reg .b32 %r<5>; .reg .b64 %d<2>; .shared .align 16 .b8 at[16];
mov.u32 %r1, at; add.u32 %r1, %r1, PLACE; tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 32; bar.warp.sync -1; ld.shared.u32 %r2, [%r1];
ld.param.u64 %d1, [out]; st.global.u32 [%d1], %r2; tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r2, 32; ret; }
"""


@pytest.mark.parametrize(("place", "told"), [(0, []), (4, []), (12, []), (1, ["X002"]), (2, ["X002"]), (6, ["X002"])])
def test_the_address_of_an_allocation_is_stored_in_any_word(place: int, told: list[str]) -> None:
    device = Device("sm_100a")
    out = device.array(np.full(1, 77, np.uint32))
    done = device.launch(ALLOCATES.replace("PLACE", str(place)), "k", block=32, args=(out,)).result
    assert [f.code for f in done.findings.values()] == told
    assert out.numpy().tolist() == ([77] if told else [0])
