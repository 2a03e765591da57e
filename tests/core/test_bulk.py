"""Bulk copies, reductions into memory, clusters and multicast: laws, what is refused, and replays that can fail."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smemsim import (
    ClusterAddress,
    HardwareTrap,
    InputError,
    TensorMap,
    Unmodelled,
    bulk_bytes,
    bulk_copy,
    bulk_prefetch,
    bulk_reduce,
    mapa,
    multicast,
    tma_load,
)
from smemsim.core.machine import bulk_reduce_bytes
from smemsim.core.spec.bulk import BULK_LIMITS, BULK_TRAPS
from smemsim.core.spec.evidence import RULES
from smemsim.core.spec.grades import Grade
from smemsim.evidence import load_suite, replay_suite, write_suite
from strategies import examples

BEGIN, END = 0x400, 0x39000
LOAD = {"dst_space": "shared::cluster", "src_space": "global", "mbar": 0x400}
STORE = {"dst_space": "global", "src_space": "shared::cta"}
PEER = {"dst_space": "shared::cluster", "src_space": "shared::cta", "mbar": ClusterAddress(1, 0x400)}
sixteens = st.integers(0, (END - BEGIN) // 16 - 1)


# ---- copies ------------------------------------------------------------------------------------------------------------------------


@examples(100)
@given(sixteens, st.integers(0, 1 << 50), st.integers(1, 4096), st.booleans())
def test_a_copy_moves_every_byte_once_to_the_place_it_had(shared, elsewhere, chunks, store):
    address, far, size = BEGIN + 16 * shared, 16 * elsewhere, 16 * chunks
    if address + size > END:
        with pytest.raises(HardwareTrap) as trap:
            bulk_copy(*((far, address) if store else (address, far)), size, **(STORE if store else LOAD))
        assert trap.value.cuda_error == 700
        return
    t = bulk_copy(*((far, address) if store else (address, far)), size, **(STORE if store else LOAD))
    assert len(t.shared_address) == len(t.global_address) == t.transaction_bytes == size
    assert t.shared_address[0] == address
    assert t.global_address[0] == far
    assert (np.diff(t.shared_address.astype(np.int64)) == 1).all()
    assert (np.diff(t.global_address) == 1).all()
    assert (t.shared_address.astype(np.int64) - t.global_address == address - far).all()


@pytest.mark.parametrize(("dst", "src", "mbar"), [(BEGIN + 8, 0, BEGIN), (BEGIN, 8, BEGIN), (BEGIN, 0, BEGIN + 4), (END + 16, 0, BEGIN)])
def test_it_is_not_known_whether_a_copy_of_nothing_traps_for_its_addresses(dst, src, mbar):
    with pytest.raises(Unmodelled, match="moves nothing"):
        bulk_copy(dst, src, 0, **LOAD | {"mbar": mbar})
    assert bulk_copy(BEGIN, 0, 0, **LOAD).size == 0


def test_what_a_load_brings_a_store_takes_back():
    world = np.random.default_rng(1).integers(0, 256, 4096).astype(np.uint8)
    shared, back = np.zeros(END, np.uint8), np.zeros(4096, np.uint8)
    there = bulk_copy(0x2000, 1024, 512, **LOAD)
    shared[there.shared_address] = world[there.global_address]
    again = bulk_copy(1024, 0x2000, 512, **STORE)
    back[again.global_address] = shared[again.shared_address]
    assert (back[1024:1536] == world[1024:1536]).all()
    assert not back[:1024].any()
    assert not back[1536:].any()
    assert not shared[:0x2000].any()


def test_a_copy_to_another_cta_credits_the_barrier_there():
    t = bulk_copy(ClusterAddress(1, 0x2000), 0x800, 64, **PEER)
    assert (t.dst_cta, t.mbar, t.transaction_bytes) == (1, ClusterAddress(1, 0x400), 64)
    assert t.shared_address.tolist() == list(range(0x2000, 0x2040))
    assert t.src_address.tolist() == list(range(0x800, 0x840))
    assert set(t.global_address.tolist()) == {-1}


def test_a_low_address_is_cta_0s_whoever_uses_it():
    """trace cluster_addresses, column plain_rank"""
    for rank in range(16):
        t = bulk_copy(0x2000, 0x10000, 64, **LOAD, cta_rank=rank)
        assert (t.dst_cta, t.mbar) == (0, ClusterAddress(0, 0x400))
    own = bulk_copy(0x5002000, 0x10000, 64, **(LOAD | {"mbar": 0x5000400}), cta_rank=5)
    assert (own.dst_cta, own.dst, own.mbar) == (5, 0x2000, ClusterAddress(5, 0x400))


def test_memory_of_the_executing_cta_is_named_with_its_rank():
    assert bulk_copy(0x10000, 0x3000800, 64, **STORE, cta_rank=3).src == 0x800
    with pytest.raises(InputError, match=r"0x3000800"):
        bulk_copy(0x10000, 0x800, 64, **STORE, cta_rank=3)
    to_cta = {"dst_space": "shared::cta", "src_space": "global"}
    assert bulk_copy(0x3000800, 0x10000, 64, **to_cta, mbar=0x3000400, cta_rank=3).dst_cta == 3
    with pytest.raises(InputError, match=r"bits 31:24 \(0x3000800\)"):
        bulk_copy(0x800, 0x10000, 64, **to_cta, mbar=0x3000400, cta_rank=3)
    with pytest.raises(Unmodelled, match="barrier of the executing CTA"):
        bulk_copy(0x3000800, 0x10000, 64, **to_cta, mbar=0x400, cta_rank=3)


@pytest.mark.parametrize("named", range(4))
def test_the_credit_goes_to_the_destinations_cta_whatever_rank_the_barrier_has(named):
    """trace bulk_traps, cases 133 to 144: a barrier outside the destination's CTA is not credited"""
    for to in range(4):
        t = bulk_copy(ClusterAddress(to, 0x2000), ClusterAddress(1, 0x800), 64, **(PEER | {"mbar": mapa(0x400, named)}), cta_rank=1)
        assert (t.dst_cta, t.src_cta, t.mbar) == (to, 1, ClusterAddress(to, 0x400))


