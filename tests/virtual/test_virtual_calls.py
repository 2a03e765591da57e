"""The calls of CUDA's libraries as their C side makes them: handles are numbers, answers are an error code and results.
Everything runs in the process of the test.
"""

import ctypes
import struct

import numpy as np
import pytest

from driver_calls import OTHER, PTX, TWO_64, Program, handles, packed, resource
from smemsim import TensorMap
from smemsim.core.spec.cards import MAPPING_BYTES


@pytest.fixture
def cuda():
    return Program()


# ---- Handles


@pytest.mark.parametrize(
    ("make", "end", "use"),
    [
        (("stream_create", 0, 0), "stream_destroy", "synchronize"),
        (("event_create", 0), "event_destroy", "event_synchronize"),
        (("graph_create",), "graph_destroy", "graph_instantiate"),
        (("pool_create", struct.pack("<iiiiQQ", 1, 0, 1, 0, 0, 0)), "pool_destroy", "pool_use"),
        (("load", PTX.encode(), "", 0), "unload", "function_count"),
        (("physical_create", MAPPING_BYTES, b"", ""), "physical_release", "physical_properties"),
        (("array_create_of", 8, 0, 0, 1, 1, 0, 0, ""), "array_free", "array_about"),
    ],
)
def test_a_handle_works_until_it_is_destroyed_and_for_its_own_kind_alone(cuda, make, end, use):
    one, other = cuda.made(*make), cuda.made(*make)
    assert one != other
    assert cuda.code(use, one) == 0
    cuda.made(end, one)
    assert (cuda.code(use, one), cuda.code(use, other)) == (400, 0)
    assert cuda.code("user_object_retain", other, 1) == 400
    cuda.made("reset")
    assert cuda.code(use, other) == 709  # of before the reset
    assert cuda.code(use, other + 1000) == 400


@pytest.mark.parametrize("name", ["_keep", "nobody_has_this", "__init__"])
def test_a_call_that_nobody_has_is_not_supported(cuda, name):
    assert cuda.answer(name, []) == (801, ())


MAKING = {
    "stream_create": (0, 0), "event_create": (0,), "pool_create": (struct.pack("<iiiiQQ", 1, 0, 1, 0, 0, 0),), "load": (PTX.encode(), "", 0),
    "array_create_of": (8, 0, 0, 1, 1, 0, 0, ""), "array_create": (struct.pack("<5i", 8, 0, 0, 0, 1), 8, 0, 0, 0, 0, ""), "allocate": (64, "device", ""),
    "allocate_async": (64, "", 0), "limit": (0,), "set_limit": (0, 4096), "synchronize": (0,),
}  # fmt: skip


def test_after_a_fault_every_call_that_makes_or_asks_something_tells_of_it(cuda):
    module = cuda.made("load", PTX.encode(), "", 0)
    function, at, array = (
        cuda.made("function", module, "nothing"),
        cuda.made("allocate", 4096, "device", ""),
        cuda.made(*("array_create_of", *MAKING["array_create_of"])),
    )
    whole = resource(0, array, 0, 0, 0, 0, 0)
    using = {
        "function": (module, "fill"), "variable": (module, "counter"), "occupancy": (function, 64, 0), "clusters": (function, 64, 0, 1, 1, 1),
        "copy": (at, at + 64, 8, 3, 0), "fill": (at, 64, 0, 1, 64, 1, 0), "texture_create_of": (whole, bytes(104)), "texture_create": (0, array, 0, bytes(20), 0, 0, 0, bytes(88)),
        "launch": (function, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, b""), "unregister": (at,), "unload": (module,), "free_async": (at, 0), "surface_create_of": (whole,),
    }  # fmt: skip
    cuda.device.error = 719
    assert {name: cuda.code(name, *given) for name, given in (MAKING | using).items()} == dict.fromkeys(MAKING | using, 719)
    cuda.made("renew")
    assert {name: cuda.code(name, *given) for name, given in MAKING.items()} == dict.fromkeys(MAKING, 0)


# ---- Streams and events


@pytest.mark.parametrize(("asked", "given"), [(0, 0), (3, 0), (-1, -1), (-5, -5), (-7, -5)])
def test_a_stream_has_the_nearest_priority_that_the_card_has(cuda, asked, given):
    stream = cuda.made("stream_create", 1, asked % TWO_64)
    assert cuda.made("stream_info", stream) == (given, 1)
    assert cuda.made("stream_attribute", stream, 8) == struct.pack("<i", given)


def test_attributes_of_streams_are_their_own_and_the_default_streams_share_theirs(cuda):
    one, two = (cuda.made("stream_create", 0, 0) for _ in "ab")
    assert cuda.made("stream_info", 0) == (0, 0)
    cuda.made("stream_set_attribute", one, 3, struct.pack("<i", 2))
    cuda.made("stream_set_attribute", 2, 3, struct.pack("<i", 4))
    assert [struct.unpack("<i", cuda.made("stream_attribute", s, 3))[0] for s in (one, two, 0, 1)] == [2, -1, 4, 4]
    cuda.made("stream_copy_attributes", two, 0)
    cuda.made("stream_copy_attributes", 1, one)
    assert [struct.unpack("<i", cuda.made("stream_attribute", s, 3))[0] for s in (one, two, 2)] == [2, 4, 2]
    assert [cuda.code("stream_set_attribute", one, 3, struct.pack("<i", n)) for n in (0, 1, 4, 5)] == [1, 0, 0, 1]
    assert cuda.code("stream_attribute", one, 7) == 1


def test_the_time_between_events_is_told_in_microseconds(cuda):
    begin, end = (cuda.made("event_create", 0) for _ in "ab")
    assert cuda.code("event_elapsed", begin, end) == 400
    for event in (begin, end):
        cuda.made("event_record", event, 0)
    objects = cuda._objects
    objects[begin].time, objects[end].time = 1.0, 1.25
    assert cuda.made("event_elapsed", begin, end) == 250_000


