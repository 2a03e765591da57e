"""The words of PTX instructions: their first words, and the words after the dots (PTX ISA 9.1, chapter 9).

They distinguish a typing error from an instruction that is not modelled. Shapes of products (`m64n128k16`) are not
included. Compiled: ptxas 13.0.88 knows each of these words, and calls others unknown. Later versions of PTX have
further words.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection

__all__ = ["FLOATS", "FLOAT_WORDS", "LIKE", "MODIFIERS", "NO_SELECTOR", "OPERATIONS", "TYPES", "VERSION", "WORDS_OF", "nearest"]


# Four bytes that a SIMD video instruction cannot select: ptxas reads the word as the type of a tensor map (compiled:
# ptxas 13.0.88 refuses this selector of all 4,096, and takes its neighbours).
NO_SELECTOR = "b1024"
VERSION = (9, 0)  # of PTX: the newest that ptxas 13.0.88 reads
LIKE = 0.74  # of difflib: how near a slip of the pen is to the word that was meant
SHORT = 0.66  # of words of at most three letters, of which one is another
OPERATIONS = frozenset(
    [
        "abs",
        "activemask",
        "add",
        "addc",
        "alloca",
        "and",
        "applypriority",
        "atom",
        "bar",
        "barrier",
        "bfe",
        "bfi",
        "bfind",
        "bmsk",
        "bra",
        "brev",
        "brkpt",
        "brx",
        "call",
        "clusterlaunchcontrol",
        "clz",
        "cnot",
        "copysign",
        "cos",
        "cp",
        "createpolicy",
        "cvt",
        "cvta",
        "discard",
        "div",
        "dp2a",
        "dp4a",
        "elect",
        "ex2",
        "exit",
        "fence",
        "fma",
        "fns",
        "getctarank",
        "griddepcontrol",
        "isspacep",
        "istypep",
        "ld",
        "ldmatrix",
        "ldu",
        "lg2",
        "lop3",
        "mad",
        "mad24",
        "madc",
        "mapa",
        "match",
        "max",
        "mbarrier",
        "membar",
        "min",
        "mma",
        "mov",
        "movmatrix",
        "mul",
        "mul24",
        "multimem",
        "nanosleep",
        "neg",
        "not",
        "or",
        "pmevent",
        "popc",
        "prefetch",
        "prefetchu",
        "prmt",
        "rcp",
        "red",
        "redux",
        "rem",
        "ret",
        "rsqrt",
        "sad",
        "selp",
        "set",
        "setmaxnreg",
        "setp",
        "shf",
        "shfl",
        "shl",
        "shr",
        "sin",
        "slct",
        "sqrt",
        "st",
        "stackrestore",
        "stacksave",
        "stmatrix",
        "sub",
        "subc",
        "suld",
        "suq",
        "sured",
        "sust",
        "szext",
        "tanh",
        "tcgen05",
        "tensormap",
        "testp",
        "tex",
        "tld4",
        "trap",
        "txq",
        "vabsdiff",
        "vabsdiff2",
        "vabsdiff4",
        "vadd",
        "vadd2",
        "vadd4",
        "vavrg2",
        "vavrg4",
        "vmad",
        "vmax",
        "vmax2",
        "vmax4",
        "vmin",
        "vmin2",
        "vmin4",
        "vote",
        "vset",
        "vset2",
        "vset4",
        "vshl",
        "vshr",
        "vsub",
        "vsub2",
        "vsub4",
        "wgmma",
        "wmma",
        "xor",
    ]
)
_TYPES = """
    b1 b4 b8 b16 b32 b64 b128 u2 u4 u8 u16 u32 u64 s2 s4 s8 s16 s32 s64 f16 bf16 f32 tf32 f64 f16x2 bf16x2 f32x2 u8x2 u8x4 s8x4 u16x2 s16x2 u16x4 pred e4m3 e5m2
    e4m3x2 e5m2x2 e4m3x4 e5m2x4 e2m1 e2m3 e3m2 e2m1x2 e2m3x2 e3m2x2 e2m1x4 e2m3x4 e3m2x4 ue8m0 ue8m0x2 ue4m3 b1024 b8x16 b6x16_p32 b4x16_p64 texref samplerref
    surfref v2 v4 v8