@examples(60)
@given(st.integers(0, (1 << 20) - 1))
def test_what_a_size_has_over_16_bytes_is_neither_moved_nor_credited(size):
    for t in (bulk_copy(0x800, 0x10000, size % 0x8000, **LOAD), bulk_copy(0x10000, 0x800, size % 0x8000, **STORE)):
        assert t.transaction_bytes == len(t.dst_address) == len(t.src_address) == size % 0x8000 // 16 * 16
    assert bulk_prefetch(0x10000, size).size == size - size % 16


def test_a_mebibyte_moves_nothing_although_it_reaches_past_the_window():
    for t in (bulk_copy(0xE240, 0x10000, 1 << 20, **LOAD), bulk_copy(0x10000, 0x64A0, 1 << 20, **STORE)):
        assert t.transaction_bytes == len(t.shared_address) == 0
    with pytest.raises(Unmodelled, match="more than that"):
        bulk_copy(0xE240, 0x10000, (1 << 20) + 16, **LOAD)


@pytest.mark.parametrize("off", [1, 2, 4, 8])
def test_an_address_off_16_bytes_traps(off):
    """trace bulk_traps; the reduction is inferred"""
    for call in (
        lambda: bulk_copy(0x800 + off, 0x10000, 64, **LOAD),
        lambda: bulk_copy(0x800, 0x10000 + off, 64, **LOAD),
        lambda: bulk_copy(0x10000, 0x800 + off, 64, **STORE),
        lambda: bulk_copy(0x10000 + off, 0x800, 64, **STORE),
        lambda: bulk_copy(ClusterAddress(1, 0x2000 + off), 0x800, 64, **PEER),
        lambda: bulk_copy(ClusterAddress(1, 0x2000), 0x800 + off, 64, **PEER),
        lambda: bulk_prefetch(0x10000 + off, 64),
        lambda: bulk_reduce("add", "u32", 0x10000, 0x800 + off, 64, dst_space="global"),
    ):
        with pytest.raises(HardwareTrap, match="multiple of 16 B") as trap:
            call()
        assert trap.value.cuda_error == 716


@pytest.mark.parametrize("off", [1, 2, 4])
def test_a_barrier_off_8_bytes_traps(off):
    with pytest.raises(HardwareTrap, match="multiple of 8 B") as trap:
        bulk_copy(0x800, 0x10000, 64, **(LOAD | {"mbar": 0x400 + off}))
    assert trap.value.cuda_error == 716