def test_a_capture_is_told_while_it_lasts_and_takes_nodes_after_those_that_are_named(cuda):
    stream, other, event = cuda.made("stream_create", 0, 0), cuda.made("stream_create", 0, 0), cuda.made("event_create", 0)
    at = cuda.made("allocate", 16, "device", "")
    assert (cuda.code("capture_begin", 0, 0), cuda.made("capture_status", 0), cuda.made("capture_status", stream)) == (900, (0, 0), (0, 0))
    assert cuda.made("capture_nodes", 0, 4) == cuda.made("capture_nodes", stream, 4) == (0, b"")
    assert cuda.code("capture_after", stream, b"", 0) == 401
    cuda.made("capture_begin", stream, 0)
    status, graph = cuda.made("capture_status", stream)
    assert status == 1
    cuda.made("fill", at, 16, 1, 4, 4, 1, stream)
    count, first = cuda.made("capture_nodes", stream, 4)
    assert (count, len(first), cuda.made("capture_nodes", stream, 0)) == (1, 8, (1, b""))
    cuda.made("fill", at, 16, 2, 4, 4, 1, stream)
    cuda.made("capture_after", stream, first, 0)
    assert len(handles(cuda.made("capture_nodes", stream, 4)[1])) == 2
    cuda.made("capture_after", stream, first, 1)
    assert cuda.made("capture_nodes", stream, 4) == (1, first)
    cuda.made("event_record", event, stream)
    assert cuda.code("event_synchronize", event) == 900
    cuda.made("stream_wait", other, event)
    assert cuda.made("capture_status", other)[1] == graph
    cuda.made("stream_wait", stream, event)
    assert cuda.made("capture_end", stream) == graph
    assert cuda.made("capture_status", stream) == (0, 0)
    assert [cuda.made("node_type", node) for node in handles(cuda.made("graph_nodes", graph, 9)[1])] == [2, 2]


def test_a_capture_that_cannot_go_on_says_so(cuda):
    stream = cuda.made("stream_create", 0, 0)
    cuda.made("capture_begin", stream, 0)
    assert cuda.code("synchronize", stream) == 900
    assert cuda.made("capture_status", stream)[0] == 2
    assert cuda.code("capture_end", stream) == 901


def test_a_capture_into_a_graph_adds_to_its_nodes(cuda):
    stream, graph = cuda.made("stream_create", 0, 0), cuda.made("graph_create")
    cuda.made("graph_add_empty", graph, b"")
    cuda.made("capture_to", stream, graph, 0)
    at = cuda.made("allocate", 16, "device", "")
    cuda.made("fill", at, 16, 1, 4, 4, 1, stream)
    assert cuda.made("capture_end", stream) == graph
    assert [cuda.made("node_type", node) for node in handles(cuda.made("graph_nodes", graph, 9)[1])] == [5, 2]


# ---- Functions of the host


def test_functions_of_the_host_are_called_once_each_with_what_they_were_given(cuda):
    said = []
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda data: said.append(("call", data)))
    back = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)(lambda *given: said.append(("back", *given)))
    function, callback = (ctypes.cast(f, ctypes.c_void_p).value for f in (call, back))
    stream, graph = cuda.made("stream_create", 0, 0), cuda.made("graph_create")
    cuda.made("call_host", stream, function, 7)
    cuda.made("call_back", stream, callback, 8)
    assert said == [("call", 7), ("back", stream, 0, 8)]
    node = cuda.made("graph_add_host", graph, b"", function, 9)
    executable = cuda.made("graph_instantiate", graph)
    cuda.made("graph_set_host", executable, node, function, 10)
    cuda.made("graph_launch", executable, stream)
    held = cuda.made("user_object_create", function, 11, 2)
    cuda.made("graph_hold", graph, held, 1, 1)
    cuda.made("user_object_release", held, 1)
    assert said[2:] == [("call", 10)]
    assert cuda.code("graph_let_go", graph, held, 2) == 1
    cuda.made("graph_let_go", graph, held, 1)
    assert said[3:] == [("call", 11)]


# ---- Graphs and nodes


def chain(cuda):
    """(a graph, two empty nodes of it that run after one another, and one that does not)."""
    graph = cuda.made("graph_create")
    first = cuda.made("graph_add_empty", graph, b"")
    second = cuda.made("graph_add_empty", graph, packed(first))
    return graph, first, second, cuda.made("graph_add_empty", graph, b"")


@pytest.mark.parametrize("room", range(5))
def test_a_list_is_filled_as_far_as_there_is_room_and_counted_where_there_is_none(cuda, room):
    graph, first, second, alone = chain(cuda)
    assert cuda.made("graph_nodes", graph, room) == (min(room, 3) or 3, packed(*[first, second, alone][:room]))
    assert cuda.made("graph_roots", graph, room) == (min(room, 2) or 2, packed(*[first, alone][:room]))
    assert cuda.made("graph_edges", graph, room) == (1, packed(*[first][:room]), packed(*[second][:room]))
    assert cuda.made("node_links", first, 1, room) == (1, packed(*[second][:room]))
    assert cuda.made("node_links", second, 0, room) == (1, packed(*[first][:room]))
    assert cuda.made("node_links", first, 0, room) == cuda.made("node_links", second, 1, room) == (0, b"")


def test_edges_come_and_go_and_a_destroyed_node_has_none(cuda):
    graph, first, second, alone = chain(cuda)
    cuda.made("graph_depend", graph, packed(second, first), packed(alone, alone))
    assert handles(cuda.made("node_links", alone, 0, 9)[1]) == [second, first]
    assert cuda.code("graph_depend", graph, packed(second), packed(alone)) == 1
    cuda.made("graph_part", graph, packed(second), packed(alone))
    assert cuda.code("graph_part", graph, packed(second), packed(alone)) == 1
    text = cuda.made("graph_dot", graph).decode()
    assert text.endswith("}\n\0")
    assert [line for line in text.splitlines() if "->" in line] == ['"node_0" -> "node_1";', '"node_0" -> "node_2";']
    cuda.made("node_destroy", first)
    assert cuda.code("node_type", first) == 400
    assert cuda.made("graph_roots", graph, 9) == (2, packed(second, alone))


