"""Laws of the driver's calls: what each error answers, what is gone afterwards, what each field means."""

import ctypes
import itertools
import random
import struct

import numpy as np
import pytest

from driver_calls import OTHER, PTX, TWO_64, Program, handles, packed, resource
from smemsim import InputError, Unmodelled
from smemsim.core.spec.cards import MAPPING_BYTES
from smemsim.core.spec.textures import ADDRESS_MODES, ARRAY_FORMATS
from smemsim.virtual import CudaError, FindingsError
from smemsim.virtual.calls.wire import replied


@pytest.fixture
def cuda():
    return Program()


# ---- Answers

NO_ROOM = "the memory of this machine is out: the device cannot go on"


class Found:
    findings, remarks = ("a finding",), ()


class Failing(Program):
    def fails(self, error):
        raise error

    def gives(self, what):
        return what


# An error that was raised keeps the frames that it came through, and with them the device: each test makes its own.
@pytest.mark.parametrize(
    ("error", "code", "told", "refused", "dead"),
    [
        (lambda: CudaError(911, "why"), 911, [], [], 0),
        (lambda: FindingsError(Found()), 719, [], [], 0),
        (lambda: Unmodelled("x"), 801, ["not modelled: x"], ["not modelled: x"], 0),
        (lambda: InputError("y"), 1, ["y"], [], 0),
        (KeyboardInterrupt, 719, [], [], 719),
        (MemoryError, 999, [NO_ROOM], [NO_ROOM], 0),
        (lambda: MemoryError("z"), 999, [f"{NO_ROOM}: z"], [f"{NO_ROOM}: z"], 0),
        (lambda: ValueError("w"), 999, ["internal error in fails, please report it:"], ["internal error in fails: ValueError: w"], 0),
    ],
)
def test_every_error_has_its_code_and_is_told_once(error, code, told, refused, dead):
    program = Failing()
    assert program.answer("fails", [error()]) == (code, ())
    assert [text.splitlines()[0] for text in program.told] == told
    assert (program.device.code.refused, program.device.error) == (refused, dead)
    assert program.device.turn.depth == 0


def test_an_interrupt_leaves_the_error_of_a_kernel():
    program = Failing()
    program.device.error = 700
    assert (program.code("fails", KeyboardInterrupt()), program.device.error) == (719, 700)


@pytest.mark.parametrize(("what", "results"), [(None, ()), (0, (0,)), (b"", (b"",)), ((1, b"2"), (1, b"2"))])
def test_what_a_call_returns_is_its_results(what, results):
    assert Failing().answer("gives", [what]) == (0, results)


@pytest.mark.parametrize("is_last", [False, True])
@pytest.mark.parametrize("is_settled", [False, True])
def test_an_answer_is_the_bytes_that_door_c_reads(is_last, is_settled):
    """Flags, the error with its sign, the number of actions and of their bytes; then actions and results: words of 64
    bits, or bytes behind their number.
    """
    actions, results = [b"abc", b"", b"\1"], (0, -1, TWO_64 - 1, TWO_64 + 7, 1 << 63, b"", b"data")
    raw = replied(is_last, -3, actions, results, is_settled=is_settled)
    assert struct.unpack_from("<BiII", raw) == (is_last + 2 * is_settled, -3, 3, 4)
    assert raw[13:17] == b"abc\1"
    words = struct.unpack_from("<5Q", raw, 17)
    assert words == (0, TWO_64 - 1, TWO_64 - 1, 7, 1 << 63)
    assert raw[57:] == struct.pack("<II", 0, 4) + b"data"


def test_handles_are_as_pointers_are_aligned_and_differ(cuda):
    made = [cuda.made("event_create", 0) for _ in range(3)] + [cuda.made("graph_create")]
    assert len({*made}) == 4
    assert all(handle > 2 and handle % 16 == 0 for handle in made)


ENDS = ("stream_destroy", "event_destroy", "pool_destroy", "unload", "physical_release", "array_free", "graph_destroy")


def test_a_handle_is_ended_by_the_call_of_its_own_kind_alone(cuda):
    pool = struct.pack("<iiiiQQ", 1, 0, 1, 0, 0, 0)
    made = [
        cuda.made(*call) for call in (("stream_create", 0, 0), ("event_create", 0), ("pool_create", pool), ("load", PTX.encode(), "", 0),
                                      ("physical_create", MAPPING_BYTES, b"", ""), ("array_create_of", 8, 0, 0, 1, 1, 0, 0, ""), ("graph_create",))
    ]  # fmt: skip
    for (own, end), handle in itertools.product(zip(made, ENDS, strict=True), made):
        if handle != own:
            assert cuda.code(end, handle) == (0 if end == "graph_destroy" else 400)
    assert [cuda.code(end, own) for own, end in zip(made, ENDS, strict=True)] == [0] * len(made)


# ---- What the host was told to do is done before anything depends on it