def test_a_window_ends_where_it_was_granted():
    assert bulk_copy(END - 64, 0x10000, 64, **LOAD).size == 64
    assert bulk_copy(0x8000, 0x10000, 128, **LOAD, shared_end=0x8010).size == 128  # granted in units of 128
    for call in (
        lambda: bulk_copy(END - 48, 0x10000, 64, **LOAD),
        lambda: bulk_copy(0x10000, END - 48, 64, **STORE),
        lambda: bulk_copy(0x8000, 0x10000, 144, **LOAD, shared_end=0x8010),
    ):
        with pytest.raises(HardwareTrap, match="past the end") as trap:
            call()
        assert trap.value.cuda_error == 700


def test_past_another_ctas_window_the_launch_fails():
    with pytest.raises(HardwareTrap, match="CTA 1's shared window") as trap:
        bulk_copy(ClusterAddress(1, END - 48), 0x800, 64, **PEER)
    assert trap.value.cuda_error == 719
    with pytest.raises(Unmodelled, match="within one CTA"):
        bulk_copy(END - 48, 0x800, 64, **PEER)


def test_of_two_reasons_the_own_window_comes_first_and_anothers_last():
    """trace bulk_traps, cases 29, 59, 89 and 119"""
    reasons = {
        700: (lambda: bulk_copy(END + 8, 0x10000, 64, **LOAD), lambda: bulk_copy(0x10000, END + 8, 64, **STORE)),
        716: (lambda: bulk_copy(ClusterAddress(1, END + 8), 0x800, 64, **PEER),),
    }
    for error, calls in reasons.items():
        for call in calls:
            with pytest.raises(HardwareTrap) as trap:
                call()
            assert trap.value.cuda_error == error


def test_copies_run_below_the_first_user_byte():
    """trace bulk_traps: a load into the system's first KiB, and a store out of it, do not trap"""
    for address in (0, 0x200, 0x3F0):
        assert bulk_copy(address, 0x10000, 32, **LOAD).shared_address[0] == address
        assert bulk_copy(0x10000, address, 32, **STORE).shared_address[0] == address


@pytest.mark.parametrize(
    "call",
    [
        lambda: bulk_copy(0x10000, 0x20000, 64, dst_space="global", src_space="global"),
        lambda: bulk_copy(0x800, 0x10000, 64, dst_space="shared", src_space="global", mbar=0x400),
        lambda: bulk_copy(0x800, 0x10000, 64, dst_space="shared::cluster", src_space="global"),
        lambda: bulk_copy(0x10000, 0x800, 64, **STORE, mbar=0x400),
        lambda: bulk_copy(0x800, 0x900, 64, dst_space="shared::cta", src_space="shared::cta", mbar=0x400),
        lambda: bulk_copy(ClusterAddress(1, 0x800), 0, 64, dst_space="shared::cta", src_space="global", mbar=ClusterAddress(1, 0x400)),
        lambda: bulk_copy(1.5, 0x10000, 64, **LOAD),
        lambda: bulk_copy(float("nan"), 0x10000, 64, **LOAD),
        lambda: bulk_copy(-16, 0x10000, 64, **LOAD),
        lambda: bulk_copy(1 << 28, 0x10000, 64, **LOAD),
        lambda: bulk_copy(ClusterAddress(0, 0x800), 0x10000, 64, **LOAD, shared_end=1 << 24),
        lambda: bulk_copy(0x800, -16, 64, **LOAD),
        lambda: bulk_copy(0x800, 1 << 64, 64, **LOAD),
        lambda: bulk_copy(0x800, 10**5000, 64, **LOAD),
        lambda: bulk_copy(0x800, 0x10000, -16, **LOAD),
        lambda: bulk_copy(0x800, 0x10000, 1 << 32, **LOAD),
        lambda: bulk_copy(0x800, 0x10000, "64", **LOAD),
        lambda: bulk_copy(0x800, 0x10000, 64, **LOAD, cta_rank=16),
        lambda: bulk_copy(0x800, 0x10000, 64, **LOAD, cta_rank=None),
        lambda: bulk_copy(ClusterAddress(0, 0x800), ClusterAddress(0, 0x800), 64, **LOAD),
        lambda: bulk_prefetch(None, 64),
        lambda: bulk_reduce("add", "f32", 0x800, 0x900, 64, dst_space="shared::cluster", mbar=0x400),
        lambda: bulk_reduce("mul", "u32", 0x10000, 0x900, 64, dst_space="global"),
        lambda: bulk_reduce("add", "u32", 0x10000, 0x900, 64, dst_space="shared::cta"),
        lambda: bulk_reduce("add", 32, 0x10000, 0x900, 64, dst_space="global"),
        lambda: bulk_reduce("add", ["u32"], 0x10000, 0x900, 64, dst_space="global"),
        lambda: bulk_reduce("add", "u32", 0x10000, 0x900, 64, dst_space=None),
        lambda: bulk_reduce_bytes("add", "u32", dst=np.zeros(4, np.uint32), src=np.zeros(4, np.uint32)),
        lambda: bulk_reduce_bytes("add", "u32", dst=np.zeros(6, np.uint8), src=np.zeros(6, np.uint8)),
        lambda: bulk_reduce_bytes("add", "u32", dst=np.zeros(8, np.uint8), src=np.zeros(4, np.uint8)),
        lambda: bulk_reduce_bytes("min", "f32", dst=np.zeros(4, np.uint8), src=np.zeros(4, np.uint8)),
        lambda: bulk_reduce_bytes("add", "u32", dst=None, src=np.zeros(4, np.uint8)),
        lambda: bulk_bytes(None, dst=np.zeros(16, np.uint8), src=np.zeros(16, np.uint8)),
        lambda: bulk_bytes(bulk_prefetch(0x10000, 16), dst=b"x" * 16, src=np.zeros(16, np.uint8)),
        lambda: bulk_bytes(bulk_prefetch(0x10000, 16), dst=np.zeros(16, np.uint8), src=np.zeros(15, np.uint8)),
    ],
)
def test_what_no_instruction_could_have_is_refused(call):
    with pytest.raises(InputError):
        call()