def test_a_clone_has_a_node_of_its_own_for_each(cuda):
    graph, first, second, _ = chain(cuda)
    clone = cuda.made("graph_clone", graph)
    own = [cuda.made("node_in_clone", node, clone) for node in (first, second)]
    assert not {*own} & {first, second}
    assert cuda.made("node_links", own[1], 0, 9) == (1, packed(own[0]))
    assert cuda.code("node_in_clone", first, graph) == 1


def test_what_an_instantiated_node_does_can_be_changed_and_switched_off(cuda):
    graph, at = cuda.made("graph_create"), cuda.made("allocate", 64, "device", "")

    def filled():
        return bytes(cuda.device.view(at, 16))

    to = cuda.made("graph_add_fill", graph, b"", at, 0, 1, 1, 4, 1)
    other = cuda.made("graph_add_fill", cuda.made("graph_create"), b"", at, 0, 1, 1, 4, 1)
    made = cuda.made("graph_instantiate", graph)
    cuda.made("fill", at, 64, 0, 1, 64, 1, 0)
    cuda.made("graph_launch", made, 0)
    assert filled() == bytes([1] * 4 + [0] * 12)
    cuda.made("graph_set_fill", made, to, at, 8, 2, 2, 2, 2)  # two rows of two numbers of 2 bytes, 8 bytes apart
    cuda.made("graph_launch", made, 0)
    assert filled() == bytes([2, 0, 2, 0, 0, 0, 0, 0] * 2)
    assert struct.unpack("<6Q", cuda.made("node_given", to, "memset")) == (at, 0, 1, 1, 4, 1)  # the graph's own
    assert cuda.code("node_given", to, "memcpy") == 1
    cuda.made("node_enable", made, to, 0)
    assert (cuda.made("node_is_enabled", made, to), cuda.made("node_is_enabled", 0, to)) == (0, 1)
    cuda.made("fill", at, 64, 0, 1, 64, 1, 0)
    cuda.made("graph_launch", made, 0)
    assert filled() == bytes(16)
    assert cuda.code("node_enable", made, other, 1) == 1
    assert cuda.code("graph_set_copy", made, to, at, 8, at + 8, 8, 8, 1) == 1  # a fill becomes no copy
    cuda.made("node_enable", made, to, 1)
    cuda.made("graph_set_fill", 0, to, at, 0, 5, 1, 16, 1)
    cuda.made("graph_update", made, graph)
    cuda.made("graph_launch", made, 0)
    assert filled() == bytes([5] * 16)
    cuda.made("graph_add_empty", graph, b"")
    assert cuda.code("graph_update", made, graph) == 910


@pytest.mark.parametrize(("cooperative", "code"), [(0, 0), (1, 720)])
def test_a_cooperative_node_stays_so_with_other_parameters(cuda, cooperative, code):
    """The call that sets them does not name it: a grid that is not on the card at once is refused."""
    at, function = cuda.made("allocate", 64, "device", ""), cuda.made("function", cuda.made("load", PTX.encode(), "", 0), "fill")
    stream, bank = cuda.made("stream_create", 1, 0), struct.pack("<QI", at, 9)
    cuda.made("capture_begin", stream, 0)
    cuda.made("launch", function, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, stream, cooperative, 0, bank)
    graph = cuda.made("capture_end", stream)
    (node,) = handles(cuda.made("graph_nodes", graph, 4)[1])
    assert cuda.code("graph_set_kernel", 0, node, function, 1 << 20, 1, 1, 1, 1, 1, 0, bank) == code


def test_a_node_says_what_it_was_made_of(cuda):
    graph, at, module = cuda.made("graph_create"), cuda.made("allocate", 64, "device", ""), cuda.made("load", PTX.encode(), "", 0)
    function = cuda.made("function", module, "fill")
    bank = struct.pack("<QI", at, 9)
    kernel = cuda.made("graph_add_kernel", graph, b"", function, 1, 1, 1, 4, 1, 1, 0, bank)
    assert cuda.made("node_kernel", kernel) == (function, 1, 1, 1, 4, 1, 1, 0, bank)
    copy = cuda.made("graph_add_copy", graph, packed(kernel), at + 32, 16, at, 16, 16, 1)
    assert struct.unpack("<6Q", cuda.made("node_given", copy, "memcpy")) == (at + 32, 16, at, 16, 16, 1)
    made = cuda.made("graph_instantiate", graph)
    cuda.made("graph_launch", made, 0)
    assert cuda.device.view(at + 32, 16).view(np.uint32).tolist() == [9] * 4
    cuda.made("graph_set_kernel", made, kernel, function, 1, 1, 1, 2, 1, 1, 0, struct.pack("<QI", at, 4))
    cuda.made("graph_launch", made, 0)
    assert cuda.device.view(at + 32, 16).view(np.uint32).tolist() == [4, 4, 9, 9]
    event = cuda.made("event_create", 0)
    record, wait = (cuda.made("graph_add_event", graph, b"", event, is_wait) for is_wait in (0, 1))
    assert [struct.unpack("<Q", cuda.made("node_given", node, kind))[0] for node, kind in ((record, "record"), (wait, "wait"))] == [
        event
    ] * 2
    child = cuda.made("graph_create")
    cuda.made("graph_add_empty", child, b"")
    inner = cuda.made("graph_add_child", graph, packed(copy), child)
    assert cuda.made("graph_nodes", cuda.made("node_graph", inner), 0)[0] == 1
    assert [cuda.made("node_type", node) for node in (kernel, copy, record, wait, inner)] == [0, 1, 7, 6, 4]
    assert [cuda.code(name, copy) for name in ("node_kernel", "node_graph")] == [1, 1]
    assert cuda.code("node_bodies", copy, 1) == 1