def test_copies_of_the_host_are_made_before_memory_goes_or_is_read(cuda):
    at, array = cuda.made("allocate", 64, "device", ""), cuda.made("array_create_of", 8, 0, 0, 1, 1, 0, 0, "")
    asynchronous = cuda.made("allocate_async", 64, "", 0)
    texture = cuda.made("texture_create_of", resource(0, array, 0, 0, 0, 0, 0), bytes(104))
    event = cuda.made("event_create", 0)
    words = [0, 0, 1, 1, 1, 1, 0, 68, 0, 0, 0, 0, 0, 0, *[at, 0, 1, 1, 0] * 4]
    product = struct.pack("<34q", *words) + struct.pack("<f12xf12x", 1, 0)
    for name, given in (
        ("fill", (at, 4, 0, 1, 4, 1, 0)), ("product", ("p", 0, product)), ("event_record", (event, 0)), ("synchronize", (0,)), ("event_synchronize", (event,)), ("object_destroy", (texture,)),
        ("array_free", (array,)), ("free_async", (asynchronous, 0)), ("free", (at,)), ("range_reserve", (MAPPING_BYTES, 0)), ("reset", ()),
    ):  # fmt: skip
        before = cuda.host.finished
        cuda.made(name, *given)
        assert cuda.host.finished > before, name


# ---- What is gone


def test_what_is_freed_is_the_cards_again_and_a_reset_frees_all(cuda):
    free, total = cuda.made("memory_info")
    assert free == total
    array = cuda.made("array_create_of", 64, 64, 0, 0x20, 4, 0, 0, "")
    address = cuda.made("array_about", array)[0]
    held = cuda.device.allocation(address)
    assert held.size >= 64 * 64 * 16
    cuda.made("array_free", array)
    assert cuda.device.allocation(address) is None
    kinds = {kind: cuda.made("allocate", 4096, kind, "") for kind in ("device", "managed", "pinned")}
    pool = cuda.made("allocate_async", 4096, "", 0)
    module = cuda.made("load", PTX.encode(), "", 0)
    counter, _ = cuda.made("variable", module, "counter")
    cuda.made("unload", cuda.made("load", OTHER.encode(), "", 0))
    assert cuda.device.allocation(counter) is not None
    assert len(cuda.device.code.modules) == 1
    cuda.made("unload", module)
    assert cuda.device.allocation(counter) is None
    assert not cuda.device.code.modules
    cuda.made("reset")
    assert [cuda.device.allocation(a) for a in (*kinds.values(), pool)] == [None] * 4
    assert cuda.made("memory_info") == (total, total)


def test_a_reset_behind_a_kernels_error_leaves_no_card(cuda):
    for error, after in ((0, 0), (719, 46)):
        cuda.device.error = error
        cuda.made("reset")
        assert cuda.device.error == after


def test_an_object_that_is_destroyed_is_no_kernels_any_more(cuda):
    array = cuda.made("array_create_of", 8, 0, 0, 1, 1, 2, 0, "")
    whole, objects = resource(0, array, 0, 0, 0, 0, 0), cuda.device.machine.memory.objects
    made = [cuda.made("texture_create_of", whole, bytes(104)), cuda.made("surface_create_of", whole), cuda.made("surface_create", array)]
    assert set(objects) == set(made)
    cuda.made("object_destroy", made[0])
    assert set(objects) == set(made[1:])
    assert cuda.code("object_destroy", made[0]) == 1
    cuda.made("array_free", array)
    assert not objects  # their texels are gone
    cuda.made("object_destroy", made[1])  # which a program may still do


def test_a_graph_and_what_is_made_of_it_give_back_what_they_hold(cuda):
    ended = []
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(ended.append)
    function = ctypes.cast(call, ctypes.c_void_p).value
    graph = cuda.made("graph_create")
    for n in range(1, 4):
        cuda.made("graph_hold", graph, cuda.made("user_object_create", function, n, 1), 1, 1)
    executable = cuda.made("graph_instantiate", graph)
    parent = cuda.made("graph_create")
    cuda.made("graph_add_child", parent, b"", graph)
    other = cuda.made("graph_create")
    cuda.made("graph_add_empty", other, b"")
    assert cuda.code("graph_update", executable, other) == 910  # what was made for it is given back as well
    cuda.made("graph_destroy", graph)
    assert ended == []
    cuda.made("graph_destroy", parent)
    assert ended == []
    cuda.made("graph_destroy", executable)
    assert ended == [1, 2, 3]
    assert cuda.code("graph_destroy", executable) == 0  # of nothing
    assert ended == [1, 2, 3]


def test_an_update_takes_over_what_the_new_graph_holds(cuda):
    ended = []
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(ended.append)
    function = ctypes.cast(call, ctypes.c_void_p).value
    graphs = [cuda.made("graph_create") for _ in "ab"]
    for n, graph in enumerate(graphs, 1):
        cuda.made("graph_hold", graph, cuda.made("user_object_create", function, n, 1), 1, 1)
    executable = cuda.made("graph_instantiate", graphs[0])
    cuda.made("graph_destroy", graphs[0])
    cuda.made("graph_update", executable, graphs[1])
    assert ended == [1]
    cuda.made("graph_destroy", graphs[1])
    assert ended == [1]
    cuda.made("graph_destroy", executable)
    assert ended == [1, 2]


# ---- Code


def wrapped(*texts):
    return b"".join(struct.pack("<Q", len(raw)) + raw for raw in (text.encode() for text in texts))


@pytest.mark.parametrize("texts", [(PTX,), (PTX, OTHER), (OTHER, PTX)])
def test_code_in_a_wrapper_is_all_its_parts(cuda, texts):
    module = cuda.made("load", wrapped(*texts), "", 1)
    names = {cuda.made("function_name", f) for f in handles(cuda.made("functions", module, 9))}
    assert names == {b"fill\0", b"late\0", b"nothing\0"} | ({b"other\0"} if OTHER in texts else set())


