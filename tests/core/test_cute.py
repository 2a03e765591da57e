"""The package's CuTe algebra against the tests' own, against plain evaluation, and against what the documents print."""

import itertools

import pytest
from click.testing import CliRunner
from hypothesis import assume, given
from hypothesis import strategies as st

import cute as ours
from smemsim import InputError
from smemsim.cli import main
from smemsim.core.layout.cute import CuteLayout, CuteSwizzle, coalesce, composition, logical_divide, recast, tile_to_shape, zipped_divide
from strategies import examples

sizes = st.sampled_from([1, 2, 3, 4, 6, 8])
leaves = st.tuples(sizes, st.sampled_from([0, 1, 2, 3, 8, 16, 24, 1024]))


@st.composite
def nests(draw, depth=2):
    if depth == 0 or draw(st.booleans()):
        return draw(leaves)
    parts = [draw(nests(depth=depth - 1)) for _ in range(draw(st.integers(2, 3)))]
    return tuple(p[0] for p in parts), tuple(p[1] for p in parts)


layouts = nests(depth=3).map(lambda pair: CuteLayout(*pair))
tiles = st.builds(
    lambda atom, m, k, order: tile_to_shape(CuteLayout.parse(atom), (8 * m * (4 if atom.startswith("(32") else 1), 64 * k), order),
    st.sampled_from(["(8,64):(64,1)", "(8,8):(8,1)", "(8,32):(32,1)", "(32,8):(1,32)", "(32,4):(1,32)"]),
    st.sampled_from([1, 2, 3, 8]),
    st.sampled_from([1, 2, 3]),
    st.sampled_from([(0, 1), (1, 0)]),
)


@examples(200)
@given(layouts)
def test_a_layout_is_read_as_it_is_printed(layout):
    assert CuteLayout.parse(str(layout)) == layout


@examples(100)
@given(layouts)
def test_every_number_has_the_offset_of_its_nested_coordinate_in_colexicographic_order(layout):
    def walk(shape, stride):
        if not isinstance(shape, tuple):
            return [(c, c * stride) for c in range(shape)]
        found = [((), 0)]
        for s, d in reversed(list(zip(shape, stride, strict=True))):
            found = [((c, *rest), at + more) for rest, more in found for c, at in walk(s, d)]
        return found

    assume(layout.size <= 512)
    for number, (coordinate, offset) in enumerate(walk(layout.shape, layout.stride)):
        assert coalesce(layout)(number) == offset
        if isinstance(coordinate, tuple):
            assert layout(*coordinate) == offset
    assert layout.cosize == 1 + max(offset for _, offset in walk(layout.shape, layout.stride))


@examples(200)
@given(layouts, sizes, st.sampled_from([1, 2, 3, 4, 6, 8, 12]))
def test_composition_is_composition(layout, size, step):
    assume((size - 1) * step < layout.size)
    try:
        composed = composition(layout, CuteLayout(size, step))
    except InputError:
        assume(False)
    flat = coalesce(layout)
    assert [composed(i) for i in range(size)] == [flat(step * i) for i in range(size)]


@examples(60)
@given(tiles, st.sampled_from([(8, 8), (64, 16), (32, 32), (8, 64), (16, 4)]))
def test_divisions_and_recasts_are_those_of_the_independent_algebra(tile, tiler):
    assume(all(mode.size % n == 0 for mode, n in zip(tile.modes(), tiler, strict=True)))
    theirs = ours.Layout(tile.shape, tile.stride)
    try:
        expected = ours.zipped_divide(theirs, tiler)
    except ValueError:
        assume(False)
    mine = zipped_divide(tile, tiler)
    assert str(coalesce(mine.mode(0))) == str(coalesce(CuteLayout(expected.shape[0], expected.stride[0])))
    assert str(coalesce(mine.mode(1))) == str(coalesce(CuteLayout(expected.shape[1], expected.stride[1])))
    divided, again = logical_divide(tile, tiler), ours.logical_divide(theirs, tiler)
    for i in range(2):
        assert coalesce(divided.mode(i)) == coalesce(CuteLayout(again.shape[i], again.stride[i]))


