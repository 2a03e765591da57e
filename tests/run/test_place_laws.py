"""Laws of places: where a thread is in its grid, and in which state space an address lies."""

import itertools

import numpy as np
import pytest

from smemsim import Gpu

HEAD = """.version 8.8
.target sm_90a
.address_size 64
.const .align 4 .b8 near[12]; .const .align 4 .b8 far[8];
.visible .entry k(.param .u64 p, .param .u64 q, .param .u32 n) {
.reg .pred %p<9>; .reg .b32 %r<40>; .reg .b64 %d<20>; .shared .align 16 .b8 sm[64]; .local .align 16 .b8 lm[16];
ld.param.u64 %d1, [p]; ld.param.u64 %d2, [q];
"""
NAMES = [
    f"{name}.{axis}"
    for name in ("ctaid", "nctaid", "clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid", "tid", "ntid")
    for axis in "xyz"
]
NAMES += [
    "cluster_ctarank",
    "cluster_nctarank",
    "laneid",
    "warpid",
    "is_explicit_cluster",
    "lanemask_lt",
    "lanemask_le",
    "lanemask_gt",
    "lanemask_ge",
    "lanemask_eq",
]


def launched(body: str, out: np.ndarray, given: np.ndarray, **how):
    gpu = Gpu("sm_90a")
    arrays = gpu.array(out), gpu.array(given)
    gpu.launch(f"{HEAD}{body}\nret;\n}}", "k", args=[*arrays, 0], progress=False, **how)
    return arrays[0].numpy()


@pytest.mark.parametrize(
    ("grid", "cluster", "block"),
    [
        ((3, 2, 2), (1, 1, 1), (5, 3, 3)), ((4, 3, 2), (2, 1, 1), (32, 1, 1)), ((2, 4, 2), (1, 2, 2), (4, 2, 5)), ((4, 4, 4), (2, 2, 2), (8, 1, 1)),
        ((2, 3, 8), (1, 1, 4), (1, 1, 3)), ((6, 2, 2), (3, 1, 2), (7, 1, 2)),
    ],
)  # fmt: skip
def test_places_of_threads_follow_from_their_numbers(grid, cluster, block):
    threads, ctas = int(np.prod(block)), int(np.prod(grid))
    flat = """mov.u32 %r1, %ctaid.z; mov.u32 %r2, %nctaid.y; mov.u32 %r3, %ctaid.y; mad.lo.u32 %r1, %r1, %r2, %r3; mov.u32 %r2, %nctaid.x;
    mov.u32 %r3, %ctaid.x; mad.lo.u32 %r1, %r1, %r2, %r3; mov.u32 %r4, %tid.z; mov.u32 %r2, %ntid.y; mov.u32 %r3, %tid.y; mad.lo.u32 %r4, %r4, %r2, %r3;
    mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mad.lo.u32 %r4, %r4, %r2, %r3;"""
    to = f"mad.lo.u32 %r1, %r1, {threads}, %r4; mul.wide.u32 %d3, %r1, {4 * (len(NAMES) + 1)}; add.u64 %d1, %d1, %d3;\n"
    moves = [
        f"mov.u32 %r2, %{name}; st.global.u32 [%d1+{4 * n}], %r2;" if name != "is_explicit_cluster"
        else f"mov.pred %p1, %{name}; selp.u32 %r2, 1, 0, %p1; st.global.u32 [%d1+{4 * n}], %r2;"
        for n, name in enumerate(NAMES)
    ]  # fmt: skip
    body = flat + to + "\n".join(moves) + f"\nst.global.u32 [%d1+{4 * len(NAMES)}], 1;"
    how = {"cluster": cluster} if cluster != (1, 1, 1) else {}
    out = launched(body, np.zeros((ctas * threads, len(NAMES) + 1), np.uint32), np.zeros(4, np.uint32), grid=grid, block=block, **how)
    assert (out[:, -1] == 1).all()  # each thread has a place of its own
    rows = {name: out[:, n].astype(np.int64) for n, name in enumerate(NAMES)}
    cta, thread = np.divmod(np.arange(ctas * threads), threads)
    lane = thread % 32
    rank, way = np.zeros(len(cta), np.int64), 1
    for axis, (name, ours) in enumerate(zip("xyz", (1, grid[0], grid[0] * grid[1]), strict=True)):
        at, step = cta // ours % grid[axis], (1, block[0], block[0] * block[1])[axis]
        wanted = {
            "ctaid": at, "nctaid": grid[axis], "clusterid": at // cluster[axis], "nclusterid": grid[axis] // cluster[axis],
            "cluster_ctaid": at % cluster[axis], "cluster_nctaid": cluster[axis], "tid": thread // step % block[axis], "ntid": block[axis],
        }  # fmt: skip
        for base, values in wanted.items():
            assert (rows[f"{base}.{name}"] == values).all(), f"{base}.{name}"
        rank, way = rank + way * (at % cluster[axis]), way * cluster[axis]
    others = {
        "cluster_ctarank": rank, "cluster_nctarank": way, "laneid": lane, "warpid": thread // 32, "is_explicit_cluster": int(way > 1),
        "lanemask_eq": 1 << lane, "lanemask_lt": (1 << lane) - 1, "lanemask_le": (2 << lane) - 1,
        "lanemask_gt": (1 << 32) - (2 << lane), "lanemask_ge": (1 << 32) - (1 << lane),
    }  # fmt: skip
    for name, values in others.items():
        assert (rows[name] == values).all(), name


