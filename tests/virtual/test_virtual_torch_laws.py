"""Laws of the shims of PyTorch, with a stand-in for PyTorch: which memory is the card's and for how long, streams and
events, what a function of torch does with memory, generators, graphs.
"""

import gc
import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from smemsim.virtual import (
    CudaError,
    Policy,
    VirtualDevice,
    process,
    torch_cuda,
    torch_graphs,
    torch_influence,
    torch_random,
    torch_taint,
    torch_tensors,
)
from smemsim.virtual.torch_tensors import CPU, CUDA, PINNED, Tensors
from torch_stand_in import Storage, Tensor, stand_in

SIGNED = 1 << 63


@pytest.fixture
def torch(monkeypatch):
    made = stand_in()
    monkeypatch.setitem(__import__("sys").modules, "torch", made)
    return made


@pytest.fixture
def device(monkeypatch, torch):
    made = VirtualDevice("sm_90a", policy=Policy(quiet=True), memory_bytes=1 << 20)
    monkeypatch.setattr(process, "device", lambda: made)
    monkeypatch.setattr(process, "card", lambda: made.card)
    streams = torch_cuda._Streams()
    for module in (torch_cuda, torch_graphs):
        monkeypatch.setattr(module, "streams", streams)
    return made


@pytest.fixture
def tensors(monkeypatch, device):
    made = Tensors()
    for module in (torch_tensors, torch_cuda, torch_graphs, torch_taint):
        monkeypatch.setattr(module, "tensors", made)
    return made


# ---- Which memory is the card's


@pytest.mark.parametrize("place", [CUDA, PINNED, CPU])
def test_memory_of_a_tensor_has_the_place_that_it_was_marked_with_first(torch, tensors, place):
    x = torch.empty(4)
    assert tensors.place(x) == CPU
    tensors.mark(x, place)
    tensors.mark(x, CUDA if place == CPU else CPU)
    assert tensors.place(x) == tensors.place(x.detach()) == place
    assert tensors.bytes == (0 if place == CPU else 16)
    assert {*tensors.live} == (set() if place == CPU else {x.data_ptr()})


def test_what_autograd_makes_in_backward_is_the_cards(torch, tensors):
    x, of_host = torch.empty(4), torch.empty(4)
    tensors.mark(of_host, CPU)
    torch._C._current_graph_task_id = lambda: 0
    assert (tensors.place(x), tensors.place(of_host)) == (CUDA, CPU)


def test_memory_is_counted_while_it_lives_and_the_most_of_it_stays(torch, tensors):
    x, y = torch.empty(100), torch.empty(50, dtype=torch.int64)
    for one in (x, y, x, x.detach()):
        tensors.mark(one, CUDA)
    assert (tensors.bytes, tensors.most_bytes, len(tensors.live)) == (800, 800, 2)
    del x, one
    gc.collect()
    assert (tensors.bytes, tensors.most_bytes, {*tensors.live}) == (400, 800, {y.data_ptr()})
    torch_cuda._reset_peak()
    assert tensors.most_bytes == 400


def test_a_launch_knows_the_memory_of_all_tensors_of_the_card_and_of_no_other(torch, device, tensors):
    x, y, of_host = torch.empty(16), torch.empty(8), torch.empty(8)
    tensors.mark(x, CUDA, "empty_of_mine")
    tensors.mark(of_host, CPU)
    assert device.allocation(x.data_ptr()) is None
    tensors.show()
    found = device.allocation(x.data_ptr())
    assert (found.address, found.size) == (x.data_ptr(), 64)
    assert "empty_of_mine, float32[16]" in found.told()
    assert device.allocation(of_host.data_ptr()) is None
    tensors.mark(y, PINNED)
    tensors.show()
    assert device.allocation(y.data_ptr()).size == 32
    at = x.data_ptr()
    del x, found
    gc.collect()
    tensors.show()
    assert device.allocation(at) is None
    assert device.allocation(y.data_ptr()) is not None