"""
_ARITHMETIC = """
    rn rz rm rp rna rs rni rzi rmi rpi ftz noftz sat satfinite relu approx full hi lo wide cc xorsign abs nan NaN oob shiftamt clamp wrap scaled finite infinite
    number notanumber normal subnormal eq ne lt le gt ge ls hs equ neu ltu leu gtu geu num and or xor not popc min max inc dec exch cas add all any uni ballot
    max3 min3 up down bfly idx sync aligned pack l r f4e b4e rc8 ecl ecr rc16 h0 h1 b0 b1 b2 b3 shr7 shr15 po s u mul24 mulhi
"""
_MEMORY = """
    global shared param local const tex surf shared::cta shared::cluster param::entry param::func generic volatile relaxed acquire release acq_rel weak mmio sc
    cta cluster gpu sys gl ca cg cs lu cv wb wt nc to L1 L2 L1::evict_normal L1::evict_unchanged L1::evict_first L1::evict_last L1::no_allocate L2::evict_normal
    L2::evict_first L2::evict_last L2::evict_unchanged L2::cache_hint L2::64B L2::128B L2::256B level::eviction_priority fractional range cvt unified
    ld_reduce st red vec_16_bit vec_32_bit acc::f16 acc::f32 async async_generic ignore_src tensormap tensormap::generic uniform
    proxy alias async.global proxy_const fence noinc mbarrier_init op_restrict sync_restrict::shared::cta sync_restrict::shared::cluster
"""
_ASYNCHRONOUS = """
    bulk tensor bulk_group prefetch reduce commit_group wait_group wait_all read arrive arrive_drop init inval expect_tx complete_tx test_wait try_wait
    pending_count noComplete parity mbarrier mbarrier::complete_tx::bytes mbarrier::arrive::one cp_mask 1d 2d 3d 4d 5d tile tile::gather4 tile::scatter4 im2col
    im2col_no_offs im2col::w im2col::w::128 multicast::cluster cta_group::1 cta_group::2 cp_fenceproxy replace global_address rank box_dim global_dim
    global_stride element_stride elemtype interleave_layout swizzle_mode swizzle_atomicity fill_mode try_cancel query_cancel is_canceled get_first_ctaid
    get_first_ctaid::x get_first_ctaid::y get_first_ctaid::z multicast::cluster::all launch_dependents wait warp red::popc alloc dealloc relinquish_alloc_permit
    commit shift
"""
_MATRIX = """
    mma mma_async sp sp::ordered_metadata ws spec load store a b c d row col m8n8 m16n8 m16n16 m8n16 trans x1 x2 x4 dst_fmt src_fmt b8 kind::f16 kind::tf32
    kind::f8f6f4 kind::i8 kind::mxf4 kind::mxf8f6f4 kind::mxf4nvf4 block_scale block16 block32 scale_vec::1X scale_vec::2X scale_vec::4X warpx2 warpx4
    warpx2::02_13 warpx2::01_23 collector::a::fill collector::a::use collector::a::lastuse collector::a::discard collector::b0::fill collector::b0::use
    collector::b0::lastuse collector::b0::discard collector::b1::fill collector::b1::use collector::b2::fill collector::b2::use collector::b3::fill
    collector::b3::use down unpack::16b pack::16b ld cp wait::ld wait::st before_thread_sync after_thread_sync fence::before_thread_sync
    fence::after_thread_sync ashift satfinite ordered_metadata x8 x16 x32 x64 x128 spformat