def test_code_that_cannot_be_taken_says_why(cuda):
    machine_code = b"\x7fELF" + bytes(60)
    raw = struct.pack("<Q", len(machine_code)) + machine_code
    assert cuda.code("load", raw, "", 1) == 209
    assert cuda.code("load", wrapped(PTX.replace("sm_90a", "sm_100a")), "", 1) == 209
    assert (
        [text.partition(":")[0] for text in cuda.told]
        == ["no code for sm_90a"] * 2
        == [text.partition(":")[0] for text in cuda.device.code.refused]
    )
    for text, name in ((machine_code, ""), (b"\x7fELF", "a.o")):
        del cuda.told[:]
        cuda.code("link_add", cuda.made("link_create"), text, name)
        assert [text.partition(":")[0] for text in cuda.told] == [name or "linker input"]


def test_parameters_are_called_as_the_source_does_if_there_are_as_many(cuda):
    module = cuda.made("load", PTX.encode(), "", 0)
    fill, nothing = (cuda.made("function", module, name) for name in ("fill", "nothing"))
    for names, kept in ((("a",), ()), (("a", "b"), ("a", "b")), (("c", "d", "e"), ("a", "b"))):
        cuda.made("name_parameters", fill, names)
        assert cuda._objects[fill].parameter_names == kept
    cuda.made("name_parameters", nothing, ())
    assert cuda._objects[nothing].parameter_names == ()


@pytest.mark.parametrize(("name", "bank"), [("nothing", b""), ("late", struct.pack("<I4xQ", 7, 8)), ("fill", struct.pack("<QI", 9, 10))])
def test_a_node_of_a_kernel_has_its_parameters_where_they_lie(cuda, name, bank):
    function, graph = cuda.made("function", cuda.made("load", PTX.encode(), "", 0), name), cuda.made("graph_create")
    node = cuda.made("graph_add_kernel", graph, b"", function, 1, 2, 3, 4, 5, 6, 64, bank)
    assert cuda.made("node_kernel", node) == (function, 1, 2, 3, 4, 5, 6, 64, bank)


ATTRIBUTES = """.version 8.0
.target sm_90a
.address_size 64
.const .align 4 .b8 table[64];
.visible .entry plain() { .shared .align 4 .b8 tile[48]; .reg .u32 %r; mov.u32 %r, tile; st.shared.u32 [%r], %r; ret; }
.visible .entry bound() .maxntid 96, 2 .maxnreg 40 { ret; }
.visible .entry exact() .reqntid 64 .reqnctapercluster 2 .explicitcluster { ret; }
"""


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("plain", {0: 1024, 1: 48, 2: 64, 4: 64, 5: 90, 6: 90, 7: 0, 8: 49152 - 48, 9: -1, 10: 0, 11: 0, 12: 0, 13: 0, 14: 0, 15: 0}),
        ("bound", {0: 192, 1: 0, 4: 40, 8: 49152}), ("exact", {0: 1024, 4: 255, 10: 1, 11: 2, 12: 1, 13: 1}),
    ],
)  # fmt: skip
def test_attributes_of_a_function_follow_from_its_directives(cuda, name, values):
    """By CUfunction_attribute. Registers: what .maxnreg says, else what the threads leave of 65,536, in steps of 8."""
    function = cuda.made("function", cuda.made("load", ATTRIBUTES.encode(), "", 0), name)
    found = {n: cuda.made("function_attribute", function, n) for n in values}
    assert found == values
    assert [cuda.code("function_attribute", function, n) for n in (16, 99)] == [1, 1]


def test_attributes_that_can_be_set_have_bounds(cuda):
    module = cuda.made("load", ATTRIBUTES.encode(), "", 0)
    plain, exact = (cuda.made("function", module, name) for name in ("plain", "exact"))
    most = 232_448 - 48
    assert [cuda.code("set_function_attribute", plain, 8, value) for value in (most + 1, TWO_64 - 1, most, 0)] == [1, 1, 0, 0]
    assert cuda.made("function_attribute", plain, 8) == 0
    for n, value in ((9, 50), (11, 4), (12, 2), (13, 1), (14, 1), (15, 2)):
        cuda.made("set_function_attribute", plain, n, value)
        assert cuda.made("function_attribute", plain, n) == value
    assert [cuda.made("function_attribute", plain, n) for n in (11, 12, 13)] == [4, 2, 1]
    assert [cuda.code("set_function_attribute", exact, n, 1) for n in (11, 12, 13)] == [800] * 3
    assert [cuda.code("set_function_attribute", plain, n, 1) for n in (0, 7, 10, 16)] == [1] * 4


# ---- Launches


@pytest.mark.parametrize("strict", [False, True])
def test_a_launch_that_is_refused_is_told_and_counts_where_asked(strict):
    program = Program(strict=strict)
    function = program.made("function", program.made("load", PTX.encode(), "", 0), "nothing")
    assert program.code("launch", function, 1, 1, 1, 2048, 1, 1, 0, 0, 0, 0, 0, 0, 0, b"") == 1
    (told,) = program.told
    assert told.startswith("launch refused: ")
    assert program.device.code.refused == ([told] if strict else [])
    assert not program.is_running