def test_a_storage_that_is_resized_is_followed(torch, device, tensors):
    x = torch.empty(16)
    tensors.mark(x, CUDA)
    tensors.show()
    old, x.storage.data = x.storage.data, np.zeros(256, np.uint8)
    tensors.mark(x, CUDA)
    assert (tensors.bytes, {*tensors.live}) == (256, {x.storage.data_ptr()})
    tensors.show()
    assert device.allocation(old.ctypes.data) is None
    assert device.allocation(x.storage.data_ptr()).size == 256
    x.storage.data = np.zeros(0, np.uint8)
    tensors.mark(x, CUDA)
    assert (tensors.bytes, tensors.live, tensors.most_bytes) == (0, {}, 256)


def test_memory_that_a_new_storage_has_is_no_dead_ones(torch, tensors):
    data = np.zeros(64, np.uint8)
    one, other = (Tensor(data.view(np.float32), torch.float32, Storage(data)) for _ in "ab")
    tensors.mark(one, CUDA)
    tensors.mark(other, CUDA)
    assert tensors.bytes == 64
    del one
    gc.collect()
    assert tensors.bytes == 64
    del other
    gc.collect()
    assert tensors.bytes == 0


@pytest.mark.parametrize(
    ("taken", "more", "fits"), [(0, 1 << 20, True), (0, (1 << 20) + 4, False), (1 << 19, 1 << 19, True), (1 << 19, (1 << 19) + 4, False)]
)
def test_a_card_that_is_full_gives_no_more(torch, tensors, taken, more, fits):
    kept = torch.empty(taken // 4)
    tensors.mark(kept, CUDA)
    x = torch.empty(more // 4)
    if fits:
        tensors.mark(x, CUDA)
        assert torch_cuda._memory_info() == ((1 << 20) - taken - more, 1 << 20)
    else:
        with pytest.raises(torch.OutOfMemoryError, match="CUDA out of memory"):
            tensors.mark(x, CUDA)
        assert tensors.bytes == taken


@pytest.mark.parametrize(
    ("made_by", "dtype", "place", "garbage"),
    [
        ("empty", "float32", CUDA, True), ("empty_like", "int64", CUDA, True), ("new_empty", "uint8", CUDA, True), ("zeros", "float32", CUDA, False),
        ("empty", "bool", CUDA, False), ("empty", "float32", PINNED, False), ("empty", "float32", CPU, False),
    ],
)  # fmt: skip
def test_uninitialised_memory_of_the_card_has_garbage(torch, device, tensors, made_by, dtype, place, garbage):
    """Not a bool's, whose bytes are 0 or 1, and once: what the program has written stays."""
    x = torch.empty(64, dtype=getattr(torch, dtype))
    tensors.mark(x, place, made_by)
    assert x.storage.data.any() == garbage
    x.storage.data[:] = 0
    tensors.mark(x, place, made_by)
    assert not x.storage.data.any()
    if place == CUDA:
        tensors.show()
        assert device.allocation(x.data_ptr()).is_littered == garbage


def test_a_policy_without_garbage_leaves_memory_as_it_is(torch, device, tensors):
    device.policy = Policy(quiet=True, fresh_memory="zeros")
    x = torch.empty(64)
    tensors.mark(x, CUDA, "empty")
    assert not x.storage.data.any()


def test_a_tensor_without_memory_has_a_mark_of_its_own_and_a_wrapper_that_of_what_it_wraps(torch, tensors):
    sparse, x = torch.WithoutMemory(), torch.empty(4)
    wrapper = torch.WithoutMemory()
    wrapper.wraps = x
    assert (tensors.place(sparse), tensors.place(wrapper)) == (CPU, CPU)
    tensors.mark(wrapper, CUDA)
    assert (tensors.place(wrapper), tensors.place(x), tensors.place(sparse)) == (CUDA, CUDA, CPU)
    tensors.mark(sparse, CUDA)
    tensors.mark(sparse, PINNED)
    assert tensors.place(sparse) == CUDA


def test_memory_that_compiled_code_takes_is_the_cards_unless_python_has_a_tensor_of_the_host_there(torch, device, tensors, monkeypatch):
    data, of_host, of_card = np.zeros(4096, np.uint8), torch.empty(16), torch.empty(16)
    regions = [(data.ctypes.data, 4096), (of_host.data_ptr(), 64), (of_card.data_ptr(), 64)]
    claimed = set()
    holding = lambda address: next(((begin, size) for begin, size in regions if begin <= address < begin + size), None)  # noqa: E731
    for name, what in (("holding", holding), ("claim", claimed.add), ("is_claimed", lambda address: address in claimed)):
        monkeypatch.setattr(torch_tensors.alignment, name, what)
    tensors.mark(of_host, CPU)
    tensors.mark(of_card, CUDA)
    for address in (data.ctypes.data + 100, of_host.data_ptr(), of_card.data_ptr(), 64):
        tensors.find(address)
    assert claimed == {data.ctypes.data}
    assert device.allocation(data.ctypes.data).size == 4096
    assert device.allocation(of_host.data_ptr()) is None
    x = Tensor(data.view(np.float32), torch.float32, Storage(data))
    assert tensors.place(x) == CUDA  # compiled code hands it to Python
    assert tensors.place(torch.empty(4)) == CPU
    tensors.show()
    assert device.allocation(data.ctypes.data).size == 4096
    del x
    gc.collect()
    claimed.clear()
    tensors.show()
    assert device.allocation(data.ctypes.data) is None


def test_tensors_are_found_in_what_holds_them(torch):
    x, y, z = (torch.empty(1) for _ in range(3))
    assert list(torch_tensors.tensors_in([x, (y,), {"a": z}, 3, None, {4: "b"}])) == [x, y, z]
    assert list(torch_tensors.tensors_in([[[x]]])) == [x]
    assert list(torch_tensors.tensors_in([[[[x]]]])) == []
    assert list(torch_tensors.tensors_in(x)) == [x]


@pytest.mark.parametrize(
    ("dtype", "kind"), [("float32", "f32"), ("float16", "f16"), ("bfloat16", "bf16"), ("int64", "s64"), ("int32", "s32"), ("uint8", "u8")]
)
def test_elements_are_called_as_in_launch_files(torch, dtype, kind):
    assert torch_tensors._elements(torch.empty(2, 3, dtype=getattr(torch, dtype))) == (kind, (2, 3))


# ---- torch.cuda


@pytest.mark.parametrize(("named", "wanted"), [("cuda", True), ("cuda:0", True), (0, True), ("cpu", False), ("meta", None)])
def test_a_device_is_the_card_or_not(torch, named, wanted):
    assert torch_cuda.is_cuda(named) is wanted


@pytest.mark.parametrize("named", ["cuda:1", 1, "cuda:7"])
def test_there_is_one_card(torch, named):
    with pytest.raises(torch.AcceleratorError, match="there is one card"):
        torch_cuda.is_cuda(named)


def test_a_stream_is_current_inside_its_context_alone(torch, device):
    names = {**torch_cuda._of_streams()}
    one, two = torch_cuda.CudaStream(), torch_cuda.CudaStream(priority=-2)
    assert one.cuda_stream != two.cuda_stream != 0 != one.cuda_stream
    assert (one.priority, two.priority, one.device_index, one.stream_id) == (0, -2, 0, one.cuda_stream)
    assert torch_cuda.streams.get(two.cuda_stream).priority == -2
    current = lambda: names["current_stream"]().cuda_stream  # noqa: E731
    assert current() == 0
    with one:
        assert current() == one.cuda_stream
        with two, two:
            assert current() == two.cuda_stream
        assert current() == one.cuda_stream
        names["set_stream"](None)
        assert current() == one.cuda_stream
    assert current() == 0
    names["set_stream"](two)
    assert current() == two.cuda_stream
    same = torch_cuda.CudaStream(stream_ptr=two.cuda_stream)
    assert same == two != one
    assert hash(same) == hash(two)
    assert (same == 3, same.__cuda_stream__(), same._as_parameter_.value) == (False, (0, two.cuda_stream), two.cuda_stream)
    assert torch_cuda.CudaStream(stream_id=7).cuda_stream == 7
    assert names["default_stream"]().cuda_stream == 0
    assert (one.query(), names["stream"](one)) == (True, one)
    with names["stream"](None):
        assert current() == two.cuda_stream


def test_events_measure_time_and_carry_a_capture(torch, device):
    begin, end, stream, other = torch_cuda.CudaEvent(), torch_cuda.CudaEvent(), torch_cuda.CudaStream(), torch_cuda.CudaStream()
    begin.record()
    end.record(stream)
    begin.event.time, end.event.time = 1.0, 1.5
    assert begin.elapsed_time(end) == 500
    assert begin.query()
    assert begin.cuda_event != end.cuda_event
    device.begin_capture(torch_cuda.streams.get(stream.cuda_stream))
    assert (stream.is_capturing(), other.is_capturing()) == (True, False)
    other.wait_stream(stream)
    assert other.is_capturing()
    with other:
        assert torch_graphs.is_capturing()
        assert torch_cuda._of_streams()["is_current_stream_capturing"]()
    assert not torch_graphs.is_capturing()


def test_what_trapped_is_raised_where_the_host_waits(torch, device):
    waits = (torch_cuda.synchronize, torch_cuda.CudaStream().synchronize, torch_cuda.CudaEvent().synchronize)
    for wait in waits:
        wait()
    device.error = 700
    for wait in waits:
        with pytest.raises(torch.AcceleratorError, match="CUDA error"):
            wait()


def test_an_error_is_a_runtime_error_where_torch_has_no_other(torch):
    del torch.AcceleratorError
    assert type(torch_cuda.accelerator_error(CudaError(1, "why"))) is RuntimeError
    torch.AcceleratorError = lambda: None  # of another signature
    assert type(torch_cuda.accelerator_error(CudaError(1, "why"))) is RuntimeError


def test_statistics_of_memory_are_those_of_the_tensors(torch, tensors):
    x = torch.empty(64)
    tensors.mark(x, CUDA)
    y = torch.empty(64)
    tensors.mark(y, CUDA)
    del y
    gc.collect()
    stats, names = torch_cuda._memory_stats(), torch_cuda._of_memory()
    for what, now in (
        ("allocated_bytes", 256),
        ("active_bytes", 256),
        ("reserved_bytes", 256),
        ("requested_bytes", 256),
        ("allocation", 1),
        ("segment", 1),
    ):
        most = 512 if what.endswith("_bytes") else 1
        assert (stats[f"{what}.all.current"], stats[f"{what}.all.peak"], stats[f"{what}.small_pool.current"]) == (now, most, 0), what
    assert (stats["inactive_split_bytes.all.peak"], stats["num_ooms"], stats["oversize_segments.peak"], stats["max_split_size"]) == (
        0,
        0,
        0,
        -1,
    )
    assert (names["memory_allocated"](), names["max_memory_allocated"]()) == (256, 512)
    assert names["get_per_process_memory_fraction"]() == 1.0
    at = names["caching_allocator_alloc"](100)
    assert torch_cuda.process.device().allocation(at).size == 100
    names["caching_allocator_delete"](at)
    assert torch_cuda.process.device().allocation(at) is None


def test_the_card_is_an_h200(torch, device):
    names = torch_cuda._of_card()
    about = torch_cuda._properties()
    assert (about.name, about.major, about.minor, about.warp_size, about.total_memory) == ("NVIDIA H200", 9, 0, 32, 1 << 20)
    assert (about.multi_processor_count, about.shared_memory_per_block_optin, about.regs_per_multiprocessor) == (132, 232448, 65536)
    assert names["get_device_capability"]() == (9, 0)
    assert [names[name]() for name in ("is_available", "is_initialized", "device_count", "current_device", "is_bf16_supported", "is_tf32_supported")] == [
        True, True, 1, 0, True, True,
    ]  # fmt: skip
    assert not names["can_device_access_peer"](0, 0)
    assert names["cudart"]().cudaMemGetInfo() == names["cudart"]().cudaMemGetInfo(0) == torch_cuda._memory_info()
    assert [getattr(names["cudart"](), name)(*given) for name, given in (
        ("cudaProfilerStart", ()), ("cudaProfilerStop", ()), ("cudaHostRegister", (1, 2, 0)), ("cudaHostUnregister", (1,)),
    )] == [0] * 4  # fmt: skip


# ---- What functions of torch do with memory


class Recorded:
    """Takes the place of what follows uninitialised values."""

    def __init__(self):
        self.said, self.is_marked = [], True

    def marked(self, begin, size):
        """Every byte has the mark 1, or none has one."""
        return (np.arange(size), np.ones(size, np.int32)) if self.is_marked else (np.zeros(0, np.int64), np.zeros(0, np.int32))

    def gives(self, *given):
        self.said.append(("read", *given))

    def moved(self, *given):
        self.said.append(("moved", *given))

    def wrote(self, *given):
        self.said.append(("wrote", *given))


def function(name):
    def func():
        raise AssertionError("only looked at")

    func.__name__ = name
    return func


@pytest.fixture
def looked(device, tensors, monkeypatch):
    """`looked(name, args, kwargs, out)`: what a function does with memory of the card, which has marks. Its results are
    not followed: it uses what it reads.
    """
    device.taint = Recorded()
    monkeypatch.setattr(torch_taint, "influenced", lambda func, args, kwargs, used: used() or (lambda out: None))

    def look(name, args=(), kwargs=None, out=None, *, is_marked=True):
        device.taint.said.clear()
        device.taint.is_marked = is_marked
        behind = torch_taint.looks(function(name), args, kwargs or {})
        if behind is not None:
            behind(out)
        return list(device.taint.said)

    return look


def of_card(torch, tensors, *shape, **named):
    x = torch.empty(*shape, **named)
    tensors.mark(x, CUDA)
    return x


def read(x, name):
    size = x.element_size()
    return "read", x.data_ptr(), tuple(x.shape), tuple(n * size for n in x.stride()), size, f"{name} of torch"


def test_a_function_reads_the_tensors_of_the_card_that_it_is_given(torch, tensors, looked):
    x, y, z, of_host = (
        of_card(torch, tensors, 4, 2),
        of_card(torch, tensors, 3, dtype=torch.int64),
        of_card(torch, tensors, 2),
        torch.empty(4),
    )
    assert looked("add", (x, [of_host, y]), {"alpha": z, "out": of_card(torch, tensors, 4)}) == [
        read(x, "add"),
        read(y, "add"),
        read(z, "add"),
    ]
    assert looked("add", (of_host, 3)) == [] == looked("add", (x, y), is_marked=False)
    assert looked("mul", (x.t(),)) == [read(x.t(), "mul")]
    assert read(x.t(), "mul")[2:4] == ((2, 4), (4, 8))


@pytest.mark.parametrize(
    "name", sorted(torch_taint.VIEWS | torch_taint.SHAPED | torch_taint.QUESTIONS | {"view", "numel", "empty_like", "resize_", "data_ptr"})
)
def test_a_function_of_shapes_reads_nothing(torch, tensors, looked, name):
    assert looked(name, (of_card(torch, tensors, 4),), out=of_card(torch, tensors, 4)) == []


@pytest.mark.parametrize("name", ["contiguous", "flatten", "reshape"])
def test_a_view_of_a_tensor_that_is_not_contiguous_is_a_copy(torch, tensors, looked, name):
    x = of_card(torch, tensors, 4, 2)
    assert looked(name, (x,)) == []
    assert looked(name, (x.t(),)) == [read(x.t(), name)]


@pytest.mark.parametrize(
    ("index", "is_view"),
    [
        (0, True),
        (slice(1), True),
        (None, True),
        (Ellipsis, True),
        ((0, slice(None), None, Ellipsis), True),
        ([0, 1], False),
        (True, False),
        ((0, [1]), False),
    ],
)
def test_an_index_of_numbers_and_slices_is_a_view(torch, tensors, looked, index, is_view):
    x = of_card(torch, tensors, 4, 2)
    assert looked("__getitem__", (x, index)) == ([] if is_view else [read(x, "__getitem__")])


@pytest.mark.parametrize("name", sorted(torch_taint.WRITING - {"copy_"}))
def test_a_function_that_fills_does_not_read_what_it_fills(torch, tensors, looked, name):
    x, other = of_card(torch, tensors, 4), of_card(torch, tensors, 2)
    assert looked(name, (x, other), out=x) == [read(other, name)]
    wrote = [("wrote", x.data_ptr(), 16)] if name in torch_taint.FILLING else []
    assert looked(name, (x, 3), out=x) == looked(name, (x, other), out=x, is_marked=False) == wrote
    turned = of_card(torch, tensors, 4, 2).t()
    assert looked(name, (turned,), out=turned) == []  # not all bytes between its elements
    of_host = torch.empty(4)
    assert looked(name, (of_host,), out=of_host) == []


def test_a_copy_between_whole_tensors_of_the_card_moves(torch, device, tensors, looked):
    x, y = of_card(torch, tensors, 4), of_card(torch, tensors, 4)
    moved = [("moved", y.data_ptr(), x.data_ptr(), 16)]
    assert looked("copy_", (y, x), out=y) == moved
    assert looked("clone", (x,), out=y) == moved
    assert looked("clone", (), {"input": x}, out=y) == moved
    assert device.allocation(y.data_ptr()) is not None
    for to, source in (
        (torch.empty(4), x), (of_card(torch, tensors, 2, 2), x), (of_card(torch, tensors, 4, dtype=torch.int32), x), (y, of_card(torch, tensors, 2, 4).t()),
        (of_card(torch, tensors, 4, 2).t(), of_card(torch, tensors, 2, 4)),
    ):  # fmt: skip
        assert looked("copy_", (to, source), out=to) == [read(source, "copy_")]
    assert looked("copy_", (y, torch.empty(4)), out=y) == [("wrote", y.data_ptr(), 16)]
    assert looked("clone", (x.t().t().t(),), out=y) == moved  # one dimension


@pytest.mark.parametrize(
    ("name", "given", "named", "stays"),
    [
        ("to", ("cuda",), {}, True), ("to", ("cuda:0",), {}, True), ("to", ("cpu",), {}, False), ("cuda", (), {}, True), ("cuda", (0,), {}, True),
        ("to", ("float32",), {}, True), ("to", ("int32",), {}, False), ("to", ("float32",), {"copy": True}, False), ("to", ("cuda",), {"copy": False}, True),
        ("to", ("cuda",), {"non_blocking": True}, True), ("to", (None, "float32"), {}, True), ("to", (), {"dtype": "int32"}, False), ("type", (), {}, True),
        ("type", ("int32",), {}, False),
    ],
)  # fmt: skip
def test_a_conversion_to_what_a_tensor_is_reads_nothing(torch, tensors, looked, name, given, named, stays):
    x = of_card(torch, tensors, 4)
    meant = lambda value: getattr(torch, value) if isinstance(value, str) and hasattr(torch, value) and value != "cuda" else value  # noqa: E731
    args, kwargs = (x, *map(meant, given)), {key: meant(value) for key, value in named.items()}
    assert looked(name, args, kwargs) == ([] if stays else [read(x, name)])
    assert looked("type_as", (x, of_card(torch, tensors, 2))) == []
    assert looked("type_as", (x, torch.empty(2)))[:1] == [read(x, "type_as")]


def test_a_tensor_without_memory_is_not_read(torch, tensors, looked):
    x = of_card(torch, tensors, 4)
    x.data_ptr = lambda: (_ for _ in ()).throw(RuntimeError("no storage"))
    assert looked("add", (x,)) == []
    assert [found.tolist() for found in torch_influence.marks_of(x)] == [[], []]
    x.data_ptr = lambda: 0
    assert looked("add", (x,)) == []


# ---- Generators


class Numbers:
    """A generator of the CPU: a seed, which is a number of 64 bits without a sign, and how many numbers were drawn."""

    def __init__(self, torch):
        self.torch, self.begun, self.drawn = torch, 0, 0

    def get_state(self):
        return self.torch.tensor([(self.begun ^ SIGNED) - SIGNED, self.drawn], self.torch.int64)

    def set_state(self, state):
        self.begun, self.drawn = state.tolist()
        self.begun %= 2 * SIGNED

    def manual_seed(self, seed):
        assert -SIGNED <= seed < 2 * SIGNED
        self.begun, self.drawn = seed % (2 * SIGNED), 0
        return self

    def initial_seed(self):
        return self.begun


@pytest.fixture
def generator(torch):
    torch._C.Generator = lambda: Numbers(torch)
    numbers = Numbers(torch)
    return numbers, torch_random._State(numbers.get_state, numbers.set_state, numbers.manual_seed, numbers.initial_seed)


def numbers_of(state):
    return state.view(__import__("torch").int64).tolist()


def test_a_state_has_the_seed_and_an_offset_that_grows_by_four(torch, generator):
    numbers, state = generator
    for seed in (7, -3, (1 << 63) - 1, 0):
        numbers.manual_seed(seed)
        assert numbers_of(state.read()) == [seed, 0]
        for n in range(1, 4):
            numbers.drawn += n
            assert numbers_of(state.read()) == numbers_of(state.read()) == [seed, 4 * n]
        numbers.manual_seed(seed)
        assert numbers_of(state.read()) == [seed, 0]
    assert len(state.read().elements) == 16


def test_a_seed_whose_numbers_were_drawn_before_the_state_is_read_has_an_offset(generator):
    numbers, state = generator
    numbers.manual_seed(5)
    numbers.drawn = 9
    assert numbers_of(state.read()) == [5, 4]


def test_numbers_go_on_where_a_state_was_read(torch, generator):
    numbers, state = generator
    numbers.manual_seed(11)
    kept = []
    for n in range(4):
        numbers.drawn = 3 * n
        kept.append((state.read(), (numbers.begun, numbers.drawn)))
    for written, at in reversed(kept):
        state.write(written)
        assert (numbers.begun, numbers.drawn) == at
        assert torch.equal(state.read(), written)


def test_a_state_of_elsewhere_begins_somewhere_that_depends_on_it_alone(torch, generator):
    numbers, state = generator
    seen = {}
    for seed, offset in itertools.product((0, 1, -1, 1 << 40), (0, 4, 8, 1 << 33)):
        written = torch.tensor([seed, offset], torch.int64).view(torch.uint8)
        numbers.manual_seed(99)
        state._known.clear()
        state.write(written)
        seen[seed, offset] = numbers.begun
        assert numbers.drawn == 0
        assert numbers_of(state.read()) == [seed, offset]
    assert len({*seen.values()}) == len(seen)
    assert {seed: seen[seed, 0] for seed in (0, 1, -1)} == {0: 0, 1: 1, -1: 2 * SIGNED - 1}


def test_states_that_are_kept_are_the_last_ones(generator, monkeypatch):
    numbers, state = generator
    monkeypatch.setattr(torch_random, "KEPT", 3)
    for seed in range(5):
        numbers.manual_seed(seed)
        state.read()
    assert [seed for seed, _ in state._known] == [2, 3, 4]


def test_a_state_is_sixteen_bytes(torch, generator):
    _, state = generator
    for size in (15, 17):
        with pytest.raises(RuntimeError, match="wrong size"):
            state.write(torch.empty(size, dtype=torch.uint8))
    for other in ([0] * 16, torch.empty(2, dtype=torch.int64)):
        with pytest.raises(TypeError, match="ByteTensor"):
            state.write(other)


# ---- Graphs


def run(func, args, kwargs):
    return func(*args, **kwargs)


def test_a_function_under_capture_runs_again_in_each_replay(torch, device, tensors):
    x = of_card(torch, tensors, 4)
    calls = []

    def add(tensor, number):
        calls.append(number)
        out = torch.empty(4)
        out.elements[:] = tensor.elements + number
        tensors.mark(out, CUDA)
        return out

    graph = torch_graphs.CudaGraph()
    with pytest.raises(RuntimeError, match="without a preceding successful capture"):
        graph.replay()
    with torch_graphs.Capture(graph):
        assert torch_graphs.is_capturing()
        out = torch_graphs.captured(run, add, (x, 3), {})
    assert not torch_graphs.is_capturing()
    assert torch_cuda.streams.current == 0
    assert out.tolist() == [3] * 4
    x.elements[:] = 10
    graph.replay()
    assert (out.tolist(), calls) == ([13] * 4, [3, 3])
    graph.reset()
    with pytest.raises(RuntimeError, match="without a preceding successful capture"):
        graph.replay()


@pytest.mark.parametrize("name", ["add_", "__iadd__", "__setitem__", "zero_"])
def test_a_function_that_changes_its_argument_runs_in_replays_only(torch, device, tensors, name):
    x = of_card(torch, tensors, 4)

    def change(tensor):
        tensor.elements[:] += 1
        return tensor

    change.__name__ = name
    graph = torch_graphs.CudaGraph()
    with torch_graphs.Capture(graph):
        given = torch_graphs.captured(run, change, (x,), {})
    assert given is (None if name == "__setitem__" else x)
    assert x.tolist() == [0] * 4
    graph.replay()
    graph.replay()
    assert x.tolist() == [2] * 4
    of_host = torch.empty(4)
    with torch_graphs.Capture(torch_graphs.CudaGraph()):
        assert torch_graphs.captured(run, change, (of_host,), {}) is of_host
    assert of_host.tolist() == [1] * 4


def test_a_function_that_writes_to_out_runs_in_replays_only(torch, device, tensors):
    x = of_card(torch, tensors, 4)

    def total(*, out):
        out.elements[:] += 5
        return out

    graph = torch_graphs.CudaGraph()
    with torch_graphs.Capture(graph):
        assert torch_graphs.captured(run, total, (), {"out": x}) is x
    assert x.tolist() == [0] * 4
    graph.replay()
    assert x.tolist() == [5] * 4


@pytest.mark.parametrize("name", ["t_", "requires_grad_", "__get__", "detach_"])
def test_a_function_of_shapes_runs_at_once_and_not_again(torch, device, tensors, name):
    x, calls = of_card(torch, tensors, 4), []

    def shape(tensor):
        calls.append(1)
        return tensor

    shape.__name__ = name
    graph = torch_graphs.CudaGraph()
    with torch_graphs.Capture(graph):
        assert torch_graphs.captured(run, shape, (x,), {}) is x
    graph.replay()
    assert calls == [1]


def test_a_view_and_memory_that_is_only_made_are_not_computed_again(torch, device, tensors):
    x, calls = of_card(torch, tensors, 4), []

    def half(tensor):
        calls.append("view")
        return tensor.detach()

    def empty(tensor):
        calls.append("empty")
        return of_card(torch, tensors, 4)

    graph = torch_graphs.CudaGraph()
    with torch_graphs.Capture(graph):
        torch_graphs.captured(run, half, (x,), {})
        out = torch_graphs.captured(run, empty, (x,), {})
    out.elements[:] = 7
    graph.replay()
    assert calls == ["view", "empty"]
    assert out.tolist() == [7] * 4


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("add_", True),
        ("add", False),
        ("__add__", False),
        ("__iadd__", True),
        ("__setitem__", True),
        ("__getitem__", False),
        ("_foreach", False),
        ("copy_", True),
    ],
)
def test_a_name_says_whether_a_function_changes_its_argument(name, changes):
    assert torch_graphs._changes(name) is changes