@pytest.mark.parametrize(("kind", "count", "value", "ran"), [
    (0, 1, 1, [1]), (0, 1, 0, []), (0, 2, 0, [2]), (2, 3, 1, [2]), (2, 3, 3, []), (2, 1, 0, [1]),
])  # fmt: skip
def test_a_conditional_node_runs_the_graph_that_its_value_says(cuda, kind, count, value, ran):
    graph, at = cuda.made("graph_create"), cuda.made("allocate", 16, "device", "")
    condition = cuda.made("condition_create", graph, value, 1)
    assert cuda.code("graph_add_conditional", graph, b"", condition, 3, 1) == 1
    node, bodies = cuda.made("graph_add_conditional", graph, b"", condition, kind, count)
    for n, body in enumerate(handles(bodies)):
        cuda.made("graph_add_fill", body, b"", at + n, 0, n + 1, 1, 1, 1)
    assert cuda.made("node_bodies", node, 1) == (condition, kind, count, bodies[:8])
    assert cuda.made("node_type", node) == 13
    cuda.made("fill", at, 16, 0, 1, 16, 1, 0)
    made = cuda.made("graph_instantiate", graph)
    cuda.made("graph_launch", made, 0)
    assert [x for x in cuda.device.view(at, 16).tolist() if x] == ran
    stays = cuda.made("condition_create", graph, 1, 0)  # its value at the begin of a launch is the last one
    cuda.device.conditions[stays].value = 7
    cuda.made("graph_launch", made, 0)
    assert [cuda.device.conditions[c].value for c in (condition, stays)] == [value, 7]


def test_memory_of_a_graph_is_counted_and_its_high_mark_can_be_set_back(cuda):
    graph, props = cuda.made("graph_create"), struct.pack("<4iQQ56x", 1, 0, 1, 0, 0, 0)
    node, address = cuda.made("graph_add_alloc", graph, b"", 4096, props, "")
    assert (cuda.made("node_props", node), cuda.made("node_type", node)) == (props, 10)
    end = cuda.made("graph_add_free", graph, packed(node), address)
    assert cuda.made("node_type", end) == 11
    assert cuda.code("node_destroy", node) == 801
    cuda.made("graph_launch", cuda.made("graph_instantiate", graph), 0)
    used, most = (cuda.made("graph_memory", n) for n in (0, 1))
    assert (used, most >= 4096) == (0, True)
    assert [cuda.code("set_graph_memory", number, value) for number, value in ((0, 0), (1, 5), (9, 0), (1, 0))] == [1, 1, 1, 0]
    assert cuda.made("graph_memory", 1) == 0
    assert cuda.code("graph_memory", 4) == 1
    cuda.made("trim_graph_memory")
    assert cuda.made("graph_memory", 2) == 0


def test_each_high_mark_of_the_memory_of_graphs_begins_again_alone_with_what_is_there(cuda):
    piece = 2 << 20  # bytes that are reserved together
    props = struct.pack("<4iQQ56x", 1, 0, 1, 0, 0, 0)
    for size, is_freed in ((4096, False), (3 * piece, True)):
        graph = cuda.made("graph_create")
        node, address = cuda.made("graph_add_alloc", graph, b"", size, props, "")
        if is_freed:
            cuda.made("graph_add_free", graph, packed(node), address)
        cuda.made("graph_launch", cuda.made("graph_instantiate", graph), 0)

    def sizes():
        return [cuda.made("graph_memory", number) for number in range(4)]

    reserved = 4 * piece
    assert sizes() == [4096, 4096 + 3 * piece, reserved, reserved]
    cuda.made("trim_graph_memory")
    assert sizes() == [4096, 4096 + 3 * piece, piece, reserved]
    cuda.made("set_graph_memory", 1, 0)
    assert sizes() == [4096, 4096, piece, reserved]
    cuda.made("set_graph_memory", 3, 0)
    assert sizes() == [4096, 4096, piece, piece]


# ---- Pools


def test_a_pool_has_flags_and_sizes_and_the_default_ones_stay(cuda):
    pool = cuda.made("pool_create", struct.pack("<iiiiQQ", 1, 0, 1, 0, 0, 0))
    default = cuda.made("pool_default", 1, 1)
    assert (default, cuda.made("pool_current")) == (cuda.made("pool_default", 1, 0), default)
    assert len({cuda.made("pool_default", *of) for of in ((1, 1), (1, 2), (1, 4), (2, 1))}) == 3
    assert [cuda.code("pool_default", *of) for of in ((0, 1), (3, 1), (1, 5))] == [1, 1, 1]
    assert [cuda.made("pool_attribute", pool, n) for n in (1, 2, 3, 4)] == [1, 1, 1, 0]
    for n in (1, 4):
        cuda.made("set_pool_attribute", pool, n, 7)
    assert [cuda.made("pool_attribute", pool, n) for n in (1, 2, 3, 4)] == [7, 1, 1, 7]
    assert cuda.made("pool_attribute", default, 1) == 1
    at = cuda.made("allocate_from_pool", 4096, "", pool, 0)
    assert [cuda.made("pool_at", address) for address in (at, at + 4095, 64)] == [pool, pool, 0]
    cuda.made("free_async", at, 0)
    assert [cuda.made("pool_attribute", pool, n) for n in (7, 8)] == [0, 4096]
    assert [cuda.code("set_pool_attribute", pool, n, value) for n, value in ((8, 1), (7, 0), (9, 0), (8, 0))] == [1, 1, 1, 0]
    assert cuda.made("pool_attribute", pool, 8) == 0
    assert cuda.code("pool_attribute", pool, 9) == 1
    cuda.made("pool_use", pool)
    assert cuda.made("pool_at", cuda.made("allocate_async", 64, "", 0)) == pool
    assert cuda.code("pool_destroy", default) == 1
    cuda.made("pool_destroy", pool)
    assert cuda.made("pool_current") == default
    extra = cuda.made("pool_create", struct.pack("<iiiiQQ", 1, 0, 1, 0, 0, 0))
    cuda.made("pool_destroy", extra)
    assert cuda.made("pool_current") == default