def test_what_a_launch_has_told_is_not_told_again(cuda):
    """A launch that has printed its line, and one on a context that is dead, whose error has no reason of its own."""
    function = cuda.made("function", cuda.made("load", PTX.encode(), "", 0), "nothing")
    given = (function, 1, 1, 1, 32, 1, 1, 0, 0, 0, 0, 0, 0, 0, b"")
    cuda.device.error = 719
    assert (cuda.code("launch", *given), cuda.told) == (719, [])
    cuda.made("renew")

    def launched(*given, **named):
        cuda.device.launches.append(object())
        raise CudaError(1, "after its line")

    cuda.device.launch = launched
    assert (cuda.code("launch", *given), cuda.told) == (1, [])


def test_a_graph_runs_as_a_kernel_does_until_it_has_ended(cuda):
    seen = []
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda data: seen.append(cuda.is_running))
    graph = cuda.made("graph_create")
    cuda.made("graph_add_host", graph, b"", ctypes.cast(call, ctypes.c_void_p).value, 1)
    cuda.made("graph_launch", cuda.made("graph_instantiate", graph), 0)
    assert (seen, cuda.is_running) == ([True], False)


@pytest.mark.parametrize("multiprocessors", [1, 2, 3, 4, 6, 8, 16, 132])
@pytest.mark.parametrize("is_large", [0, 1])
def test_the_largest_cluster_is_the_largest_of_which_one_fits(multiprocessors, is_large):
    cuda = Program(multiprocessors=multiprocessors)
    function = cuda.made("function", cuda.made("load", PTX.encode(), "", 0), "nothing")
    cuda.made("set_function_attribute", function, 14, is_large)
    for threads, shared in ((32, 0), (1024, 0), (128, 40_000)):
        fits = [
            n
            for n in (1, 2, 4, 8, 16)
            if n == 1 or (n <= 8 + 8 * is_large and cuda.made("clusters", function, threads, shared, n, 1, 1) > 0)
        ]
        assert cuda.made("cluster_size", function, threads, shared) == max(fits)


def test_a_program_with_nvidias_own_runtime_is_not_simulated(cuda):
    cuda.made("foreign_runtime")
    assert len(cuda.device.code.refused) == 1


@pytest.mark.parametrize(("begins", "count"), [(0, 1), (1, 1), (2, 0), (3, 0)])
def test_a_program_that_has_synchronised_has_nothing_in_front_of_its_launch(cuda, begins, count):
    """Bit 1; bit 0 is the attribute of a dependent launch."""
    function = cuda.made("function", cuda.made("load", PTX.encode(), "", 0), "nothing")
    seen, launch = [], cuda.device.launch

    def looks(*given, **named):
        seen.append((len(cuda.device.launcher.in_front), named["dependent"], cuda.is_running))
        return launch(*given, **named)

    cuda.device.launch = looks
    cuda.device.launcher.in_front[None] = object()
    cuda.code("launch", function, 1, 1, 1, 32, 1, 1, 0, 0, 0, 0, 0, 0, begins, b"")
    assert seen == [(count, bool(begins & 1), True)]
    assert not cuda.is_running


def test_a_thread_that_enters_keeps_the_device_until_it_leaves(cuda):
    """What `enter` takes outlasts its call."""
    for name, depth in (("enter", 1), ("enter", 2), ("leave", 1), ("leave", 0)):
        cuda.made(name)
        assert cuda.device.turn.depth == depth


# ---- Pools


@pytest.mark.parametrize(("kind", "place"), [*itertools.product((1, 2), range(5))])
def test_a_pool_has_memory_of_the_kind_and_place_that_it_was_asked_for(cuda, kind, place):
    """cuda.h: pinned or managed allocations; at no place or a device, or at the host and its NUMA nodes."""
    pool = cuda.made("pool_create", struct.pack("<iiiiQQ", kind, 0, place, 0, 0, 0))
    wanted = "managed" if kind == 2 else "pinned" if place in (2, 3, 4) else "device"
    assert cuda.made("pool_default", kind, place) == cuda._handle_of(cuda.device.pools.defaults[wanted])
    assert cuda.device.allocation(cuda.made("allocate_from_pool", 64, "", pool, 0)).kind == wanted


@pytest.mark.parametrize("most", [0, 4096])
def test_a_pool_with_a_limit_gives_no_more(cuda, most):
    pool = cuda.made("pool_create", struct.pack("<iiiiQQ", 1, 0, 1, 0, 0, most))
    at = cuda.made("allocate_from_pool", 4096, "", pool, 0)
    assert cuda.code("allocate_from_pool", 1, "", pool, 0) == (2 if most else 0)
    cuda.made("free", at)
    cuda.made("allocate_from_pool", 4095, "", pool, 0)


def test_a_pool_holds_whole_pieces_of_memory_and_each_high_mark_is_set_back_alone(cuda):
    assert [cuda.made("graph_memory", n) for n in range(4)] == [0] * 4
    pool = cuda.made("pool_create", struct.pack("<iiiiQQ", 1, 0, 1, 0, 0, 0))
    sizes = (1, MAPPING_BYTES - 1, 2)
    at = [cuda.made("allocate_from_pool", size, "", pool, 0) for size in sizes]
    assert [cuda.made("pool_attribute", pool, n) for n in (5, 6, 7, 8)] == [2 * MAPPING_BYTES, 2 * MAPPING_BYTES, sum(sizes), sum(sizes)]
    cuda.made("free", at[2])
    assert [cuda.made("pool_attribute", pool, n) for n in (5, 6, 7, 8)] == [MAPPING_BYTES, 2 * MAPPING_BYTES, sum(sizes[:2]), sum(sizes)]
    cuda.made("set_pool_attribute", pool, 8, 0)
    assert [cuda.made("pool_attribute", pool, n) for n in (5, 6, 7, 8)] == [MAPPING_BYTES, 2 * MAPPING_BYTES, MAPPING_BYTES, MAPPING_BYTES]
    cuda.made("set_pool_attribute", pool, 6, 0)
    assert [cuda.made("pool_attribute", pool, n) for n in (5, 6, 7, 8)] == [MAPPING_BYTES] * 4