"""
_TENSOR_MEMORY = """
    16x32bx2 16x64b 16x128b 16x256b 32x32b 4x256b 32x128b 64x128b 128x128b 128x256b b6x16_p32 b4x16_p64 32x128bp 128x128bp ashift::1 4x32dp128bit
    async::generic ue8m0x4 thread b2 multicast evict_first evict_last evict_normal evict_unchanged ::all sparsity visible
    collector::b1::lastuse collector::b1::discard collector::b2::lastuse collector::b2::discard collector::b3::lastuse collector::b3::discard
"""
_TEXTURES = """
    a1d a2d 2dms a2dms cube acube 1da 2da level base grad r g b a p trap zero clamp width height depth channel_data_type channel_order normalized_coords
    array_size num_mipmap_levels num_samples filter_mode addr_mode_0 addr_mode_1 addr_mode_2 force_unnormalized_coords memory_layout texref samplerref surfref
    istypep fractional range
"""
# Instructions and the words that each may have, except types, roundings and the words of `_OPEN`; a line is for several
# instructions. Compiled: ptxas 13.0.88 calls each other word of `MODIFIERS` illegal, after every form of the
# instruction that this repository has.
_WORDS_OF = """
    abs neg: ftz
    add sub: cc ftz relu sat
    addc subc: cc sat
    applypriority discard: L2 L2::evict_normal global
    activemask alloca stackrestore stacksave and bfe bfi brev clz cnot copysign dp4a fns mov nanosleep not or popc rem sad selp shl shr slct testp xor:
    atom: L2::cache_hint acq_rel acquire add and cas cluster const cta dec exch global gpu inc local max min noftz or param param::entry
        param::func popc relaxed release shared shared::cluster shared::cta sys tex vec_16_bit vec_32_bit xor
    bfind: shiftamt
    bmsk szext: clamp wrap
    cos ex2 lg2 rcp rsqrt sin sqrt: approx ftz
    createpolicy: L1::evict_first L1::evict_last L1::evict_normal L1::evict_unchanged L1::no_allocate L2 L2::evict_first L2::evict_last
        L2::evict_normal L2::evict_unchanged cvt evict_first evict_last evict_normal evict_unchanged fractional global range
    cvt: abs approx ftz pack relu rs sat satfinite scaled
    cvta: const global local param param::entry param::func shared shared::cluster shared::cta tex to
    div: approx ftz full
    dp2a mul24: hi lo
    elect: sync
    fma: ftz oob relu sat
    isspacep: const global local param param::entry param::func shared shared::cluster shared::cta
    ld: L1::evict_first L1::evict_last L1::evict_normal L1::evict_unchanged L1::no_allocate L2::128B L2::256B L2::64B L2::cache_hint
        L2::evict_first L2::evict_last L2::evict_normal acquire ca cg cluster const cs cta cv evict_first evict_last evict_normal evict_unchanged
        gl global gpu level::eviction_priority local lu mmio nc param param::entry param::func relaxed shared shared::cluster shared::cta sys tex
        unified volatile weak
    ldu mapa: const global local param param::entry param::func shared shared::cluster shared::cta tex
    lop3: and or xor
    mad: cc ftz hi lo relu sat wide
    mad24: hi lo sat
    madc: cc hi lo sat
    match vote: all any ballot sync uni
    max: NaN abs ftz relu xorsign
    min: NaN abs ftz relu sat xorsign
    movmatrix: aligned col m16n16 m16n8 m8n16 m8n8 row sync trans
    mul: ftz hi lo sat wide
    multimem: acc::f16 acc::f32 acquire add and cas cluster const cta dec gl global gpu inc ld_reduce local max min or param param::entry
        param::func popc red relaxed release shared shared::cluster shared::cta st sys tex weak xor
    prmt: b4e ecl ecr f4e rc16 rc8
    red: L2::cache_hint add and async cas cluster const cta dec global gpu inc local max mbarrier::complete_tx::bytes min mmio noftz or param
        param::entry param::func popc relaxed release shared shared::cluster shared::cta sys tex vec_16_bit vec_32_bit xor
    redux: NaN abs add and max min or sync xor
    set setp: and eq equ ftz ge geu gt gtu hi hs le leu lo ls lt ltu nan ne neu num or xor
    setmaxnreg: aligned sync
    shf: clamp l r wrap
    shfl: bfly down idx sync up
    st: L1::evict_first L1::evict_last L1::evict_normal L1::evict_unchanged L1::no_allocate L2::cache_hint L2::evict_first L2::evict_last
        L2::evict_normal async bulk cg cluster const cs cta evict_first evict_last evict_normal evict_unchanged gl global gpu local
        mbarrier::complete_tx::bytes mmio param param::entry param::func relaxed release shared shared::cluster shared::cta sys tex volatile wb
        weak wt
    stmatrix: aligned col const global local m16n16 m16n8 m8n16 m8n8 param param::entry param::func row shared shared::cluster shared::cta sync
        tex trans x1 x128 x16 x2 x32 x4 x64 x8
    tanh: approx
    vabsdiff vabsdiff2 vabsdiff4 vadd vadd2 vadd4 vavrg2 vavrg4 vmax2 vmax4 vmin vmin4 vsub vsub2 vsub4: add max min popc sat
    vmad: po sat shr15 shr7
    vset vset2 vset4: add eq equ ge geu gt gtu hi hs le leu lo ls lt ltu max min nan ne neu num popc
    vshl vshr: add clamp max min popc sat wrap