# ---- Memory


def test_an_address_says_which_memory_it_lies_in(cuda):
    kinds = {"device": 2, "managed": 3, "pinned": 1}
    at = {kind: cuda.made("allocate", 4096, kind, "") for kind in kinds}
    for kind, number in kinds.items():
        assert cuda.made("pointer", at[kind] + 4095)[:3] == (number, at[kind], 4096)
        assert cuda.made("range", at[kind] + 4095) == (at[kind], 4096)
        assert cuda.code("check_host", at[kind]) == (kind == "device")
    assert len({cuda.made("pointer", address)[3] for address in at.values()}) == 3
    assert [cuda.code(name, 64) for name in ("pointer", "range", "check_host")] == [1, 500, 1]
    cuda.made("keep_of_pointer", at["device"] + 8, 6, 1)
    cuda.made("keep_of_pointer", at["device"], 7, 5)
    assert [cuda.made("kept_of_pointer", at["device"], n) for n in (6, 7, 8)] == [1, 5, 0]
    assert cuda.made("kept_of_pointer", at["pinned"], 6) == 0
    free, total = cuda.made("memory_info")
    cuda.made("free", at["device"])
    assert cuda.made("memory_info") == (free + 4096, total)
    assert cuda.code("pointer", at["device"]) == 1


def test_memory_of_the_program_is_known_while_it_is_registered(cuda):
    held = np.zeros(8192, np.uint8)
    address = -(-held.ctypes.data // 4096) * 4096
    cuda.made("register", address, 4096, "")
    assert cuda.made("pointer", address)[0] == 1
    assert cuda.code("check_host", address) == 0
    cuda.made("unregister", address)
    assert cuda.code("pointer", address) == 1


def test_copies_and_fills_go_to_the_rows_that_they_name(cuda):
    at, held = cuda.made("allocate", 64, "device", ""), np.arange(64, dtype=np.uint8)
    cuda.made("copy", at, held.ctypes.data, 64, 1, 0)
    cuda.made("copy_2d", at + 4, 16, at + 32, 8, 2, 3, 3, 0)
    cuda.made("fill", at + 2, 16, 0xABCD, 2, 1, 2, 0)
    expected = held.copy()
    for row in range(3):
        expected[4 + 16 * row : 6 + 16 * row] = held[32 + 8 * row : 34 + 8 * row]
    for row in range(2):
        expected[2 + 16 * row : 4 + 16 * row] = 0xCD, 0xAB
    assert cuda.device.view(at, 64).tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("size", "align", "code"),
    [(0, 0, 1), (MAPPING_BYTES + 1, 0, 1), (MAPPING_BYTES, 3, 1), (MAPPING_BYTES, 0, 0), (2 * MAPPING_BYTES, 8 * MAPPING_BYTES, 0)],
)
def test_a_range_of_addresses_is_of_whole_pieces_and_aligned(cuda, size, align, code):
    assert cuda.code("range_reserve", size, align) == code
    if not code:
        at = cuda.made("range_reserve", size, align)
        assert at % max(align, MAPPING_BYTES) == 0
        cuda.made("range_free", at, size)
        assert cuda.code("range_free", at, size) == 1


def test_physical_memory_is_there_until_its_last_handle_and_mapping_are_gone(cuda):
    size, free = MAPPING_BYTES, cuda.made("memory_info")[0]
    at, handle = cuda.made("range_reserve", 2 * size, 0), cuda.made("physical_create", size, b"about", "")
    assert cuda.made("physical_properties", handle) == b"about"
    assert [
        cuda.code("range_map", at + offset, size + more, begin, handle)
        for offset, more, begin in ((0, 0, 8), (0, size, 0), (4096, 0, 0), (2 * size, 0, 0))
    ] == [1] * 4
    cuda.made("range_map", at, size, 0, handle)
    assert cuda.code("range_map", at + size, size, 0, handle) == 801  # at two places at once
    assert (cuda.made("range_access_at", at), cuda.code("range_access_at", at + size)) == (0, 1)
    assert cuda.code("pointer", at) == 1
    cuda.made("range_access", at, size, 3)
    assert (cuda.made("range_access_at", at + size - 1), cuda.made("pointer", at + 5)[:3]) == (3, (2, at, size))
    cuda.device.view(at, 4)[:] = 1, 2, 3, 4
    again = cuda.made("physical_at", at)
    cuda.made("physical_release", handle)
    assert cuda.code("range_free", at, 2 * size) == 1
    assert cuda.code("range_unmap", at, 2 * size) == 1
    cuda.made("range_unmap", at, size)
    assert cuda.made("memory_info")[0] == free - size
    cuda.made("range_map", at + size, size, 0, again)
    cuda.made("range_access", at + size, size, 1)
    assert cuda.device.view(at + size, 4).tolist() == [1, 2, 3, 4]
    cuda.made("physical_release", again)
    assert cuda.made("memory_info")[0] == free - size
    cuda.made("range_unmap", at + size, size)
    assert cuda.made("memory_info")[0] == free