# ---- Nodes, captures, memory


@pytest.mark.parametrize("seed", range(6))
def test_pieces_side_by_side_that_kernels_may_use_are_one_array(cuda, seed):
    """Pieces of one or two units at places of a range, in any order. What a program maps, allows, forbids and unmaps is an
    array from the first of the pieces beside each other to the last, with its contents.
    """
    rng, unit = random.Random(seed), MAPPING_BYTES
    sizes = rng.choice(((1, 1, 1, 1), (2, 1, 2, 1), (1, 2, 1, 1)))
    places = [sum(sizes[:n]) for n in range(4)]
    begin, kept = cuda.made("range_reserve", sum(sizes) * unit, 0), {}
    access, handles = {}, {n: cuda.made("physical_create", size * unit, b"", "") for n, size in enumerate(sizes)}
    spare = {size: cuda.made("physical_create", size * unit, b"", "") for size in sizes}
    for step in range(14):
        n = rng.randrange(4)
        at, size = begin + places[n] * unit, sizes[n] * unit
        if n in access:  # something is there
            assert cuda.code("range_map", at, size, 0, spare[sizes[n]]) == 1
        if n not in access:
            cuda.made("range_map", at, size, 0, handles[n])
            access[n] = 0
        elif access[n] and rng.random() < 0.4:
            cuda.made("range_unmap", at, size)
            del access[n]
        else:
            access[n] = 0 if access[n] and rng.random() < 0.5 else 3
            cuda.made("range_access", at, size, access[n])
        if access.get(n):
            kept.setdefault(n, (0, 0))
            assert (int(cuda.device.view(at, 1)[0]), int(cuda.device.view(at + size - 1, 1)[0])) == kept[n]
            kept[n] = step + 1, step + 101
            cuda.device.view(at, 1)[:], cuda.device.view(at + size - 1, 1)[:] = kept[n]
        runs = itertools.groupby(range(4), key=lambda n: bool(access.get(n)))
        for is_open, run in runs:
            pieces = list(run)
            first, whole = begin + places[pieces[0]] * unit, sum(sizes[n] for n in pieces) * unit
            for n in pieces:
                if is_open:
                    assert cuda.made("pointer", begin + places[n] * unit + 5)[:3] == (2, first, whole)
                else:
                    assert cuda.code("pointer", begin + places[n] * unit + 5) == 1
                if n in access:
                    assert cuda.made("range_access_at", begin + places[n] * unit) == access[n]
                else:
                    assert cuda.code("range_access_at", begin + places[n] * unit) == 1


def test_a_range_in_which_nothing_is_mapped_is_given_back_whatever_is_beside_it(cuda):
    unit = MAPPING_BYTES
    ranges = sorted(cuda.made("range_reserve", unit, 0) for _ in range(4))
    for at in (ranges[0], ranges[2]):
        cuda.made("range_map", at, unit, 0, cuda.made("physical_create", unit, b"", ""))
    assert [cuda.code("range_free", at, unit) for at in ranges] == [1, 0, 1, 0]
    cuda.made("range_unmap", ranges[0], unit)
    assert cuda.code("range_free", ranges[0], unit) == 0


def test_physical_memory_is_of_whole_pieces_and_goes_with_its_handle(cuda):
    unit, free = MAPPING_BYTES, cuda.made("memory_info")[0]
    assert [cuda.code("physical_create", size, b"", "") for size in (0, 1, unit - 1, unit + 1)] == [1] * 4
    assert cuda.made("memory_info")[0] == free
    first, second = (cuda.made("physical_create", size, b"", "") for size in (unit, 2 * unit))
    assert cuda.made("memory_info")[0] == free - 3 * unit
    cuda.made("physical_release", second)
    assert cuda.made("memory_info")[0] == free - unit
    at = cuda.made("range_reserve", unit, 0)
    cuda.made("range_map", at, unit, 0, first)
    cuda.made("physical_release", first)
    assert cuda.made("memory_info")[0] == free - unit  # it is mapped
    cuda.made("range_unmap", at, unit)
    assert cuda.made("memory_info")[0] == free


@pytest.mark.parametrize("shift", range(5))
@pytest.mark.parametrize("width", range(6))
def test_a_fill_is_of_aligned_elements_of_one_two_or_four_bytes(cuda, width, shift):
    at = cuda.made("allocate", 4096, "device", "")
    cuda.made("fill", at, 64, 0, 1, 64, 4, 0)
    code = cuda.code("fill", at + shift, 64, 0x87654321, width, 3, 2, 0)
    fits = width in (1, 2, 4) and shift % width == 0
    assert code == (0 if fits else 1)
    rows = cuda.device.view(at, 128).reshape(2, 64)
    wanted = bytes(64) if not fits else bytes(shift) + ((0x87654321).to_bytes(4, "little")[:width] * 3).ljust(64 - shift, b"\0")
    assert [bytes(row) for row in rows] == [wanted] * 2


