"""Published results and directed probes, each against the package and against fractions; and what others would have
made of them.
"""

import csv

import pytest

import exact
from places import ROOT
from test_arithmetic import by_hand, one

F16 = (
    "3bd5 3c3e b534 3df8 b9e8 356e 3c05 3f47 3b17 3ae9 bc60 359f 2788 34e3 3c37 3ac8",
    "38ca b935 36bf 34ec bf9a 3797 be0b bc83 2df8 b98b ba97 4075 a388 40f2 30e1 b527",
)
BF16 = (
    "3f7a 3f87 bea6 3fbf bf3d 3ead 3f80 3fe8 3f62 3f5d bf8c 3eb3 3cf1 3e9c 3f86 3f59",
    "3f19 bf26 3ed7 3e9d bff3 3ef2 bfc1 bf90 3dbf bf31 bf52 400e bc71 401e 3e1c bea4",
)
TF32 = "3f7aa000 3f87c000 bea68000 3fbf0000", "3f194000 bf26a000 3ed7e000 3e9d8000"
E4M3 = (
    "3738aa3bb32a383e3635b82b0f293835b83703baaea63a3d9226b0afb333422d",
    "31b22d29bf2fbcb91bb3b540874121aab73fb231ad9db83a3d3b9b86bcac1283",
)
E5M2 = (
    "3b3cb53db9353c3f3b3abc3527343c3abc3b1ebdb7b33d3ea933b8b7b9394136",
    "38b93634bf37bebc2db9ba40a34030b5bb3fb938b6aebc3d3e3dada2beb6299e",
)
# fmt: off
HARDWARE = [  # outputs of hardware in Khattak and Mikaitis' data (arXiv 2512.07004): H200, and B200's mma.sync, whose datapath is tcgen05's
    ("wgmma", "f16", F16, 0x3EF68323, 0x3F00E281), ("wgmma", "bf16", BF16, 0x3DA2E4F3, 0x3DE7E010), ("wgmma", "tf32", TF32, 0x3F2A2E14, 0x3F61E860),
    ("wgmma", "e4m3", E4M3, 0, 0x40727C00), ("wgmma", "e5m2", E5M2, 0, 0x403FDC00),
    ("f16", "f16", F16, 0x3F6C6497, 0x3F720587), ("f16", "bf16", BF16, 0x3D93B3AB, 0x3DD8AEC8), ("tf32", "tf32", TF32, 0x3F3AE40B, 0x3F729E57),
]
# fmt: on
PROBES = list(csv.DictReader((ROOT / "sim" / "smemsim" / "capture" / "arithmetic_probes.csv").read_text().splitlines()))


def words(text, dtype):
    digits, text = exact.bits_of(dtype) // 4, text.replace(" ", "")
    found = [int(text[at : at + digits], 16) for at in range(0, len(text), digits)]
    return found + [0] * (8 - len(found))


@pytest.mark.parametrize(("kind", "dtype", "operands", "c", "d"), HARDWARE, ids=lambda x: x if isinstance(x, str) else "")
def test_published_outputs_of_hardware(kind, dtype, operands, c, d):
    a, b = (words(text, dtype) for text in operands)
    assert hex(one(kind, (dtype, dtype, "f32"), a, b, c)[0]) == hex(d)
    assert hex(by_hand(kind, (dtype, dtype, "f32"), a, b, c)) == hex(d)


def code(dtype, value):
    """The code of a power of two, with its sign."""
    return exact.landmark_of(dtype, exact.log2(exact.Fraction(value))) | (value < 0) << exact.bits_of(dtype) - 1


@pytest.mark.parametrize(
    ("kind", "dtype", "result"),
    [
        *[("wgmma", dtype, -0.75) for dtype in ("f16", "bf16", "tf32")], ("wgmma", "e5m2", 0.0),
        ("f16", "f16", -0.75), ("f8f6f4", "e5m2", -0.75), ("mxf8f6f4", "e5m2", -0.75),
    ],
)  # fmt: skip
def test_the_example_of_the_paper(kind, dtype, result):
    """arXiv 2511.10909, equation 10 and table 8: exact is -0.875."""
    a, b = ([code(dtype, x) for x in numbers] for numbers in ((-(2.0**13), -0.5, -0.25, -0.125), (2.0**10, 1, 1, 1)))
    k = exact.constants(kind, dtype, "f32")[1]
    a, b = a + [0] * (k - 4), b + [0] * (k - 4)
    factors = ("ue8m0", [127], [127], 32) if kind == "mxf8f6f4" else None
    wanted = {-0.75: 0xBF400000, 0.0: 0}[result]
    assert one(kind, (dtype, dtype, "f32"), a, b, code("f32", 2.0**23), factors=factors)[0] == wanted


def test_the_example_of_the_paper_in_four_bits():
    """Group 0 has -4 * 4 with scales 2^11 and 2^8, group 1 -1, -1, -0.5 times 1, 0.5, 0.5 with 1 and 2^-1: nothing is
    lost.
    """
    a, b = ([first, *[0] * 15, *rest, *[0] * 45] for first, rest in ((0xE, (0xA, 0xA, 0x9)), (0x6, (0x2, 0x1, 0x1))))
    factors = ("ue8m0", [138, 127, 127, 127], [135, 126, 127, 127], 16)
    types = ("e2m1", "e2m1", "f32")
    assert one("mxf4nvf4", types, a, b, code("f32", 2.0**23), factors=factors)[0] == 0xBF600000
    wide = ("ue8m0", [138, 127], [135, 127], 32)  # the same where a factor is for two groups
    b = [b[0], *[0] * 31, *b[16:32], *[0] * 16]
    a = [a[0], *[0] * 31, *a[16:32], *[0] * 16]
    assert one("mxf4", types, a, b, code("f32", 2.0**23), factors=("ue8m0", [138, 127], [135, 126], 32))[0] == 0xBF600000
    assert one("mxf4", types, a, b, code("f32", 2.0**23), factors=wide)[0] == 0xBFE00000


