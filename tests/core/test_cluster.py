"""Memory of a cluster, and bulk copies between memories: bytes, owners, credits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import smemsim
from smemsim import Cluster, ClusterAddress, GlobalMemory, HardwareTrap, InputError, SharedMemory, TensorMap, Unmodelled

DATA = np.random.default_rng(3).integers(0, 256, 1 << 16, dtype=np.uint8)


def world():
    memory = GlobalMemory()
    return memory, memory.place(DATA)


def rows_map(address):
    return TensorMap.tiled(
        data_type="u8", global_address=address, global_dim=(128, 512), global_strides=(128,), box_dim=(128, 8), swizzle="128B"
    )


@given(size=st.sampled_from((1, 2, 4, 8, 16)), data=st.data())
def test_a_multicast_puts_the_same_bytes_at_the_same_offset_of_every_cta_in_the_mask(size, data):
    memory, address = world()
    cluster = Cluster(size, shared_bytes=8192)
    mask, issuer = data.draw(st.integers(0, (1 << size) - 1)), data.draw(st.integers(0, size - 1))
    got = cluster.tma_load(rows_map(address), (0, 8), smem_address=0x800, mbar=0x400, source=memory, cta_rank=issuer, cta_mask=mask)
    alone = SharedMemory(size=8192)
    transfer = alone.tma_load(rows_map(address), (0, 8), smem_address=0x800, source=memory)
    assert [d.cta_rank for d in got] == [rank for rank in range(size) if mask >> rank & 1]
    assert all(d.mbar == ClusterAddress(d.cta_rank, 0x400) and d.transaction_bytes == transfer.transaction_bytes for d in got)
    for rank in range(size):
        assert (cluster[rank].bytes == (alone.bytes if mask >> rank & 1 else 0)).all()


def test_without_a_mask_the_load_goes_to_the_cta_of_its_address():
    memory, address = world()
    cluster = Cluster(4, shared_bytes=8192)
    got = cluster.tma_load(rows_map(address), (0, 0), smem_address=0x2000800, mbar=0x2000400, source=memory, cta_rank=1)
    assert [d.cta_rank for d in got] == [2]
    assert [bool(window.writers) for window in cluster.windows] == [False, False, True, False]


def test_a_pair_signals_the_cta_of_the_barriers_parity():
    memory, address = world()
    cluster = Cluster(4, "sm_100a", shared_bytes=8192)
    given = {"smem_address": 0x800, "source": memory, "cta_rank": 0, "cta_mask": 0b1111, "cta_group": 2}
    got = cluster.tma_load(rows_map(address), (0, 0), mbar=0x400, **given)
    assert [d.mbar.cta_rank for d in got] == [0, 0, 2, 2]
    got = cluster.tma_load(rows_map(address), (0, 0), mbar=0x1000400, **given)
    assert [d.mbar.cta_rank for d in got] == [1, 1, 3, 3]


def test_a_mask_with_a_cta_that_is_not_there_traps():
    memory, address = world()
    with pytest.raises(HardwareTrap, match="719"):
        Cluster(2).tma_load(rows_map(address), (0, 0), smem_address=0x800, mbar=0x400, source=memory, cta_rank=0, cta_mask=0b100)


def test_bulk_copies_between_ctas_move_bytes_and_name_their_writer():
    cluster = Cluster(2, shared_bytes=4096)
    cluster[0].write(0x480, DATA[:256])
    cluster.bulk_copy(0x1000500, 0x480, 256, mbar=0x1000400, cta_rank=0)
    assert (cluster[1].peek(0x500, 256) == DATA[:256]).all()
    writer, place = cluster[1].owner(0x510)
    assert (writer.label, place) == ("bulk copy from CTA 0", (16,))
    cluster.bulk_reduce("add", "u32", 0x1000500, 0x480, 256, mbar=0x1000400, cta_rank=0)
    assert (cluster[1].peek(0x500, 256).view(np.uint32) == 2 * DATA[:256].view(np.uint32)).all()


def test_a_low_address_is_that_of_cta_0_for_every_cta():
    cluster = Cluster(2, shared_bytes=4096)
    with pytest.raises(InputError, match="executing CTA"):
        cluster.bulk_copy(0x500, 0x480, 16, mbar=0x400, cta_rank=1)


@given(
    at=st.integers(0, 100).map(lambda n: 16 * n),
    to=st.integers(0x40, 0x80).map(lambda n: 16 * n),
    size=st.integers(0, 40).map(lambda n: 16 * n),
)
def test_a_bulk_load_and_a_bulk_store_are_copies(at, to, size):
    memory, address = world()
    target = memory.place(np.zeros(4096, np.uint8))
    shared = SharedMemory(size=4096)
    loaded = shared.bulk_load(to, address + at, size, mbar=0x400, source=memory)
    assert loaded.transaction_bytes == size
    assert (shared.peek(to, size) == DATA[at : at + size]).all()
    assert all(shared.owner(to + i) == (loaded, (i,)) for i in range(0, size, 8))
    shared.bulk_store(to, target + at, size, to=memory)
    assert (memory.span(target + at, size) == DATA[at : at + size]).all() if size else True
    shared.bulk_reduce("xor", "b32", to, target + at, 16, to=memory)
    assert (memory.span(target + at, 16) == (0 if size else shared.peek(to, 16))).all()


def test_bytes_that_nobody_placed_and_bytes_of_the_system_are_explained():
    memory, address = world()
    shared = SharedMemory(size=4096)
    with pytest.raises(InputError, match="reaches past the array"):
        shared.bulk_load(0x500, address + len(DATA) - 16, 32, mbar=0x400, source=memory)
    with pytest.raises(InputError, match="nothing was placed there"):
        shared.bulk_load(0x500, 0x10, 32, mbar=0x400, source=memory)
    with pytest.raises(Unmodelled, match="below 0x400"):
        shared.bulk_load(0x100, address, 32, mbar=0x400, source=memory)
    with pytest.raises(HardwareTrap, match="716"):
        shared.bulk_load(0x508, address, 32, mbar=0x400, source=memory)


@pytest.mark.parametrize("size", [0, 17, 2.0, None])
def test_a_cluster_has_1_to_16_ctas(size):
    with pytest.raises(InputError, match="size"):
        Cluster(size)


@pytest.mark.parametrize("value", ["abc", 1j, np.datetime64("2020-01-01"), None, [object()]])
def test_what_is_no_array_of_plain_numbers_is_not_placed(value):
    with pytest.raises(InputError, match="array"):
        GlobalMemory().place(value)


@pytest.mark.parametrize("address", [None, "x", 1.5, float("nan"), [], np.zeros(2)])
def test_an_address_that_is_no_number_is_explained(address):
    memory, _ = world()
    for call in (memory.find, memory.region, lambda a: memory.span(a, 1)):
        with pytest.raises(InputError, match="address"):
            call(address)


def test_a_copy_needs_a_global_memory():
    shared = SharedMemory(size=4096)
    with pytest.raises(InputError, match="GlobalMemory"):
        shared.bulk_load(0x500, 0x10000, 16, mbar=0x400, source=None)
    with pytest.raises(InputError, match="GlobalMemory"):
        shared.bulk_store(0x500, 0x10000, 16, to=None)


def test_an_empty_mask_delivers_nothing_but_is_known_of_loads_in_order_only():
    memory, address = world()
    cluster = Cluster(2, shared_bytes=8192)
    given = {"source": memory, "cta_rank": 0, "cta_mask": 0}
    assert cluster.tma_load(rows_map(address), (0, 0), smem_address=0x800, mbar=0x400, **given) == ()
    with pytest.raises(Unmodelled, match="multiple of 128"):
        cluster.tma_load(rows_map(address), (0, 0), smem_address=0x801, mbar=0x400, **given)
    with pytest.raises(Unmodelled, match="past the end"):
        cluster.tma_load(rows_map(address), (0, 0), smem_address=0x800, mbar=0xFFFFF8, **given)


def test_a_load_outside_the_tensor_still_looks_up_its_first_byte():
    tm = rows_map(0x10000)
    with pytest.raises(InputError, match="nothing was placed there"):
        SharedMemory().tma_load(tm, (0, 4096), smem_address=0x400, source=GlobalMemory())


def test_wide_maps_for_two_architectures_are_two_maps():
    given = {
        "data_type": "bf16", "global_address": 0x10000, "global_dim": (64, 9, 7, 4), "global_strides": (128, 1152, 8064), "channels_per_pixel": 64,
        "pixel_box_lower_corner_width": 0, "pixel_box_upper_corner_width": 0, "pixels_per_column": 32, "mode": "W",
    }  # fmt: skip
    hopper, blackwell = (TensorMap.im2col_wide(**given, arch=arch) for arch in ("sm_90a", "sm_100a"))
    assert hopper != blackwell
    loads = [smemsim.tma_load(tm, (0, 1, 1, 0), smem_address=0x400, arch="sm_90a") for tm in (hopper, TensorMap.from_bytes(bytes(hopper)))]
    assert (loads[0].global_address == loads[1].global_address).all()
    assert loads[0].geometry.mode == "im2col"