@pytest.mark.parametrize(("at", "size", "code"), [(0, 4096, 0), (0, 4097, 1), (1, 4095, 0), (1, 4096, 1), (0, 0, 1), (4095, 1, 0)])
def test_advice_is_for_managed_memory_as_far_as_it_goes(cuda, at, size, code):
    managed, other = (cuda.made("allocate", 4096, kind, "") for kind in ("managed", "device"))
    assert [cuda.code("advise", begin + at, size, 1, 1, 0) for begin in (managed, other)] == [code, 1]
    assert cuda.code("prefetch", managed + at, size, 1, 0, 0) == code
    assert cuda.code("advised", managed + at, size, 1, 1) == code


def test_an_edge_has_two_nodes_and_a_node_tells_numbers_of_its_own_kind(cuda):
    graph = cuda.made("graph_create")
    nodes = [cuda.made("graph_add_empty", graph, b"") for _ in range(3)]
    for name in ("graph_depend", "graph_part"):
        assert cuda.code(name, graph, packed(*nodes[:2]), packed(nodes[2])) == 999  # the C side counts wrongly
    assert cuda.code("node_given", nodes[0], "empty") == 1
    assert cuda.made("graph_nodes", graph, 0)[0] == 3


def test_a_graph_that_allocates_keeps_its_nodes_and_edges(cuda):
    graph = cuda.made("graph_create")
    first, second = cuda.made("graph_add_empty", graph, b""), cuda.made("graph_add_empty", graph, b"")
    cuda.made("graph_depend", graph, packed(first), packed(second))
    cuda.made("graph_add_alloc", graph, b"", 4096, struct.pack("<4iQQ56x", 1, 0, 1, 0, 0, 0), "")
    assert cuda.code("graph_part", graph, packed(first), packed(second)) == 801
    assert cuda.code("node_destroy", first) == 801
    assert cuda.made("node_links", second, 0, 9) == (1, packed(first))


def test_a_stream_that_joins_a_capture_is_captured_and_cannot_end_it(cuda):
    origin, other, event = cuda.made("stream_create", 0, 0), cuda.made("stream_create", 0, 0), cuda.made("event_create", 0)
    cuda.made("capture_begin", origin, 0)
    cuda.made("event_record", event, origin)
    cuda.made("stream_wait", other, event)
    at = cuda.made("allocate", 4096, "managed", "")
    assert cuda.made("capture_status", other) == cuda.made("capture_status", origin)
    cuda.made("prefetch", at, 4096, 1, 0, other)
    graph = cuda.made("capture_status", other)[1]
    assert [cuda.made("node_type", node) for node in handles(cuda.made("graph_nodes", graph, 9)[1])] == [5]
    assert cuda.code("capture_end", other) == 903
    assert cuda.code("capture_end", origin) == 904  # what the other stream has done is not joined


def test_attributes_that_a_stream_keeps_are_its_own_bytes(cuda):
    stream = cuda.made("stream_create", 0, 0)
    for number, value in ((1, struct.pack("<16s", b"window")), (3, struct.pack("<i", 2)), (8, struct.pack("<i", -2))):
        size = len(cuda.made("stream_attribute", stream, number))
        cuda.made("stream_set_attribute", stream, number, value.ljust(size + 8, b"+"))
        assert cuda.made("stream_attribute", stream, number) == value.ljust(size, b"+")[:size]
    assert cuda.made("stream_info", stream)[0] == -2


def test_what_no_program_allocated_is_no_pointer_of_it(cuda):
    array = cuda.made("array_create_of", 64, 0, 0, 1, 1, 0, 0, "")
    address = cuda.made("array_about", array)[0]
    for name, given in (
        ("pointer", (address,)),
        ("keep_of_pointer", (address, 6, 1)),
        ("kept_of_pointer", (address, 6)),
        ("free", (address,)),
    ):
        assert cuda.code(name, *given) == 1, name


@pytest.mark.parametrize("align", [0, 1, 2, 3, 4, 6, 1 << 21, 3 << 21, 1 << 22])
def test_an_alignment_is_a_power_of_two(cuda, align):
    assert cuda.code("range_reserve", MAPPING_BYTES, align) == (align not in {0, *(1 << n for n in range(30))})


# ---- Textures: CUDA_TEXTURE_DESC and CUDA_RESOURCE_DESC


@pytest.mark.parametrize("form", ARRAY_FORMATS)
def test_flags_of_the_drivers_textures_mean_what_cuda_h_says(cuda, form):
    """CU_TRSF_READ_AS_INTEGER 1, NORMALIZED_COORDINATES 2, SRGB 0x10, SEAMLESS_CUBEMAP 0x40; s32 and u32 stay."""
    kind, bits = ARRAY_FORMATS[form]
    array = cuda.made("array_create_of", 8, 8, 0, form, 1, 0, 0, "")
    for flags in filter(lambda flags: not flags & ~0x53, range(0x80)):
        how = struct.pack("<4iIIi3f4f48x", 0, 1, 3, 0, flags, 16, 1, 0.5, 1.5, 2.5, 7, 8, 9, 10)
        s = cuda.device.machine.memory.objects[cuda.made("texture_create_of", resource(0, array, 0, 0, 0, 0, 0), how)].sampler
        assert s.gives_floats == (kind != "float" and bits < 32 and not flags & 1)
        assert (s.is_normalized, s.is_srgb, s.is_seamless) == (bool(flags & 2), bool(flags & 0x10), bool(flags & 0x40))
        assert (s.address, s.is_linear, s.is_linear_between_levels) == (("wrap", "clamp", "border"), False, True)
        assert (s.bias, s.least_level, s.most_level, s.border) == (0.5, 1.5, 2.5, (7, 8, 9, 10))