def test_what_nobody_has_tried_is_not_guessed():
    for call in (
        lambda: bulk_copy(0x2000, (1 << 63) - 16, 64, **LOAD),
        lambda: bulk_copy(0x2000, (1 << 57) - 48, 64, **LOAD),
        lambda: bulk_copy(0x2000, 0x10000, 64, **(LOAD | {"mbar": END})),
        lambda: bulk_reduce("add", "u32", 0x10000, 0x900, 24, dst_space="global"),
        lambda: bulk_reduce("add", "u32", 0x10000, 0x900, 0, dst_space="global"),
        lambda: bulk_reduce("add", "u32", 0x10000, 0x900, 1 << 20, dst_space="global"),
    ):
        with pytest.raises(Unmodelled):
            call()
    assert bulk_copy(0x2000, (1 << 57) - 64, 64, **LOAD).size == 64  # up to the last byte that a GPU maps


def test_a_reduction_changes_memory_as_its_arithmetic_says():
    rng = np.random.default_rng(4)
    old, new = rng.integers(0, 1 << 32, (2, 64), np.uint32)
    t = bulk_reduce("xor", "b32", ClusterAddress(2, 0x2000), 0x800, 256, dst_space="shared::cluster", mbar=ClusterAddress(2, 0x400))
    assert (t.transaction_bytes, t.mbar) == (256, ClusterAddress(2, 0x400))
    after = bulk_bytes(t, dst=old.view(np.uint8), src=new.view(np.uint8))
    assert (after.view(np.uint32) == old ^ new).all()
    copied = bulk_bytes(bulk_copy(0x800, 0x10000, 256, **LOAD), dst=old.view(np.uint8), src=new.view(np.uint8))
    assert (copied.view(np.uint32) == new).all()


def test_f32_additions_keep_subnormals_although_the_isa_says_they_flush():
    """trace bulk_reductions against PTX ISA 9.1 §9.7.9.25.4.2"""
    tiny = np.array([1, 0x80000001, 0x007FFFFF, 0x00800000], np.uint32)
    t = bulk_reduce("add", "f32", 0x10000, 0x800, 16, dst_space="global")
    assert bulk_bytes(t, dst=tiny.view(np.uint8), src=np.zeros(16, np.uint8)).view(np.uint32).tolist() == tiny.tolist()


# ---- clusters ----------------------------------------------------------------------------------------------------------------------