@pytest.mark.parametrize(
    ("pairs", "scales", "d"),
    [
        (((0x78, 0x78), (0x01, 0x01)), (0x7F, 0x7F), 0x47800000), (((0x38, 0x38), (0x01, 0x01)), (0x7F, 0x7F), 0x3F800020),
        (((0x54, 0x5C), (0x07, 0x01), (0x01, 0x01)), (0x7F, 0x7F), 0x43900001), (((0x59, 0x58), (0x07, 0x01), (0x01, 0x01)), (0x7F, 0x7F), 0x43900000),
        (((0x38, 0x38),), (0xFF, 0x7F), 0x7FFFFFFF), (((0x38, 0x38),), (0x7F, 0xFF), 0x7FFFFFFF), (((0, 0),), (0xFF, 0x7F), 0x7FFFFFFF),
        (((0x82, 0x02),), (0x00, 0x6E), 0), (((0x01, 0x38),), (0x07, 0x7F), 0x00100000),
    ],
)  # fmt: skip
def test_vectors_of_a_systemc_model_of_scaled_fp8(pairs, scales, d):
    a, b = ([pair[side] for pair in pairs] + [0] * (32 - len(pairs)) for side in (0, 1))
    factors = ("ue8m0", [scales[0]], [scales[1]], 32)
    assert hex(one("mxf8f6f4", ("e4m3", "e4m3", "f32"), a, b, 0, factors=factors)[0]) == hex(d)


# ---- directed probes

# What their names in the column `rivals` stand for, in fractions; other names are of things that `exact.dot` has no
# word for.
RULES = {
    "F24": {"kept": 24}, "F26": {"kept": 26}, "SM80/89(F24)": {"kept": 24}, "SM70": {"kept": 23},
    "F12": {"kept": 12, "fraction": 12}, "F14": {"kept": 14, "fraction": 14}, "SM100_F25": {"kept": 25, "fraction": 23},
    "RNE/RU": {"cut": "nearest"}, "RD": {"cut": "down"}, "RN": {"nearest": True}, "RN/RD": {"nearest": True},
    "c_added_late": {"late": True}, "normalised": {"normalise": True}, "normalised_subnormal": {"normalise": True}, "exact": {"kept": 4000},
    "via_f32": {"twice": True}, "FTZ": {"flush": True}, "IEEE_RZ": {"to_infinity": False}, "MMA-Sim HEAD": {"count_zeros": True},
    "zero_as_exp_-6": {"count_zeros": True}, "zero_as_exp_-14": {"count_zeros": True}, "none": {"zero": -4000},
    "other": {"minus": True}, "later MMA-Sim and MATLAB model": {"minus": True},
} | {name: {"zero": int(name[5:].partition("(")[0])} for name in (
    "floor-21(Khattak mma)", "floor-22(MMA-Sim mma)", "floor-133(MMA-Sim wgmma)", "floor-126(MMA-Sim HEAD)", "floor-132", "floor-133")}  # fmt: skip
OF_OPERANDS = {("P15a", "RN"), ("P15b", "NaN kept"), ("P8", "FTZ")}  # what others do to A and B before they multiply
OURS = {"floor-133", "floor-21(Khattak mma)"}


def parsed(probe):
    """(types, a, b, c, d, [(rival, its result)]) of `wgmma.m64nNkK.D.A.B`."""
    _, _, d_type, a_type, b_type = probe["instruction"].split(".")
    named, rivals = probe["rivals"], []
    while named:  # "name=result name=result …"; names may have spaces
        name, _, named = named.partition("=")
        result, _, named = named.partition(" ")
        rivals.append((name, int(result, 16)))
    a, b = (words(probe[side], dtype) for side, dtype in (("a", a_type), ("b", b_type)))
    return (a_type, b_type, d_type), a, b, int(probe["c"], 16), int(probe["d"], 16), rivals


@pytest.mark.parametrize("probe", PROBES, ids=lambda p: f"{p['id']} {p['instruction']}")
def test_directed_probes(probe):
    types, a, b, c, d, rivals = parsed(probe)
    assert hex(one("wgmma", types, a, b, c)[0]) == hex(d)
    assert hex(by_hand("wgmma", types, a, b, c)) == hex(d)
    for name, result in rivals:
        if (probe["id"], name) in OF_OPERANDS or (probe["id"] == "P2b" and name == "c_added_late"):
            assert name == "c_added_late" or result != d
            continue
        assert hex(by_hand("wgmma", types, a, b, c, **RULES[name])) == hex(result), name
        if name == "SM100_F25":  # what Blackwell is said to compute
            assert hex(one("f8f6f4", types, a, b, c)[0]) == hex(result)
    if types[0] in ("f16", "bf16", "tf32"):  # these are the same on Blackwell
        assert one("tf32" if types[0] == "tf32" else "f16", types, a, b, c)[0] == d


def test_every_rival_is_told_apart_by_a_probe():
    told, named = set(), set()
    for probe in PROBES:
        *_, d, rivals = parsed(probe)
        named |= {name for name, _ in rivals}
        told |= {name for name, result in rivals if result != d}
    assert len(PROBES) == 102
    assert named - told == OURS
    assert named - {"NaN kept"} == RULES.keys()