@pytest.mark.parametrize(
    ("advice", "place", "asked", "told"),
    [
        (1, (0, 0), 1, 1), (2, (0, 0), 1, 0), (3, (1, 0), 2, 0), (3, (2, 0), 2, -1), (3, (3, 5), 6, 5), (4, (0, 0), 2, -2), (3, (1, 0), 5, 1),
        (5, (1, 0), 3, 0), (5, (2, 0), 3, -1), (6, (1, 0), 3, -2), (None, (1, 0), 4, 0), (None, (2, 0), 4, -1), (None, (1, 0), 7, 1), (None, (3, 2), 8, 2),
        (3, (2, (1 << 32) - 1), 6, -1), (None, (2, (1 << 32) - 1), 8, -1),
    ],
)  # fmt: skip
def test_what_is_said_of_managed_memory_is_told_again(cuda, advice, place, asked, told):
    at = cuda.made("allocate", 4096, "managed", "")
    before = {1: 0, 2: -2, 3: -2, 4: -2, 5: 0, 6: -2, 7: 0, 8: -2}[asked]
    assert struct.unpack("<i", cuda.made("advised", at, 4096, asked, 1)) == (before,)
    if advice in (2, 4, 6):
        cuda.made("advise", at, 4096, advice - 1, 1, 0)
    cuda.made(*(("prefetch", at, 4096, *place, 0) if advice is None else ("advise", at, 4096, advice, *place)))
    assert struct.unpack("<i", cuda.made("advised", at, 4096, asked, 1)) == (told,)


def test_advice_that_there_is_not_is_refused(cuda):
    at = cuda.made("allocate", 4096, "managed", "")
    assert [cuda.code("advise", at, 4096, advice, kind, 0) for advice, kind in ((0, 1), (7, 1), (3, 0), (5, 5), (4, 0), (5, 4))] == [
        1,
        1,
        1,
        1,
        0,
        0,
    ]
    assert cuda.code("advised", at, 4096, 9, 1) == 1
    cuda.made("advise", at, 4096, 5, 1, 0)
    cuda.made("advise", at, 4096, 5, 2, 0)
    assert struct.unpack("<4i", cuda.made("advised", at, 4096, 3, 4)) == (0, -1, -2, -2)
    assert struct.unpack("<i", cuda.made("advised", at, 4096, 3, 1)) == (0,)


# ---- Code


def test_a_module_says_what_is_in_it_and_a_function_what_it_takes(cuda):
    module, other = cuda.made("load", PTX.encode(), "", 0), cuda.made("load", PTX.encode(), "", 0)
    count = cuda.made("function_count", module)
    functions = handles(cuda.made("functions", module, count))
    assert [len(handles(cuda.made("functions", module, n))) for n in (0, 1, 9)] == [0, 1, count]
    names = [cuda.made("function_name", f) for f in functions]
    assert sorted(names) == [b"fill\0", b"late\0", b"nothing\0"]
    assert [cuda.made("function", module, name[:-1].decode()) for name in names] == functions
    assert {cuda.made("function_module", f) for f in functions} == {module}
    assert cuda.made("function", other, "fill") not in functions
    layout = {name: cuda.made("function_layout", f) for name, f in zip(names, functions, strict=True)}
    assert layout[b"fill\0"] == (2, 12, struct.pack("<4I", 0, 8, 8, 4))
    assert layout[b"late\0"] == (2, 16, struct.pack("<4I", 0, 4, 8, 8))
    assert layout[b"nothing\0"] == (0, 0, b"")
    assert cuda.made("variable", module, "counter")[1] == 4
    assert [cuda.code(name, module, "none") for name in ("function", "variable")] == [500, 500]


def test_attributes_of_a_function_have_a_sign(cuda):
    function = cuda.made("function", cuda.made("load", PTX.encode(), "", 0), "fill")
    for value, code in ((100_000, 0), (TWO_64 - 1, 0), (0, 0)):
        assert cuda.code("set_function_attribute", function, 9, value) == code
        assert cuda.made("function_attribute", function, 9) == value - (value >> 63) * TWO_64


def test_a_linker_makes_one_module_of_several_texts(cuda):
    state = cuda.made("link_create")
    cuda.made("link_add", state, b"!<arch>\nmachine code", "libcudadevrt.a")
    for text in (PTX, OTHER):
        cuda.made("link_add", state, text.encode() + b"\0", "a.ptx")
    size = cuda.made("link_complete", state)
    text = cuda.made("link_text", state)
    assert (len(text), text[-1:]) == (size, b"\0")
    assert cuda.made("function_count", cuda.made("load", text, "", 0)) == 4
    assert cuda.code("link_add", cuda.made("link_create"), b"\x7fELF" + bytes(60), "a.o") == 209  # machine code without PTX


# ---- Launches


def test_a_launch_gets_its_shape_and_its_parameters(cuda):
    function, at = cuda.made("function", cuda.made("load", PTX.encode(), "", 0), "fill"), cuda.made("allocate", 64, "device", "")
    cuda.made("fill", at, 64, 0, 1, 64, 1, 0)
    cuda.made("launch", function, 1, 1, 1, 4, 1, 1, 0, 0, 0, 0, 0, 0, 0, struct.pack("<QI", at, 6))
    assert cuda.device.view(at, 64).view(np.uint32).tolist() == [6] * 4 + [0] * 12
    assert cuda.code("launch", function, 1, 1, 1, 2048, 1, 1, 0, 0, 0, 0, 0, 0, 0, struct.pack("<QI", at, 6)) == 1
    assert not cuda.is_running


def test_what_the_card_holds_at_once_is_asked_for_a_number_of_threads(cuda):
    function = cuda.made("function", cuda.made("load", PTX.encode(), "", 0), "nothing")
    assert [cuda.code("occupancy", function, threads, 0) for threads in (0, TWO_64 - 1)] == [1, 1]
    assert [cuda.made("occupancy", function, threads, 0) for threads in (1, 64, 128, 1024)] == [32, 32, 16, 2]
    most = cuda.made("available_shared", function, 1, 128)
    assert most >= cuda.made("available_shared", function, 2, 128) > 0
    assert cuda.made("cluster_size", function, 128, 0) == 8
    cuda.made("set_function_attribute", function, 14, 1)  # clusters that are not portable
    assert cuda.made("cluster_size", function, 128, 0) == 16
    assert [cuda.made("cluster_size", function, *too_much) for too_much in ((2048, 0), (128, 1 << 20))] == [1, 1]
    assert cuda.made("clusters", function, 128, 0, 0, 0, 0) >= cuda.made("clusters", function, 128, 0, 8, 1, 1) > 0