@given(st.integers(0, 15), st.integers(0, END))
def test_an_address_of_the_cluster_survives_its_encoding(rank, address):
    there = mapa(address, rank)
    assert ClusterAddress.decode(there.encode()) == there == ClusterAddress(rank, address)
    assert there.encode() >> BULK_LIMITS.cta_rank_shift == rank
    assert mapa(there.encode(), 15 - rank) == mapa(address, 15 - rank)  # a rank in the address is replaced
    assert ClusterAddress.decode(address) == ClusterAddress(0, address)
    # how CUTLASS finds the even CTA of the pair
    assert there.encode() & 0xFEFFFFFF == mapa(address, rank & ~1).encode()


masks = st.integers(1, 16).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n - 1), st.integers(1, (1 << n) - 1)))


@examples(100)
@given(masks, st.integers(0, 1000), st.integers(1, 100))
def test_multicast_gives_each_cta_of_the_mask_the_same(drawn, chunk, count):
    size, issuer, mask = drawn
    found = multicast(mask, cluster_size=size, cta_rank=issuer, smem_address=BEGIN + 128 * chunk, mbar=BEGIN, transaction_bytes=16 * count)
    assert sum(1 << d.cta_rank for d in found) == mask
    assert {(d.smem_address, d.transaction_bytes, d.mbar.smem_address) for d in found} == {(BEGIN + 128 * chunk, 16 * count, BEGIN)}
    assert all(d.mbar.cta_rank == d.cta_rank for d in found)
    other = multicast(
        mask, cluster_size=size, cta_rank=size - 1 - issuer, smem_address=BEGIN + 128 * chunk, mbar=BEGIN, transaction_bytes=16 * count
    )
    assert other == found  # whoever issues
    ranked = multicast(
        mask,
        cluster_size=size,
        cta_rank=issuer,
        smem_address=mapa(BEGIN + 128 * chunk, issuer),
        mbar=mapa(BEGIN, size - 1),
        transaction_bytes=16 * count,
    )
    assert ranked == found  # whatever ranks the addresses have