class Taint:
    """Marks whose first use is told; what it was asked."""

    def __init__(self, is_new):
        self.is_new, self.asked = is_new, []

    def _noted(self, *given, **more):
        self.asked.append((*given, more))
        return self.is_new

    use = use_numbers = copied = _noted


@pytest.mark.parametrize("is_new", [True, False])
def test_each_use_by_the_host_is_told_if_it_is_a_new_one(is_new):
    """A read, a use of marks, a copy; not where nothing is marked, and not of nothing."""
    from smemsim.virtual.stored import HostTaint

    taint, told = Taint(is_new), []
    host = HostTaint(lambda: SimpleNamespace(taint=taint), lambda: told.append(1), lambda: None)
    uses = (
        lambda h: h.gives(0x1000, (2, 3), (32, 4), 4, "cudaMemcpy"), lambda h: h.uses({5: 1, 7: 2}, "torch.add", are_pads=True),
        lambda h: h.copied({5: np.array([0, 3]), 7: np.array([8])}, "tensor.cpu"),
    )  # fmt: skip
    for n, use in enumerate(uses, 1):
        use(host)
        assert len(told) == n * is_new
    (begin, end, read, within, _), (numbers, used, pads), (at, marks, copied, _) = taint.asked
    assert (begin, end, read.text) == (0x1000, 0x1000 + 32 + 8 + 4, "cudaMemcpy")
    assert within(np.arange(44)).tolist() == [n % 32 < 12 for n in range(44)]
    assert (numbers, used.text, pads) == ((5, 7), "torch.add", {"are_pads": True})
    assert (at.tolist(), marks.tolist(), copied.text) == ([0, 3, 8], [5, 5, 7], "tensor.cpu")
    for memory in (None, SimpleNamespace(taint=None)):
        silent = HostTaint(lambda memory=memory: memory, lambda: told.append(1), lambda: None)
        for use in uses:
            use(silent)
    host.gives(0x1000, (0, 3), (32, 4), 4, "cudaMemcpy")
    host.copied({}, "tensor.cpu")
    assert len(told) == 3 * is_new
    assert len(taint.asked) == 3
