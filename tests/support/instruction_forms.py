"""Forms of arithmetic instructions, one kernel for each, and the operands they are tried with: on an H200, and here.

A form is (text, type of the result, types of the operands, class of inputs). The text has $0 for the result and $1..
for the operands, or only the name. Operands come from three arrays of 64-bit words; a narrower type takes the low bits.
"""

import itertools

import numpy as np

COUNT = 2048
WIDTHS = {f"{letter}{bits}": bits for letter in "usb" for bits in (8, 16, 32, 64)} | {
    "f16": 16,
    "bf16": 16,
    "f32": 32,
    "f64": 64,
    "pred": 1,
}
# Class of inputs: bits of an element, of its exponent, of its fraction (integers have none); a word holds 64 bits'
# worth of them.
CLASSES = {
    "f64": (64, 11, 52), "f32": (32, 8, 23), "f16": (16, 5, 10), "bf16": (16, 8, 7), "e4m3": (8, 4, 3), "e5m2": (8, 5, 2),
    "i64": (64, 0, 0), "i32": (32, 0, 0), "i16": (16, 0, 0), "i8": (8, 0, 0),
}  # fmt: skip
SEEDS = dict(zip(CLASSES, b"dshbqQIijk", strict=True))
MODES = ("rn", "rz", "rm", "rp")
INTEGERS = {"u32": "i32", "s32": "i32", "u64": "i64", "s64": "i64", "u16": "i16", "s16": "i16"}
NEAR = (-126, -125, -24, -14, -12, -2, -1, 0, 1, 2, 7, 8, 15, 16, 30, 31, 32, 62, 63, 64)