@examples(100)
@given(tiles, st.sampled_from([2, 4, 8]))
def test_a_recast_keeps_every_byte_and_comes_back(tile, count):
    contiguous = 1 if tile.stride[1] == 1 or (isinstance(tile.stride[1], tuple) and tile.stride[1][0] == 1) else 0
    wide = recast(tile, 16 * count, 16)
    if sum(step == 1 for _, step in wide.leaves()) == 1:  # else two modes look contiguous
        assert recast(wide, 16, 16 * count) == tile
    for number in range(0, wide.mode(contiguous).size, 3):
        wide_at = wide(number, 0) if contiguous == 0 else wide(0, number)
        at = tile(number * count, 0) if contiguous == 0 else tile(0, number * count)
        assert wide_at * count == at
    theirs = ours.recast(ours.Layout(tile.shape, tile.stride), count)
    assert wide.shape == theirs.shape
    assert [x for x in wide.leaves() if x[1]] == [x for x in CuteLayout(theirs.shape, theirs.stride).leaves() if x[1]]


@pytest.mark.parametrize(
    ("text", "bits", "printed"),
    [
        ("Sw<3,4,3> o smem_ptr[16b](unset) o ((_8,_16),(_64,_2)):((_64,_512),(_1,_8192))", 16, "Swizzle<3,4,3> o ((8,16),(64,2)):((64,512),(1,8192))"),
        ("S<3,3,3> o 0 o ((8,16),(64,2)):((64,512),(1,8192))", 16, "Swizzle<3,4,3> o ((8,16),(64,2)):((64,512),(1,8192))"),
        ("S<2,4,3> o 0 o (8,64):(64,1)", 8, "Swizzle<2,4,3> o (8,64):(64,1)"),
        ("S<2,3,2>o(32,4):(1,32)", 32, "Swizzle<2,5,2> o (32,4):(1,32)"),
        ("Swizzle<0,4,3> o ((8,2),(4,4)):((4,32),(1,64))", 32, "((8,2),(4,4)):((4,32),(1,64))"),
        ("64:1", 16, "64:1"),
    ],
)  # fmt: skip
def test_texts_of_cute_and_of_its_python_face_mean_the_same_bytes(text, bits, printed):
    assert str(CuteLayout.parse(text, element_bits=bits)) == printed


@pytest.mark.parametrize(
    "text",
    ["", "(8,64)", "(8,64):(64)", "(8,?):(1,8)", "(8,(64):(1,8)", "Sw<3,4,4> o (8,64):(64,1)", "(8,0):(1,8)", "(8,64):(1@0,8)",
     "(8,-1):(1,8)", "(" * 3000, "9" * 5000, "(8,999999999999999999):(1,1)", None, 3],
)  # fmt: skip
def test_what_is_no_layout_is_a_sentence(text):
    with pytest.raises(InputError, match=r"layout|Swizzle"):
        CuteLayout.parse(text, element_bits=16)


def test_the_xor_is_that_of_the_absolute_byte_address():
    atom, theirs = CuteLayout.parse("Swizzle<2,4,3> o (8,32):(32,1)"), ours.parse("Swizzle<2,4,3> o (8,32):(32,1)")
    for start in (0, 128, 384, 1040):
        expected = theirs.addresses(start, 16)
        assert [[atom.address(start, 16, r, c) for c in range(32)] for r in range(8)] == expected.tolist()
    assert CuteSwizzle(2, 4, 3)(1 << 9) == ours.Swizzle(2, 4, 3)(1 << 9)