SPACES = ["shared", "shared::cta", "shared::cluster", "local", "global", "const", "param"]
BASES = {
    "shared": "mov.u64 %d4, sm; cvta.shared.u64 %d4, %d4;", "local": "mov.u64 %d4, lm; cvta.local.u64 %d4, %d4;", "global": "mov.u64 %d4, %d1;",
    "near": "mov.u64 %d4, near; cvta.const.u64 %d4, %d4;", "far": "mov.u64 %d4, far; cvta.const.u64 %d4, %d4;",
    "param": "mov.u64 %d4, p; cvta.param.u64 %d4, %d4;",
}  # fmt: skip
OFFSETS = [0, 1, -1, 7, 8, 11, 12, 19, 20, 21, 1 << 24, 2 << 24, 3 << 24, 255 << 24, -(1 << 24), 1 << 32, -(1 << 32), 1 << 40]


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("base", BASES)
def test_an_address_lies_in_a_state_space_by_its_windows_and_variables(base, size):
    tests = "".join(f"isspacep.{space} %p1, %d5; selp.u32 %r5, {1 << n}, 0, %p1; or.b32 %r4, %r4, %r5;\n" for n, space in enumerate(SPACES))
    bases = "".join(f"{BASES[name]} st.global.u64 [%d7+{8 * n}], %d4;\n" for n, name in enumerate(BASES))
    body = (
        BASES[base]
        + f"""mov.u32 %r1, %tid.x; mov.u32 %r6, %ctaid.x; mul.wide.u32 %d3, %r1, 8; add.u64 %d2, %d2, %d3; ld.global.u64 %d5, [%d2]; add.u64 %d5, %d5, %d4;
    mov.u32 %r4, 0; {tests} mad.lo.u32 %r7, %r6, {len(OFFSETS)}, %r1; mul.wide.u32 %d3, %r7, 16; add.u64 %d8, %d1, %d3;
    cvt.u64.u32 %d6, %r4; st.global.v2.u64 [%d8], {{%d5, %d6}}; setp.ne.u32 %p2, %r1, 0; @%p2 ret;
    mad.lo.u32 %r7, %r6, {8 * len(BASES)}, {32 * len(OFFSETS)}; cvt.u64.u32 %d3, %r7; add.u64 %d7, %d1, %d3; {bases}"""
    )
    how = {"cluster": size} if size > 1 else {}
    given, out = np.array(OFFSETS, np.int64).view(np.uint64), np.zeros(4 * len(OFFSETS) + 2 * len(BASES), np.uint64)
    all_ = launched(body, out, given, grid=2, block=len(OFFSETS), **how)
    found = all_[: 4 * len(OFFSETS)].reshape(2, len(OFFSETS), 2)
    begins = dict(zip(BASES, all_[4 * len(OFFSETS) :].reshape(2, -1).T.tolist(), strict=True))
    windows = {name: begins[name][0] >> 32 for name in ("shared", "local")}
    assert len({*windows.values(), begins["global"][0] >> 32}) == 3
    for cta, n in itertools.product(range(2), range(len(OFFSETS))):
        at, bits = (int(one) for one in found[cta, n])
        named = {space for k, space in enumerate(SPACES) if bits >> k & 1}
        rank = (at & 0xFFFFFFFF) >> 24
        is_shared, is_local = at >> 32 == windows["shared"], at >> 32 == windows["local"]
        is_const = any(begins[name][cta] <= at < begins[name][cta] + room for name, room in (("near", 12), ("far", 8)))
        wanted = {
            "local": is_local, "shared": is_shared and rank == (cta if size > 1 else 0), "shared::cluster": is_shared and rank < size, "const": is_const,
            "global": not (is_shared or is_local or is_const), "param": begins["param"][cta] <= at < begins["param"][cta] + 20,
        }  # fmt: skip
        wanted["shared::cta"] = wanted["shared"]
        assert named == {space for space, is_so in wanted.items() if is_so}, (OFFSETS[n], cta, hex(at))