def landmarks(width, exponent, fraction):
    """Codes where something changes: zeros, subnormals, powers of two and their neighbours, infinities, NaNs; of
    integers shifts and limits.
    """
    everything = (1 << width) - 1
    half = everything >> 1
    if not exponent:
        small = [0, 1, 2, 3, 7, 15, 16, 31, 32, 33, 63, 64, 65, 127, 128, 255, 256]
        found = [*small, half, half + 1, half + 2, everything, everything - 1, everything - 6, everything - 31, 10, 0x8421]
    else:
        one, bias, infinity = 1 << fraction, (1 << exponent - 1) - 1, ((1 << exponent) - 1) << fraction
        found = [
            0,
            1,
            2,
            one - 1,
            one,
            one + 1,
            infinity - 1,
            infinity,
            infinity + 1,
            infinity + one // 2,
            infinity + one // 2 + 5,
            half,
            half & 0x7FF7,
        ]
        found += [(bias + k) * one + j for k in NEAR if 0 < bias + k < 2 * bias for j in (0, 1, one // 2, one // 2 + 1, one - 1)]
        found += [x | 1 << width - 1 for x in found]
    return np.array([x & everything for x in found], np.uint64)


def elements(random, width, exponent, fraction):
    """Half of them landmarks, a quarter any bits, a quarter around 1."""
    known = landmarks(width, exponent, fraction)
    first = known[random.randint(0, len(known), 1024)]
    high, low = (random.randint(0, 1 << 32, 1024).astype(np.uint64) for _ in range(2))
    rest = (high << np.uint64(32) | low) & np.uint64((1 << width) - 1)
    if exponent:
        bias = (1 << exponent - 1) - 1
        near = (bias + random.randint(-min(20, bias - 1), min(20, bias - 1), 512)).astype(np.uint64) << np.uint64(fraction)
        rest[512:] = rest[512:] & np.uint64((1 << fraction) - 1) | near | rest[512:] & np.uint64(1 << width - 1)
    return np.concatenate([first, rest])


def inputs(name):
    """The three arrays of a class, the same on every machine."""
    width, exponent, fraction = CLASSES[name]
    random = np.random.RandomState(7 + SEEDS[name])
    arrays = []
    for _ in range(3):
        words = np.zeros(COUNT, np.uint64)
        for lane in range(64 // width):
            words |= elements(random, width, exponent, fraction) << np.uint64(lane * width)
        arrays.append(words)
    return arrays


def float_forms():
    for op in ("add", "sub", "mul"):
        for mode in MODES:
            for more in ("", ".ftz", ".sat", ".ftz.sat"):
                yield f"{op}.{mode}{more}.f32", "f32", ("f32",) * 2, "f32"
            yield f"{op}.{mode}.f64", "f64", ("f64",) * 2, "f64"
        for kind in ("f16", "bf16"):
            for more in ("", ".ftz", ".sat") if kind == "f16" else ("",):
                yield f"{op}.rn{more}.{kind}x2", "b32", ("b32",) * 2, kind
                yield f"{op}.rn{more}.{kind}", "b16", ("b16",) * 2, kind
    for kind in ("f32", "f64"):
        for mode in MODES:
            for more in ("", ".ftz") if kind == "f32" else ("",):
                for op, count in (("fma", 3), ("div", 2), ("sqrt", 1), ("rcp", 1)):
                    yield f"{op}.{mode}{more}.{kind}", kind, (kind,) * count, kind
    for more in (".sat", ".ftz.sat"):
        yield f"fma.rn{more}.f32", "f32", ("f32",) * 3, "f32"
    for kind in ("f16", "bf16"):
        for more in ("", ".relu", ".oob", ".oob.relu", *((".ftz", ".sat") if kind == "f16" else ())):
            yield f"fma.rn{more}.{kind}x2", "b32", ("b32",) * 3, kind
    for op in ("min", "max"):
        for more in ("", ".ftz", ".NaN", ".xorsign.abs", ".NaN.xorsign.abs"):
            yield f"{op}{more}.f32", "f32", ("f32",) * 2, "f32"
            yield f"{op}{more}.f16x2", "b32", ("b32",) * 2, "f16"
            if "ftz" not in more:
                yield f"{op}{more}.bf16x2", "b32", ("b32",) * 2, "bf16"
        yield f"{op}.f64", "f64", ("f64",) * 2, "f64"
    for op in ("abs", "neg"):
        for more, kind, name in (
            ("f32", "f32", "f32"), ("ftz.f32", "f32", "f32"), ("f64", "f64", "f64"), ("f16x2", "b32", "f16"), ("bf16x2", "b32", "bf16"),
            ("f16", "b16", "f16"), ("bf16", "b16", "bf16"), ("ftz.f16x2", "b32", "f16"),
        ):  # fmt: skip
            yield f"{op}.{more}", kind, (kind,), name


def integer_forms():
    for kind, name in INTEGERS.items():
        bits = kind[1:]
        for op in ("add", "sub", "mul.lo", "mul.hi", "div", "rem", "min", "max"):
            yield f"{op}.{kind}", kind, (kind,) * 2, name
        for op in ("mad.lo", "mad.hi", "sad"):
            yield f"{op}.{kind}", kind, (kind,) * 3, name
        for op in ("shl.b", "shr.u", "shr.s"):
            yield f"{op}{bits} $0,$1,$2", f"b{bits}", (f"b{bits}", "b32"), name
        if bits != "64":
            wide = f"{kind[0]}{2 * int(bits)}"
            yield f"mul.wide.{kind}", wide, (kind,) * 2, name
            yield f"mad.wide.{kind}", wide, (kind, kind, wide), name
        if bits != "16":
            yield f"bfe.{kind}", kind, (kind, "b32", "b32"), name
            yield f"bfind.{kind}", "u32", (kind,), name
            yield f"bfind.shiftamt.{kind}", "u32", (kind,), name
            yield f"{{add.cc.{kind} $0,$1,$2; addc.{kind} $0,$0,$3;}}", kind, (kind,) * 3, name
            yield f"{{sub.cc.{kind} $0,$1,$2; subc.{kind} $0,$0,$3;}}", kind, (kind,) * 3, name
            yield f"{{mad.lo.cc.{kind} $0,$1,$2,$3; madc.hi.{kind} $0,$1,$2,$0;}}", kind, (kind,) * 3, name
    for op in ("min", "max"):
        for more, name in (("u16x2", "i16"), ("s16x2", "i16"), ("relu.s16x2", "i16"), ("relu.s32", "i32")):
            yield f"{op}.{more}", "b32", ("b32",) * 2, name
    for op in ("abs", "neg"):
        for kind in ("s32", "s64", "s16"):
            yield f"{op}.{kind}", kind, (kind,), INTEGERS[kind]
    for bits, name in (("32", "i32"), ("64", "i64")):
        for op in ("popc", "clz"):
            yield f"{op}.b{bits}", "u32", (f"b{bits}",), name
        for op in ("brev", "cnot"):
            yield f"{op}.b{bits}", f"b{bits}", (f"b{bits}",), name
        yield f"bfi.b{bits} $0,$1,$2,$3,9", f"b{bits}", (f"b{bits}", f"b{bits}", "b32"), name
    for op in ("prmt.b32", *(f"prmt.b32.{m}" for m in ("f4e", "b4e", "rc8", "ecl", "ecr", "rc16"))):
        yield op, "b32", ("b32",) * 3, "i32"
    for side in "lr":
        for mode in ("clamp", "wrap"):
            yield f"shf.{side}.{mode}.b32", "b32", ("b32",) * 3, "i32"
    for op, count in (("mad24.hi.sat", 3), ("mad.hi.sat", 3), ("add.sat", 2), ("sub.sat", 2)):
        yield f"{op}.s32", "s32", ("s32",) * count, "i32"
    yield "lop3.b32 $0,$1,$2,$3,0xCA", "b32", ("b32",) * 3, "i32"
    yield "fns.b32", "b32", ("b32", "b32", "s32"), "i8"
    yield "slct.s32.s32", "s32", ("s32",) * 3, "i32"
    for mode in ("clamp", "wrap"):
        yield f"bmsk.{mode}.b32", "b32", ("b32",) * 2, "i8"
        for kind in ("u32", "s32"):
            yield f"szext.{mode}.{kind}", kind, (kind, "u32"), "i32"


def packed_forms():
    for a in ("u32", "s32"):
        for half in ("hi", "lo"):
            yield f"mul24.{half}.{a}", a, (a,) * 2, "i32"
            yield f"mad24.{half}.{a}", a, (a,) * 3, "i32"
        for b in ("u32", "s32"):
            for op in ("dp4a", "dp2a.lo", "dp2a.hi"):
                yield f"{op}.{a}.{b}", "b32", ("b32",) * 3, "i32"
            for op in ("vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax"):
                for count in "24":
                    yield f"{op}{count}.u32.{a}.{b}", "b32", ("b32",) * 3, "i8"
                    yield f"{op}{count}.s32.{a}.{b}.sat", "b32", ("b32",) * 3, "i8"
            yield f"vabsdiff4.u32.{a}.{b}.add", "b32", ("b32",) * 3, "i8"
            yield f"vset4.{a}.{b}.lt", "b32", ("b32",) * 3, "i8"
    for kind in ("u16", "s16"):
        yield f"cvt.pack.sat.{kind}.s32", "b32", ("s32",) * 2, "i32"
    for kind in ("u8", "s8", "u4", "s2"):
        yield f"cvt.pack.sat.{kind}.s32.b32", "b32", ("s32", "s32", "b32"), "i32"


def comparison_forms():
    for kind in ("f32", "f64", "f16", "bf16"):
        own = kind if WIDTHS[kind] > 16 else "b16"
        for op in ("eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"):
            yield f"setp.{op}.{kind}", "pred", (own,) * 2, kind
            if kind != "bf16":
                yield f"set.{op}.u32.{kind}", "u32", (own,) * 2, kind
        if WIDTHS[kind] > 16:
            for op in ("finite", "infinite", "number", "notanumber", "normal", "subnormal"):
                yield f"testp.{op}.{kind}", "pred", (kind,), kind
            yield f"copysign.{kind}", kind, (kind,) * 2, kind
    yield "setp.lt.ftz.f32", "pred", ("f32",) * 2, "f32"
    yield "slct.f32.f32", "f32", ("f32",) * 3, "f32"
    yield "slct.ftz.f32.f32", "f32", ("f32",) * 3, "f32"
    for op in ("lt", "ge"):
        yield f"set.{op}.f16x2.f16x2", "b32", ("b32",) * 2, "f16"
        yield f"set.{op}.bf16x2.bf16x2", "b32", ("b32",) * 2, "bf16"


def conversion_forms():
    whole = {f"{s}{bits}": f"i{bits}" for bits in (8, 16, 32, 64) for s in "us"}
    floats = {"f16": "b16", "bf16": "b16", "f32": "f32", "f64": "f64"}
    for to, integer in whole.items():
        for source, name in whole.items():
            for more in ("", ".sat"):
                yield f"cvt{more}.{to}.{source}", to, (source,), name
        for kind, own in floats.items():
            for mode in MODES:
                yield f"cvt.{mode}i.{to}.{kind}", to, (own,), kind
                yield f"cvt.{mode}.{kind}.{to}", own, (to,), integer
        yield f"cvt.rpi.ftz.{to}.f32", to, ("f32",), "f32"
    mores = ["", ".sat", ".ftz", *(f".{m}" for m in MODES), *(f".{m}i" for m in MODES)]
    mores += [".rn.ftz", ".rn.sat", ".rn.relu", ".rz.relu", ".rn.satfinite", ".rn.relu.satfinite", ".rni.ftz", ".rpi.ftz"]
    for to, own in floats.items():
        for source, operand in floats.items():
            for more in mores:
                yield f"cvt{more}.{to}.{source}", own, (operand,), source
    for more in ("rn", "rz", "rn.relu", "rz.relu", "rn.satfinite", "rz.satfinite", "rn.relu.satfinite"):
        for to in ("f16x2", "bf16x2"):
            yield f"cvt.{more}.{to}.f32", "b32", ("f32",) * 2, "f32"
        yield f"cvt.{more}.tf32.f32", "b32", ("f32",), "f32"
    for more in ("rna", "rna.satfinite"):
        yield f"cvt.{more}.tf32.f32", "b32", ("f32",), "f32"
    for small in ("e4m3", "e5m2"):
        for more in ("", ".relu"):
            yield f"cvt.rn.satfinite{more}.{small}x2.f32", "b16", ("f32",) * 2, "f32"
            yield f"cvt.rn.satfinite{more}.{small}x2.f16x2", "b16", ("b32",), "f16"
            yield f"cvt.rn{more}.f16x2.{small}x2", "b32", ("b16",), small


def approximate_forms():
    for op in ("div.approx", "div.full"):
        for more in ("", ".ftz"):
            yield f"{op}{more}.f32", "f32", ("f32",) * 2, "f32"
    for op in ("rcp", "sqrt", "rsqrt", "sin", "cos", "lg2", "ex2"):
        for more in ("", ".ftz"):
            yield f"{op}.approx{more}.f32", "f32", ("f32",), "f32"
    yield "tanh.approx.f32", "f32", ("f32",), "f32"
    for op in ("rcp.approx.ftz", "rsqrt.approx", "rsqrt.approx.ftz"):
        yield f"{op}.f64", "f64", ("f64",), "f64"
    for op, kind in (("ex2.approx.f16", "f16"), ("tanh.approx.f16", "f16"), ("ex2.approx.ftz.bf16", "bf16"), ("tanh.approx.bf16", "bf16")):
        yield f"{op}x2", "b32", ("b32",), kind


def video_forms():
    """Scalar video instructions, one of seven: all types, parts of sources and of the result, sums; not those that an
    H200 does unlike the PTX ISA.
    """
    every = []
    for op, (d, a, b) in itertools.product(("vadd", "vsub", "vabsdiff", "vmin", "vmax"), itertools.product(("u32", "s32"), repeat=3)):
        plain = [f"{op}.{d}.{a}.{b}", *([f"{op}.{d}.{a}.{b}.sat"] if d == "s32" else [])]
        every += [
            (f"{name} $0, $1{x}, $2{y}", d, (a, b)) for name in plain for x, y in (("", ""), (".b0", ".h1"), (".h0", ".b3"), (".b2", ""))
        ]
        every += [(f"{plain[0]} $0{part}, $1, $2, $3", d, (a, b, d)) for part in (".b0", ".b1", ".b3", ".h0")]
        every += [(f"{name}.add $0, $1{x}, $2{y}, $3", d, (a, b, d)) for name in plain for x, y in (("", ""), (".b1", ".h0"))]
    for a, b, compare in itertools.product(("u32", "s32"), ("u32", "s32"), ("lt", "le", "gt", "ge", "eq", "ne")):
        every += [(f"vset.{a}.{b}.{compare} $0, $1{x}, $2{y}", "u32", (a, b)) for x, y in (("", ""), (".b0", ".h1"))]
        every.append((f"vset.{a}.{b}.{compare}.add $0, $1, $2, $3", "u32", (a, b, "u32")))
    yield from ((text, to, operands, "i32") for text, to, operands in every[::7])


def later_forms():
    """Forms of which an earlier model was wrong, and their siblings: .ftz of conversions to f16, fns, selectors of SIMD
    video instructions.
    """
    for mode in MODES:
        for more in (".ftz", ".ftz.sat", ".sat"):
            if (mode, more) not in (("rn", ".ftz"), ("rn", ".sat")):
                yield f"cvt.{mode}{more}.f16.f32", "b16", ("f32",), "f32"
    yield "fns.b32 $0, $1, $2, $3", "b32", ("b32", "b32", "s32"), "i32"
    for base, offset in ((0, -2147483648), (30, -2147483648), (40, -2147483648), (7, -2147483647), (9, 0)):
        yield f"fns.b32 $0, $1, {base}, {offset}", "b32", ("b32",), "i32"
    selectors = {
        2: ("", ".h10", ".h32", ".h21", ".h00", ".h33", ".h03"),
        4: ("", ".b3210", ".b7654", ".b7230", ".b4567", ".b0000", ".b7361"),
    }
    masks = {2: ("", ".h0", ".h1", ".h10"), 4: ("", ".b0", ".b3", ".b21", ".b321", ".b310", ".b3210")}
    every = []
    for count in (2, 4):
        for op, a, b, to in itertools.product(
            ("vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax"), ("u32", "s32"), ("u32", "s32"), ("u32", "s32")
        ):
            for mask, first, second in itertools.product(masks[count], selectors[count], selectors[count]):
                for more in ("", ".sat", ".add"):
                    every.append(f"{op}{count}.{to}.{a}.{b}{more} $0{mask}, $1{first}, $2{second}, $3")
        for a, b, compare in itertools.product(("u32", "s32"), ("u32", "s32"), ("lt", "ge", "eq")):
            for mask, first, second in itertools.product(masks[count], selectors[count], selectors[count]):
                every += [f"vset{count}.{a}.{b}.{compare}{more} $0{mask}, $1{first}, $2{second}, $3" for more in ("", ".add")]
    yield from ((text, "b32", ("b32",) * 3, "i8") for text in every[::397])


EXACT = [*float_forms(), *integer_forms(), *packed_forms(), *comparison_forms(), *conversion_forms(), *video_forms(), *later_forms()]
APPROXIMATE = list(approximate_forms())


def kernel(forms, *, arch="sm_90a", version="8.8"):
    """PTX of an entry `forms` (results, a, b, c): thread t of 256 a CTA makes result [form, t], 64-bit words, of word t
    of the inputs.
    """
    lines = [f".version {version}", f".target {arch}", ".address_size 64"]
    lines += [
        ".visible .entry forms(.param .u64 po, .param .u64 pa, .param .u64 pb, .param .u64 pc) {",
        ".reg .b64 %q<9>; .reg .b32 %i<4>;",
    ]
    lines += [f"ld.param.u64 %q{n}, [p{name}];" for n, name in enumerate("oabc")]
    lines += ["mov.u32 %i0, %tid.x; mov.u32 %i1, %ctaid.x; mad.lo.u32 %i0, %i1, 256, %i0; mul.wide.u32 %q4, %i0, 8; add.u64 %q0, %q0, %q4;"]
    lines += [f"add.u64 %q{n}, %q{n}, %q4; ld.global.u64 %q{n}, [%q{n}];" for n in (1, 2, 3)]
    for number, (text, to, operands, _) in enumerate(forms):
        lines.append("{")
        for n, kind in enumerate((to, *operands)):
            lines.append(f".reg .pred %v{n};" if kind == "pred" else f".reg .b{WIDTHS[kind]} %v{n};")
        for n, kind in enumerate(operands, 1):
            lines.append(f"mov.b64 %v{n}, %q{n};" if WIDTHS[kind] == 64 else f"cvt.u{WIDTHS[kind]}.u64 %v{n}, %q{n};")
        whole = text if "$" in text else f"{text} {', '.join(f'${n}' for n in range(len(operands) + 1))}"
        lines.append(whole.replace("$", "%v") + ("" if whole.endswith("}") else ";"))
        if to == "pred":
            lines.append("selp.u64 %q5, 1, 0, %v0;")
        else:
            lines.append("mov.b64 %q5, %v0;" if WIDTHS[to] == 64 else f"cvt.u64.u{WIDTHS[to]} %q5, %v0;")
        lines += [f"st.global.u64 [%q0+{8 * COUNT * number}], %q5;", "}"]
    return "\n".join([*lines, "ret;", "}", ""])


def cut(words, to):
    """64-bit results as an array of the result's width."""
    return words.astype(f"u{max(WIDTHS[to], 8) // 8}")