@pytest.mark.parametrize("call", [
    lambda tile: logical_divide(tile, (7, 8)), lambda tile: zipped_divide(tile, (8,)), lambda tile: recast(tile, 24, 16),
    lambda tile: tile_to_shape(tile, (12, 64), (0, 1)), lambda tile: tile_to_shape(CuteLayout.parse("(8,8):(16,1)"), (8, 8), (0, 1)),
    lambda tile: tile_to_shape(tile, (8, 64), (0, 2)), lambda tile: recast(CuteLayout.parse("(9,8):(1,9)"), 128, 16),
    lambda tile: tile((1, 2, 3)),
])  # fmt: skip
def test_what_does_not_divide_is_a_sentence(call):
    with pytest.raises(InputError):
        call(CuteLayout.parse("(8,64):(64,1)"))


# ---- layouts as linear functions of bits, and on the command line


@st.composite
def powers(draw):
    """A tile of atoms whose sizes and strides are powers of two, and a swizzle that fits it."""
    lines, width, down, across = (1 << draw(st.integers(low, high)) for low, high in ((3, 4), (5, 6), (0, 3), (0, 2)))
    order = draw(st.permutations((0, 1)))
    return tile_to_shape(
        CuteLayout((lines, width), (width, 1), CuteSwizzle(draw(st.integers(0, 3)), 4, 3)), (lines * down, width * across), order
    )


@examples(30)
@given(powers(), st.sampled_from([4, 8, 16, 32]))
def test_bases_give_the_element_of_every_address(layout, bits):
    bases = layout.linear_bases(bits)
    at = {0: (0,) * layout.rank}
    for number, basis in enumerate(bases):
        at |= {offset + (1 << number): tuple(a ^ b for a, b in zip(place, basis, strict=True)) for offset, place in at.items()}
    assert len(at) == layout.size
    for offset, place in at.items():
        assert layout.address(0, bits, *place) == offset * bits // 8


@pytest.mark.parametrize(("text", "said"), [
    ("(8,3):(3,1)", "no power of two"), ("(3,8):(8,1)", "size 3 is no power of two"), ("(16,64):(16,1)", "share a place"), ("(8,64):(128,1)", "holes"), ("S<3,4,3> o 0 o (8,64):(64,1)", "bits of an element"),
])  # fmt: skip
def test_a_layout_that_is_not_linear_says_why(text, said):
    with pytest.raises(InputError, match=said):
        CuteLayout.parse(text).linear_bases()


def test_a_tile_of_one_atom_is_printed_with_strides_of_zero():
    atom = CuteLayout.parse("(8,64):(64,1)")
    assert str(tile_to_shape(atom, (8, 64), (0, 1))) == "((8,1),(64,1)):((64,0),(1,0))"
    assert str(tile_to_shape(atom, (16, 64), (0, 1))) == "((8,2),(64,1)):((64,512),(1,0))"


PASTED = "Sw<3,4,3> o smem_ptr[16b](unset) o ((_8,_16),(_64,_4)):((_64,_512),(_1,_8192))"


@pytest.mark.parametrize(("command", "code", "said"), [
    (["decode", PASTED], 0, "offset=64 -> (1, 8)"),
    (["decode", PASTED, "--zipped-divide", "64,16"], 0, "((64,16),(2,(4,4))):((64,1),(4096,(16,8192)))"),
    (["decode", "(64,2):(8,1)", "--logical-divide", "8,1"], 0, "((8,8),(1,2)):((8,64),(0,1))"),
    (["decode", "(64,16):(64,1)", "--dtype", "bf16", "--recast", "128"], 0, "(64,2):(8,1)"),
    (["decode", "(16,64):(16,1)", "--json"], 1, '"one_to_one": false'),
    (["map", PASTED, "--lines", "2"], 0, "1,8   1,0   1,24  1,16"),
    (["map", "tensor<ptr<bf16, smem, align<1024>, S<3,4,3>> o (8,64):(64,1)>", "--csv"], 0, "\n1,0,64,1168,0\n"),
    (["map", "(16,64):(16,1)", "--dtype", "bf16"], 1, "not one-to-one: (0, 16) and (1, 0)"),
    (["map", "(8,8):(8,1)"], 2, "--dtype is missing"),
    (["decode", PASTED, "--dtype", "f32"], 2, "the layout says 16"),
    (["decode", PASTED, "--recast", "8", "--zipped-divide", "8,8"], 2, "one at a time"),
    (["decode", "(8,64):(64,1)", "--arch", "sm_90a"], 2, "--arch: not of a layout"),
    (["decode", "(8,?):(8,1)"], 2, "must be known"),
    (["map", "0x4000404000010040", "--recast", "8"], 2, "of a layout"),
])  # fmt: skip
def test_layouts_on_the_command_line(command, code, said):
    done = CliRunner().invoke(main, command)
    assert (done.exit_code, said in done.output) == (code, True), done.output