@pytest.mark.parametrize("dimension", range(3))
def test_each_dimension_has_an_address_mode_that_there_is(cuda, dimension):
    array = cuda.made("array_create_of", 8, 8, 8, 1, 1, 0, 0, "")
    for mode in range(-1, len(ADDRESS_MODES) + 2):
        modes = [1, 1, 1]
        modes[dimension] = mode
        code = cuda.code("texture_create_of", resource(0, array, 0, 0, 0, 0, 0), struct.pack("<3i92x", *modes))
        assert code == (mode not in range(4)), mode


def test_an_array_of_every_format_has_channels_of_its_bits(cuda):
    """The driver's format and number of channels against cudaChannelFormatDesc, and back."""
    for (form, (kind, bits)), count in itertools.product(ARRAY_FORMATS.items(), (1, 2, 4)):
        array = cuda.made("array_create_of", 4, 0, 0, form, count, 0, 0, "")
        channel = cuda.made("array_about", array)[-1]
        assert struct.unpack("<5i", channel) == (*[bits] * count, *[0] * (4 - count), ("signed", "unsigned", "float").index(kind))
        assert cuda.made("array_about", array)[1] == bits * count // 8
        assert cuda.made("array_format", cuda.made("array_create", channel, 4, 0, 0, 0, 0, "")) == (form, count)


def test_a_texture_reads_the_memory_that_its_resource_names(cuda):
    """Linear memory, pitched memory, an array; of the runtime's calls and of the driver's."""
    at, channel = cuda.made("allocate", 4096, "device", ""), struct.pack("<5i", 32, 0, 0, 0, 2)
    array = cuda.made("array_create_of", 8, 4, 0, 0x20, 1, 0, 0, "")
    of_runtime, of_driver = bytes(72), bytes(104)
    objects = cuda.device.machine.memory.objects
    pairs = (
        ("texture_create", (2, 0, at, channel, 256, 0, 0, of_runtime)), ("texture_create_of", (resource(2, at, 0x20, 1, 256, 0, 0), of_driver)),
        ("texture_create", (3, 0, at, channel, 8, 4, 64, of_runtime)), ("texture_create_of", (resource(3, at, 0x20, 1, 8, 4, 64), of_driver)),
        ("texture_create", (0, array, 0, channel, 0, 0, 0, of_runtime)), ("texture_create_of", (resource(0, array, 0, 0, 0, 0, 0), of_driver)),
    )  # fmt: skip
    places = []
    for name, given in pairs:
        image = objects[cuda.made(name, *given)].image
        places.append((image.data.ctypes.data, image.width, image.data.shape[1], image.format.kind, image.format.bits))
    lies = cuda.device.allocation(at)
    assert places[:4] == [(lies.address, 64, 1, "float", 32)] * 2 + [(lies.address, 8, 4, "float", 32)] * 2
    assert places[4] == places[5] == (cuda.made("array_about", array)[0], 8, 4, "float", 32)
    assert cuda.code("texture_create_of", resource(5, at, 0x20, 1, 256, 0, 0), of_driver) == 1


def is_array(width, height, depth, *, layered, cube):
    """cuda_runtime_api.h, cudaMalloc3DArray: 1D, 2D and 3D, layers of 1D and 2D in the depth, cubes of six faces."""
    if cube:
        return width == height > 0 and depth > 0 and depth % 6 == 0 and (layered or depth == 6)
    if layered:
        return width > 0
    return width > 0 and (depth == 0 or height > 0)


def test_an_array_has_the_extents_that_arrays_have(cuda):
    for (*extent,), (layered, cube) in itertools.product(
        itertools.product((0, 1, 6, 7), (0, 1, 6), (0, 1, 6, 12)), itertools.product((0, 1), (0, 4))
    ):
        code, made = cuda.answer("array_create_of", [*extent, 1, 1, layered | cube, 0, ""])
        assert (code == 0) == is_array(*extent, layered=layered, cube=cube), (extent, layered, cube)
        if code == 0:
            _, _, row, rows, *told, _, _ = cuda.made("array_about", *made)
            assert (told, row, rows) == (extent, extent[0], max(1, extent[1]))
            assert cuda.device.allocation(cuda.made("array_about", *made)[0]).size == extent[0] * max(1, extent[1]) * max(1, extent[2])


@pytest.mark.parametrize(("extent", "flags"), [((8, 4, 0), 0), ((8, 8, 8), 0), ((8, 4, 3), 1), ((4, 4, 6), 4), ((5, 0, 0), 0)])
def test_levels_of_an_array_are_halves_one_behind_the_other(cuda, extent, flags):
    """Down to one texel; layers and faces stay. As many as are asked for, and no more than there are."""
    most = max(extent[: 2 if flags else 3]).bit_length()
    for asked in (1, 2, 9):
        array = cuda.made("array_create_of", *extent, 1, 1, flags, asked, "")
        at = cuda.made("array_about", array)[0]
        for n in range(min(asked, most)):
            place, *_, width, height, depth, _, _ = cuda.made("array_about", cuda.made("array_level", array, n))
            halves = [max(1, size >> n) if size else 0 for size in extent]
            halves[2] = extent[2] if flags else halves[2]
            assert ([width, height, depth], place) == (halves, at)
            at += width * max(1, height) * max(1, depth)
        assert [cuda.code("array_level", array, n) for n in (-1 % TWO_64, min(asked, most))] == [1, 1]
        if min(asked, most) > 1:
            assert cuda.code("array_free", cuda.made("array_level", array, 1)) == 1
        cuda.made("array_free", array)