# ---- Arrays, textures, surfaces


def test_an_array_says_what_it_was_made_of_and_its_levels_keep_their_handles(cuda):
    array = cuda.made("array_create_of", 16, 8, 0, 0x20, 4, 0, 3, "")
    assert cuda.made("array_format", array) == (0x20, 4)
    place, size, row, rows, *extent, flags, channel = cuda.made("array_about", array)
    assert (place > 0, size, row >= 128, rows, extent, flags) == (True, 16, True, 8, [16, 8, 0], 0)
    assert struct.unpack("<5i", channel)[:4] == (32, 32, 32, 32)
    assert cuda.made("array_level", array, 1) == cuda.made("array_level", array, 1) != cuda.made("array_level", array, 0)
    same = cuda.made("array_create", channel, 16, 8, 0, 0, 0, "")
    assert cuda.made("array_format", same) == (0x20, 4)
    cuda.made("array_free", 0)  # of nothing
    assert [
        cuda.code("array_create_of", 16, 8, 0, form, channels, 0, 0, "") for form, channels in ((0x20, 3), (0x21, 1), (0x20, 0), (1, 2))
    ] == [1, 1, 1, 0]


def test_an_object_keeps_its_description_until_it_is_destroyed(cuda):
    array, how = cuda.made("array_create_of", 16, 8, 0, 0x20, 1, 2, 0, ""), bytes(104)
    at = cuda.made("allocate", 4096, "device", "")
    whole = resource(0, array, 0, 0, 0, 0, 0)
    texture = cuda.made("texture_create_of", whole, how)
    linear = cuda.made("texture_create_of", resource(2, at, 0x20, 1, 4096, 0, 0), how)
    surface = cuda.made("surface_create_of", whole)
    assert [cuda.made("object_resource", x) for x in (texture, surface)] == [whole, whole]
    assert (cuda.made("object_sampler", texture), cuda.made("object_sampler", surface)) == (how, b"")
    cuda.made("describe", texture, b"resource", b"sampler")
    assert (cuda.made("object_resource", texture), cuda.made("object_sampler", texture)) == (b"resource", b"sampler")
    # linear memory, and an address that is no mipmapped array
    assert [cuda.code("surface_create_of", resource(kind, at, 0x20, 1, 4096, 0, 0)) for kind in (2, 4, 1)] == [1, 1, 400]
    assert cuda.code("texture_create_of", resource(4, at, 0x20, 1, 4096, 0, 0), how) == 1
    assert cuda.code("texture_create_of", whole, struct.pack("<i", 4).ljust(104, b"\0")) == 1  # an address mode
    for x in (texture, linear, surface):
        cuda.made("object_destroy", x)
        assert cuda.code("object_resource", x) == 1


# ---- Tensor maps, the card


def test_tensor_maps_are_those_of_the_rules_with_the_signs_of_their_corners(cuda):
    def words(kind, *given):
        return np.array(given, kind).tobytes()

    raw = cuda.made(
        "encode_tiled",
        6,
        2,
        1 << 20,
        words(np.uint64, 64, 32),
        words(np.uint64, 128),
        words(np.uint32, 64, 8),
        words(np.uint32, 1, 1),
        0,
        3,
        0,
        0,
    )
    about = {
        "data_type": "f16",
        "global_address": 1 << 20,
        "global_dim": (64, 32),
        "global_strides": (128,),
        "box_dim": (64, 8),
        "swizzle": "128B",
    }
    assert raw == bytes(TensorMap.tiled(**about))
    assert cuda.made("replace_address", raw, 1 << 21) == bytes(TensorMap.tiled(**about | {"global_address": 1 << 21}))
    dim, strides, steps = words(np.uint64, 64, 8, 8, 2), words(np.uint64, 128, 1024, 8192), words(np.uint32, 1, 1, 1, 1)
    common = {
        "data_type": "f16",
        "global_address": 1 << 20,
        "global_dim": (64, 8, 8, 2),
        "global_strides": (128, 1024, 8192),
        "channels_per_pixel": 64,
        "pixels_per_column": 16,
        "swizzle": "128B",
    }
    raw = cuda.made(
        "encode_im2col", 6, 4, 1 << 20, dim, strides, words(np.int32, -1, -2), words(np.int32, 1, -1), 64, 16, steps, 0, 3, 0, 0
    )
    assert raw == bytes(TensorMap.im2col(pixel_box_lower_corner=(-1, -2), pixel_box_upper_corner=(1, -1), **common))


def test_settings_of_the_card_are_kept_and_others_refused(cuda):
    assert cuda.made("cache_config") == 0
    assert [cuda.code("set_cache_config", n) for n in (3, 4)] == [0, 1]
    assert cuda.made("cache_config") == 3
    assert [cuda.code(name, *given) for name, given in (("limit", (99,)), ("set_limit", (99, 1)), ("limit", (0,)))] == [215, 215, 0]
    cuda.made("set_limit", 0, 4096)
    assert cuda.made("limit", 0) == 4096
    assert cuda.made("total_memory") == cuda.made("memory_info")[1]
    assert cuda.made("device_name") == cuda.device.card.name.encode()


# ---- Products of cuBLAS

NUMPY = {0: np.float32, 1: np.float64, 2: np.float16, 3: np.int8, 10: np.int32}