@pytest.mark.parametrize("bits", [4, 8, 16, 32, 64])
def test_an_xor_on_elements_is_the_one_on_their_bytes(bits):
    """The hardware XORs bits of the byte address from bit 7 on into bits from 4 on. Of a text that is printed for elements
    this is known by their size.
    """
    scale = {4: -1, 8: 0, 16: 1, 32: 2, 64: 3}[bits]
    for width, base, shift in itertools.product(range(4), range(8), range(8)):
        printed = CuteSwizzle(width, base, shift)
        fits = [at for at in (base, base + scale) if at + shift == 7 and at >= 4]
        if fits:
            assert printed.on_bytes(bits) == CuteSwizzle(width, fits[0], shift)
        elif not width:
            assert printed.on_bytes(bits)(0xABCD) == 0xABCD
        else:
            with pytest.raises(InputError, match="the hardware XORs bits of the byte address from bit 7 on"):
                printed.on_bytes(bits)
    for byte in range(0, 1024, 2):
        assert CuteSwizzle(3, 3, 3).on_bytes(16)(byte) == 2 * CuteSwizzle(3, 3, 3)(byte // 2)


def test_the_bits_that_are_said_count_before_those_of_the_text():
    text = "Sw<3,3,3> o smem_ptr[16b](unset) o (8,64):(64,1)"
    assert CuteLayout.parse(text).functor == CuteLayout.parse(text, element_bits=16).functor == CuteSwizzle(3, 4, 3)
    with pytest.raises(InputError, match="on elements of 32 bits"):
        CuteLayout.parse(text, element_bits=32)


@examples(100)
@given(layouts, st.integers(0, 200))
def test_past_its_size_a_layout_goes_on_in_its_last_mode(layout, more):
    *inner, (_, step) = layout.leaves()
    inside = 1
    for count, _ in inner:
        inside *= count
    number = layout.size + more
    assert layout(number) == layout(number % inside) + number // inside * step


@pytest.mark.parametrize("count", [1, 2, 4, 8])
def test_a_mode_becomes_wider_elements_if_it_fills_them_alike(count):
    """`count` old elements are a new one. A mode's offsets are those of whole new elements, or as many in each, one after
    the other.
    """
    for size, step in itertools.product((*range(1, 13), 16), (0, 1, 2, 3, 4, 6, 8, 16)):
        places = [i * step // count for i in range(size)]
        in_each = count // step if step and count % step == 0 else 0
        if count == 1 or step == 0:
            wanted = size, step
        elif size == 1:
            wanted = 1, -(-step // count)
        elif step % count == 0:
            wanted = size, step // count
        elif in_each and size % in_each == 0:
            wanted = size // in_each, 1
        else:
            with pytest.raises(InputError, match="does not fill whole elements"):
                recast(CuteLayout(size, step), 8 * count, 8)
            continue
        made = recast(CuteLayout(size, step), 8 * count, 8)
        assert made.leaves() == (wanted,)
        assert [made(i) for i in range(wanted[0])] == sorted(set(places)) or 0 in wanted or size == 1
        both = recast(CuteLayout((size, 2), (step, 0)), 8 * count, 8)
        assert both.leaves() == (wanted, (2, 0))