@given(st.sampled_from([2, 4, 8, 16]).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n - 1), st.integers(1, (1 << n) - 1))))
def test_with_cta_group_2_the_credit_goes_to_one_parity(drawn):
    size, rank, mask = drawn
    about = {"cluster_size": size, "cta_rank": rank, "smem_address": 0x800, "transaction_bytes": 64, "cta_group": 2}
    for parity in (0, 1):
        found = multicast(mask, **about, mbar=ClusterAddress(rank & ~1 | parity, 0x400))
        assert {d.mbar.cta_rank % 2 for d in found} == {parity}
        assert all(d.mbar.cta_rank // 2 == d.cta_rank // 2 for d in found)


def test_without_multicast_the_cta_of_the_destinations_address_receives():
    """trace multicast_traps: with the barrier there, at home or elsewhere"""
    about = {"cluster_size": 4, "cta_rank": 2, "transaction_bytes": 64}
    for to in range(4):
        for barrier in range(4):
            [d] = multicast(None, **about, smem_address=mapa(0x800, to), mbar=mapa(0x400, barrier))
            assert (d.cta_rank, d.smem_address, d.mbar) == (to, 0x800, ClusterAddress(to, 0x400))
            assert [d] == list(multicast(None, **about, smem_address=to << 24 | 0x800, mbar=barrier << 24 | 0x400))
    [d] = multicast(None, **about, smem_address=mapa(0x800, 1), mbar=mapa(0x400, 0), cta_group=2)
    assert (d.cta_rank, d.mbar) == (1, ClusterAddress(0, 0x400))
    with pytest.raises(Unmodelled, match="same pair"):
        multicast(None, **about, smem_address=mapa(0x800, 1), mbar=mapa(0x400, 2), cta_group=2)


def test_an_empty_mask_delivers_and_credits_nothing():
    for size in (1, 2, 4, 16):
        assert multicast(0, cluster_size=size, cta_rank=size - 1, smem_address=0x800, mbar=0x400, transaction_bytes=64) == ()


@given(st.integers(1, 15).flatmap(lambda n: st.tuples(st.just(n), st.integers(1 << n, 0xFFFF))))
def test_a_mask_with_a_cta_that_is_not_there_fails_the_launch(drawn):
    size, mask = drawn
    with pytest.raises(HardwareTrap, match="the cluster has CTAs 0 to") as trap:
        multicast(mask, cluster_size=size, cta_rank=0, smem_address=0x800, mbar=0x400, transaction_bytes=64)
    assert trap.value.cuda_error == 719


@pytest.mark.parametrize("changes", [{"cta_mask": 0, "cta_group": 2}, {"cta_mask": 0b10000, "cta_group": 2}, {"mbar": 0x401}])
def test_masks_and_barriers_nobody_has_tried_are_not_guessed(changes):
    about = {"cta_mask": 0b11, "cluster_size": 4, "cta_rank": 0, "smem_address": 0x800, "mbar": 0x400, "transaction_bytes": 64} | changes
    with pytest.raises(Unmodelled):
        multicast(about.pop("cta_mask"), **about)


@pytest.mark.parametrize(
    "changes",
    [
        {"cta_mask": 1 << 16}, {"cta_mask": -1}, {"cta_mask": 1.0}, {"cta_mask": "3"}, {"cluster_size": 0}, {"cluster_size": 17},
        {"cluster_size": None}, {"cta_rank": 4}, {"cta_rank": -1}, {"smem_address": -1}, {"smem_address": 1 << 28}, {"smem_address": 4 << 24}, {"mbar": None}, {"mbar": float("nan")},
        {"mbar": ClusterAddress(4, 0x400)}, {"transaction_bytes": -16}, {"transaction_bytes": 0.5}, {"cta_group": 3}, {"cta_group": None},
        {"cta_group": 2, "cluster_size": 5},
    ],
)  # fmt: skip
def test_arguments_of_no_multicast_are_refused(changes):
    about = {"cta_mask": 0b11, "cluster_size": 4, "cta_rank": 0, "smem_address": 0x800, "mbar": 0x400, "transaction_bytes": 64} | changes
    with pytest.raises(InputError):
        multicast(about.pop("cta_mask"), **about)


@pytest.mark.parametrize("arguments", [(16, 0), (-1, 0), (1.0, 0), (0, -1), (0, 1 << 24), (None, 0), (0, None)])
def test_addresses_of_no_cta_are_refused(arguments):
    with pytest.raises(InputError):
        ClusterAddress(*arguments)


@pytest.mark.parametrize("address", [-1, 1 << 28, 1.0, None, "0x400"])
def test_numbers_that_are_no_cluster_address_are_refused(address):
    with pytest.raises(InputError):
        ClusterAddress.decode(address)


# ---- the evidence ------------------------------------------------------------------------------------------------------------------


def test_nothing_is_called_measured_without_a_trace():
    for rule in [rule for name, rule in RULES.items() if name.split(".")[0] in ("bulk", "reduce", "multicast", "cluster")]:
        assert rule.source
        assert (Grade.MEASURED in rule.grades.values()) == bool(rule.traces)
    for row in BULK_TRAPS.values():
        assert row.cuda_error in {700, 716, 719}
        assert (row.grade is Grade.MEASURED) == ("trace" in row.source)


# ---- replays: suites made up here agree with the model, and stop agreeing when a number in them changes ----------------------------

RNG = np.random.default_rng(11)


def suite(folder, kind, arrays, cases):
    about = {"suite": folder.name, "kind": kind, "arch": "sm_90a", "title": "made up", "device": {"gpu": "none"}, "source": {"seed": 0}}
    write_suite(folder, cases=cases, arrays=arrays, **about)
    return load_suite(folder)


def ragged(name, parts, dtype):
    return {name: np.concatenate(parts).astype(dtype), f"{name}_start": np.cumsum([0, *map(len, parts)]).astype(np.int64)}


def copy_arrays():
    rows = [  # dst_space, src_space, dst, src, size, dst_rank, status, credited, first, sources
        ("shared::cluster", "global", 0x800, 0x10010, 48, 0, 0, 48, 0x800, np.arange(48)),
        ("shared::cta", "global", 0x900, 0x20000, 16, 0, 0, 16, 0x900, np.arange(16)),
        ("global", "shared::cta", 0x10020, 0x840, 32, 0, 0, 0, 0, np.arange(0x840, 0x860)),
        ("shared::cluster", "shared::cta", 0x1000, 0x800, 16, 1, 0, 16, 0x1000, np.arange(0x800, 0x810)),
        ("shared::cluster", "global", 0x8F0, 0x10000, 1 << 17, 0, 700, 0, 0, np.zeros(0)),
        ("L2", "global", 0, 0x10000, 64, 0, 0, 0, 0, np.zeros(0)),
    ]
    names = ("dst_space", "src_space", "dst", "src", "size", "dst_rank", "status", "transaction_bytes", "first")
    arrays = {name: np.array([row[i] for row in rows]) for i, name in enumerate(names)}
    arrays |= {"issuer": np.zeros(6, int), "mbar_rank": arrays["dst_rank"], "mbar": np.full(6, 0x400), "window_end": np.full(6, 0x8400)}
    return arrays | ragged("source", [row[-1] for row in rows], np.int32)


def reduce_arrays():
    before, operand = RNG.integers(0, 1 << 32, (2, 3, 16), np.uint32)
    signed = np.minimum(before[1].view(np.int32), operand[1].view(np.int32)).view(np.uint32)
    after = [before[0] + operand[0], signed, before[2] & operand[2]]
    arrays = {"op": np.array(["add", "min", "and"]), "dtype": np.array(["u32", "s32", "b32"])}
    arrays |= {"dst_space": np.array(["global", "shared::cluster", "shared::cluster"]), "transaction_bytes": np.array([0, 64, 64])}
    for name, parts in (("before", before), ("operand", operand), ("after", after)):
        arrays |= ragged(name, [p.view(np.uint8) for p in parts], np.uint8)
    return arrays


def multicast_arrays():
    """Three CTAs of four report one load; the box is two rows of 16 bytes at the tensor's second row."""
    tm = TensorMap.tiled(
        data_type="u8", global_address=0x10000, global_dim=(64, 8), global_strides=(64,), box_dim=(16, 2), swizzle="none", arch="sm_90a"
    )
    assert tma_load(tm, (16, 1), smem_address=0x800).transaction_bytes == 32
    sources = np.concatenate([np.arange(16) + 64 + 16, np.arange(16) + 128 + 16])
    fixed = {
        "rank": 2, "global_address": 0x10000, "data_type": 0, "interleave": 0, "swizzle": 0, "l2_promotion": 0, "oob_fill": 0,
        "cluster_size": 4, "issuer": 3, "multicast": 1, "cta_mask": 0b0011, "to_rank": -1, "mbar_rank": -1, "smem_address": 0x800,
        "mbar": 0x400, "window_end": 0x3400, "status": 0,
    }  # fmt: skip
    wide = {
        "tensor_map": np.frombuffer(bytes(tm), np.uint8), "global_dim": [64, 8, 0, 0, 0], "global_strides": [64, 0, 0, 0],
        "box_dim": [16, 2, 0, 0, 0], "element_strides": [1, 1, 0, 0, 0], "coordinates": [16, 1, 0, 0, 0],
    }  # fmt: skip
    arrays = {name: np.array([value] * 3) for name, value in (fixed | wide).items()}
    arrays |= {"report_rank": np.array([0, 1, 2]), "transaction_bytes": np.array([32, 32, 0]), "first": np.array([0x800, 0x800, 0])}
    return arrays | ragged("source", [sources, sources, sources[:0]], np.int32)


def address_arrays():
    rows = [
        (2, me, target, address, target << 24 | address, target, 0, me << 24 | address, target)
        for me in (0, 1)
        for target in (0, 1)
        for address in (0x400, 0x8000)
    ]
    names = ("cluster_size", "issuer", "target_rank", "smem_address", "mapa", "found_rank", "plain_rank", "own_address", "generic_rank")
    return {name: np.array([row[i] for row in rows], np.uint32) for i, name in enumerate(names)}


MADE_UP = {
    "bulk_copy": (copy_arrays, 6),
    "bulk_reduce": (reduce_arrays, 3),
    "multicast": (multicast_arrays, 3),
    "cluster_address": (address_arrays, 8),
}


@pytest.mark.parametrize("kind", MADE_UP)
def test_a_suite_that_says_what_the_model_says_replays(kind, tmp_path):
    make, cases = MADE_UP[kind]
    report = replay_suite(suite(tmp_path / kind, kind, make(), cases))
    assert report.same, report.text()
    assert not report.unmodelled
    assert report.cases == cases


CHANGES = [
    ("bulk_copy", "transaction_bytes", 0, 16, "transaction bytes"),
    ("bulk_copy", "transaction_bytes", 3, -16, "transaction bytes"),
    ("bulk_copy", "first", 0, 16, "bytes"),
    ("bulk_copy", "first", 2, -16, "bytes"),
    ("bulk_copy", "mbar_rank", 3, 1, "transaction bytes"),  # another barrier than the one that is credited
    ("bulk_copy", "size", 0, 16, "transaction bytes"),
    ("bulk_copy", "source", 5, 1, "bytes"),
    ("bulk_copy", "source", 70, 1, "bytes"),
    ("bulk_copy", "source", 100, 1, "bytes"),
    ("bulk_copy", "status", 0, 716, "outcome"),
    ("bulk_copy", "status", 4, -700, "outcome"),
    ("bulk_copy", "status", 4, 15, "outcome"),
    ("bulk_reduce", "after", 3, 1, "bytes"),
    ("bulk_reduce", "after", 100, 1, "bytes"),
    ("bulk_reduce", "transaction_bytes", 1, -16, "transaction bytes"),
    ("multicast", "transaction_bytes", 0, -32, "transaction bytes"),
    ("multicast", "transaction_bytes", 2, 32, "transaction bytes"),
    ("multicast", "source", 20, 1, "bytes"),
    ("multicast", "first", 1, 128, "bytes"),
    ("multicast", "cta_mask", 2, 4, "transaction bytes"),
    ("multicast", "status", 1, 700, "outcome"),
    ("multicast", "cta_mask", 1, 16, "outcome"),
    ("multicast", "cta_mask", 0, -1, "transaction bytes"),
    ("cluster_address", "mapa", 2, 1 << 24, "addresses"),
    ("cluster_address", "found_rank", 5, 1, "addresses"),
    ("cluster_address", "plain_rank", 0, 1, "addresses"),
]


@pytest.mark.parametrize(("kind", "array", "at", "by", "what"), CHANGES)
def test_a_suite_with_one_number_changed_does_not(kind, array, at, by, what, tmp_path):
    make, cases = MADE_UP[kind]
    arrays = make()
    arrays[array] = arrays[array].copy()
    arrays[array][at] += by
    report = replay_suite(suite(tmp_path / kind, kind, arrays, cases))
    assert not report.same
    assert [d.outcome.what for d in report.differences] == [what]
    assert "rule in force" in report.text()


def test_bytes_where_a_cta_was_not_addressed_are_a_difference(tmp_path):
    arrays = multicast_arrays()
    body, start = arrays["source"], arrays["source_start"].copy()
    start[2:] -= 8  # the last CTA now reports eight of the bytes
    start[3] = len(body)
    report = replay_suite(suite(tmp_path / "multicast", "multicast", arrays | {"source_start": start}, 3))
    assert any("not one of the destinations" in d.outcome.first for d in report.differences)


def test_ranks_in_a_multicasts_addresses_are_no_difference_and_without_a_mask_they_are(tmp_path):
    ranks = {"to_rank": np.array([2, 0, 3]), "mbar_rank": np.array([0, 3, 1])}
    assert replay_suite(suite(tmp_path / "several", "multicast", multicast_arrays() | ranks, 3)).same
    one = ranks | {"multicast": np.zeros(3, int)}
    report = replay_suite(suite(tmp_path / "one", "multicast", multicast_arrays() | one, 3))
    # CTAs 0 and 1 report what is CTA 2's and 0's
    assert [d.outcome.what for d in report.differences] == ["transaction bytes"] * 2


def system_store(source):
    """A store of 32 bytes from 0x3F0, of which the first 16 are the system's."""
    arrays = {name: values[2:3].copy() for name, values in copy_arrays().items() if not name.startswith("source")}
    return arrays | {"src": np.array([0x3F0])} | ragged("source", [source], np.int32)


def test_of_the_systems_first_kib_any_bytes_may_come_but_some_must(tmp_path):
    user = np.arange(0x400, 0x410)
    assert replay_suite(suite(tmp_path / "zeros", "bulk_copy", system_store(np.r_[np.full(16, -256), user]), 1)).same
    report = replay_suite(suite(tmp_path / "none", "bulk_copy", system_store(np.r_[np.full(16, -2), user]), 1))
    assert report.differences[0].outcome.differing == 16
    report = replay_suite(suite(tmp_path / "user", "bulk_copy", system_store(np.full(32, -256)), 1))
    assert report.differences[0].outcome.differing == 16