def product(
    cuda,
    kinds,
    *,
    ops=(0, 0),
    m=5,
    n=4,
    k=3,
    batch=1,
    more=0,
    rows=False,
    beta=0,
    on_card=0,
    compute=68,
    scale=0,
    bias=False,
    scales=(0, 0),
):
    """(D of a product of cuBLAS, the same by numpy) of matrices with `more` elements between their lines."""
    rng, places, held, host = np.random.default_rng(3), [], {}, {}
    shapes = {"a": (m, k)[:: -1 if ops[0] else 1], "b": (k, n)[:: -1 if ops[1] else 1], "c": (m, n), "d": (m, n)}
    for side, kind in zip("abcd", kinds, strict=True):
        matrix = rng.integers(-4, 5, (batch, *shapes[side])).astype(NUMPY[kind])
        lines = matrix if rows else matrix.swapaxes(1, 2)  # of memory
        ld = lines.shape[2] + more
        raw = np.zeros((batch, lines.shape[1], max(ld, 1)), NUMPY[kind])
        raw[:, :, : lines.shape[2]] = lines
        at = cuda.made("allocate", max(raw.nbytes, 4), "device", "")
        cuda.device.view(at, raw.nbytes)[:] = raw.view(np.uint8).reshape(-1)
        places += [at, kind, raw.shape[2], raw[0].size, int(rows)]
        held[side], host[side] = matrix.astype(np.float64), (at, raw, lines.shape[2])
    number = {0: "<f12x", 1: "<d8x", 10: "<i12x"}[scale]
    scalars = [struct.pack(number, value) for value in (2, beta)]
    if on_card:
        for i, raw in enumerate(scalars):
            at = cuda.made("allocate", 16, "device", "")
            cuda.device.view(at, 16)[:] = np.frombuffer(raw, np.uint8)
            scalars[i] = struct.pack("<Q8x", at)
    given, factor = [0, 0], 2.0
    for i, value in enumerate(scales):
        if value:
            given[i] = cuda.made("allocate", 4, "device", "")
            cuda.device.view(given[i], 4).view(np.float32)[:] = value
            factor *= value
    at_bias, added = 0, np.arange(m)[:, None] if bias else 0
    if bias:
        at_bias = cuda.made("allocate", 4 * m, "device", "")
        cuda.device.view(at_bias, 4 * m).view(np.float32)[:] = np.arange(m)
    about = [*ops, m, n, k, batch, on_card, compute, scale, 0, at_bias, 0, *given]
    cuda.made("product", "cublasGemmEx", 0, struct.pack(f"<{len(about) + len(places)}q", *about, *places) + b"".join(scalars))
    at, raw, length = host["d"]
    lines = cuda.device.view(at, raw.nbytes).view(raw.dtype).reshape(raw.shape)
    assert not lines[:, :, length:].any()  # what lies between lines stays
    d = lines[:, :, :length] if rows else lines[:, :, :length].swapaxes(1, 2)
    a, b = (held[side].swapaxes(1, 2) if op else held[side] for side, op in zip("ab", ops, strict=True))
    return d.astype(np.float64), factor * (a @ b) + beta * held["c"] + added


@pytest.mark.parametrize("kinds", [(0, 0, 0, 0), (2, 2, 2, 0), (2, 2, 2, 2)])
@pytest.mark.parametrize(
    "about",
    [
        {}, {"rows": True}, {"ops": (1, 0), "more": 3}, {"ops": (0, 1), "batch": 3}, {"ops": (1, 1), "rows": True, "more": 1, "batch": 2, "beta": 3},
        {"k": 0, "beta": 2}, {"on_card": 1, "beta": -1}, {"bias": True, "scales": (2, 0)}, {"scales": (0.5, 4)}, {"m": 1, "n": 1, "more": 2},
    ],
    ids=str,
)  # fmt: skip
def test_a_product_of_cublas_is_the_product_of_its_matrices(cuda, kinds, about):
    found, expected = product(cuda, kinds, **about)
    assert np.array_equal(found, expected)


def test_products_of_integers_and_of_doubles_are_exact(cuda):
    for kinds, compute, scale in (((3, 3, 10, 10), 72, 10), ((1, 1, 1, 1), 70, 1), ((3, 3, 0, 0), 68, 0)):
        found, expected = product(cuda, kinds, compute=compute, scale=scale, beta=1, k=40)
        assert np.array_equal(found, expected)


def test_a_product_that_overflows_is_infinite_and_says_nothing(cuda, capfd):
    at = cuda.made("allocate", 16, "pinned", "")
    cuda.device.view(at, 16).view(np.float32)[:] = 3e38
    words = [0, 0, 2, 2, 2, 1, 0, 68, 0, 0, 0, 0, 0, 0, *[at, 0, 2, 4, 0] * 4]
    cuda.made("product", "cublasGemmEx", 0, struct.pack("<34q", *words) + struct.pack("<f12xf12x", 1, 0))
    assert np.isinf(cuda.device.view(at, 16).view(np.float32)).all()
    assert "Warning" not in capfd.readouterr().err


def product_code(cuda, *, about=(), place=()):
    """The error code of a product of 2 x 2 with some words changed."""
    at = cuda.made("allocate", 64, "pinned", "")
    words = [0, 0, 2, 2, 2, 1, 0, 68, 0, 0, 0, 0, 0, 0, *[at, 0, 2, 4, 0] * 4]
    for n, value in (*about, *((14 + n, value) for n, value in place)):
        words[n] = value
    return cuda.code("product", "cublasGemmEx", 0, struct.pack("<34q", *words) + struct.pack("<f12xf12x", 1, 0))


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({}, 0), ({"about": [(2, -1)]}, 1), ({"about": [(4, -1)]}, 1), ({"about": [(5, -1)]}, 1), ({"about": [(5, 0), (7, 99)]}, 0),
        ({"about": [(7, 99)]}, 801), ({"place": [(1, 99)]}, 801), ({"place": [(4, 2)]}, 801), ({"place": [(2, 1)]}, 1), ({"place": [(4, 1), (2, 1)]}, 1),
        ({"place": [(0, 64)]}, 1),
    ],
)  # fmt: skip
def test_a_product_that_cannot_be_has_its_code(cuda, changed, code):
    assert product_code(cuda, **changed) == code