@pytest.mark.parametrize("bits", list(itertools.product((0, 8, 16), repeat=3)))
def test_channels_are_one_two_or_four_of_one_width(cuda, bits):
    for kind, last in itertools.product(range(4), (0, 8)):
        used = [*bits, last]
        count = next((n for n, b in enumerate(used) if not b), 4)
        fits = count in (1, 2, 4) and not any(used[count:]) and len({*used[:count]}) == 1 and kind < 3 and (kind < 2 or used[0] == 16)
        assert cuda.code("array_create", struct.pack("<5i", *used, kind), 4, 0, 0, 0, 0, "") == (0 if fits else 20), (used, kind)


# ---- Tensor maps


@pytest.mark.parametrize("corner", [(0, 0), (-3, 2), (5, -1), (-(1 << 15), (1 << 15) - 1)])
def test_corners_of_wide_maps_have_signs(cuda, corner):
    """The bytes of such a map are not modelled: what counts is what is asked for."""
    asked = {}
    cuda.device.encode = lambda call, **given: asked.update(given, call=call) or b""
    dim, strides = np.array([64, 64, 8, 8], np.uint64).tobytes(), np.array([128, 8192, 65536], np.uint64).tobytes()
    cuda.made("encode_im2col_wide", 6, 4, 1 << 20, dim, strides, *(n % TWO_64 for n in corner), 64, 16, bytes(16), 0, 1, 3, 2, 0)
    assert (asked["call"], asked["global_dim"], asked["global_strides"]) == ("im2col_wide", (64, 64, 8, 8), (128, 8192, 65536))
    assert (asked["pixel_box_lower_corner_width"], asked["pixel_box_upper_corner_width"]) == corner
    assert [asked[name] for name in ("interleave", "mode", "swizzle", "l2_promotion", "oob_fill")] == [0, 1, 3, 2, 0]


# ---- Products


def product_of(cuda, kind, values, *, compute, scale=0, beta=0, d=None, name="gemm", batch=1, scalar="<f12x"):
    """D of a product of 1 x k and k x 1, alpha 1, and C the same place as D."""
    k = len(values[0])
    at = [cuda.made("allocate", max(v.nbytes, 64), "pinned", "") for v in values]
    for address, v in zip(at, values, strict=True):
        cuda.device.view(address, v.nbytes)[:] = v.view(np.uint8)
    d_type = {10: np.int32, 1: np.float64}.get(kind[1], np.float32)
    out = cuda.made("allocate", 64, "pinned", "") if d is None else d
    words = [
        0,
        0,
        1,
        1,
        k,
        batch,
        0,
        compute,
        scale,
        0,
        0,
        0,
        0,
        0,
        at[0],
        kind[0],
        1,
        0,
        0,
        at[1],
        kind[0],
        k,
        0,
        0,
        *[out, kind[1], 1, 0, 0] * 2,
    ]
    cuda.made("product", name, 0, struct.pack("<34q", *words) + struct.pack(scalar, 1) + struct.pack(scalar, beta))
    return cuda.device.memory.view(out, 64).view(d_type)[0]


def test_sums_are_as_wide_as_the_compute_type_says(cuda):
    """2^24 + 1 needs more than fp32 has."""
    big = np.array([1 << 12, 1], np.float32)
    assert product_of(cuda, (0, 0), (big, big), compute=68) == 1 << 24
    assert product_of(cuda, (1, 1), (big.astype(np.float64),) * 2, compute=70, scale=1, scalar="<d8x") == (1 << 24) + 1
    bytes_, count = np.full(1041, 127, np.int8), 127 * 127 * 1041
    assert product_of(cuda, (3, 10), (bytes_, bytes_), compute=72, scale=10, scalar="<i12x") == count


@pytest.mark.parametrize("beta", [0, 1])
def test_a_product_reads_its_operands_and_writes_d_alone(cuda, beta):
    """Reads count as the host's: they are uses of what kernels have stored there."""
    read, view = [], cuda.device.view
    out = cuda.made("allocate", 64, "pinned", "")
    cuda.device.memory.view(out, 4).view(np.float32)[:] = 5
    one = np.ones(2, np.float32)
    cuda.device.view = lambda address, size: read.append(address) or view(address, size)
    assert product_of(cuda, (0, 0), (one, one), compute=68, beta=beta, d=out) == 2 + 5 * beta
    assert (out in read) == bool(beta)
    assert len({*read}) == 2 + beta


@pytest.mark.parametrize("quiet", [False, True])
def test_a_product_says_once_that_it_is_a_reference(quiet):
    program, one = Program(quiet=quiet), np.ones(2, np.float32)
    for name, batch in (("gemm", 1), ("gemm", 1), ("other", 1), ("gemm", 3)):
        product_of(program, (0, 0), (one, one), compute=68, name=name, batch=batch)
    said = [
        f"{name}: 1 x 1 x 2{batch} (A f32, B f32, D f32): a reference by numpy, not simulated"
        for name, batch in (("gemm", ""), ("other", ""), ("gemm", " x 3"))
    ]
    assert program.told == ([] if quiet else said)
    assert program.device.code.references == {*said}