"""
_OPEN = """
    128x128bp 1da 2da 32x128bp 4x32dp128bit ::all acc::f16 acc::f32 b2 box_dim dec element_stride elemtype exch fill_mode finite global_address global_dim
    global_stride inc infinite interleave_layout normal notanumber number rank subnormal swizzle_atomicity swizzle_mode unified visible
"""
_ROUNDINGS = "rn rz rm rp rna rni rzi rmi rpi"
_ROUND = ("add", "sub", "mul", "mad", "fma", "div", "rcp", "sqrt", "cvt")
# Words of arithmetic on floating-point types alone, and these types.
FLOAT_WORDS = frozenset(f"{_ROUNDINGS} ftz approx full NaN xorsign oob".split())
FLOATS = frozenset(("f16", "f16x2", "bf16", "bf16x2", "f32", "f32x2", "f64", "tf32"))
TYPES = frozenset(_TYPES.split())
MODIFIERS = frozenset(f"{_TYPES} {_ARITHMETIC} {_MEMORY} {_ASYNCHRONOUS} {_MATRIX} {_TENSOR_MEMORY} {_TEXTURES}".split())


def nearest(word: str, known: Collection[str]) -> str:
    """The known word that is nearest to a misspelt one; "" if none is near.

    >>> nearest("u33", MODIFIERS), nearest("gloabl", MODIFIERS), nearest("zq", MODIFIERS)
    ('u32', 'global', '')
    """
    least = LIKE if len(word) > 3 else SHORT if len(word) > 2 else 0.5
    near = difflib.get_close_matches(word, sorted(one for one in known if len(word) > 2 or one[0] == word[0]), 8, least)

    def likeness(one: str) -> float:
        return difflib.SequenceMatcher(None, word, one).ratio() + ((one[0] == word[0]) + (len(one) == len(word))) / 16

    return max(near, key=likeness, default="")


def _words_of() -> dict[str, frozenset[str]]:
    """`WORDS_OF` from its text."""
    found: dict[str, frozenset[str]] = {}
    for entry in re.sub(r"\n {5,}", " ", _WORDS_OF).strip().splitlines():
        names, _, words = entry.strip().partition(":")
        for name in names.split():
            roundings = _ROUNDINGS if name in _ROUND else ""
            found[name] = frozenset(f"{words} {_OPEN} {roundings}".split())
    return found


WORDS_OF = _words_of()  # by instruction: the words that it may have, except types
