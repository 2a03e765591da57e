"""Which words of an instruction's name go together, as ptxas 13.0.88 answers (compiled): words that exclude each other,
words that need others, and the words that follow the first one.
"""

from __future__ import annotations

import functools

from smemsim.core.spec.ptx_words import FLOATS, TYPES

__all__ = ["CLOSED", "DISCARDING", "ill_formed", "is_closed"]


# Instructions all of whose forms in PTX 9.0 smemsim knows: ptxas refuses the others.
_CLOSED = """
abs activemask add addc and applypriority atom bar barrier bfe bfi bfind bmsk brev brkpt clusterlaunchcontrol clz cnot copysign
cos cp createpolicy cvt discard div dp2a dp4a elect ex2 exit fence fma getctarank griddepcontrol ld ldmatrix lg2
lop3 mad mad24 madc match max mbarrier membar min mma movmatrix mul mul24 nanosleep neg not or popc prefetch
prefetchu prmt rcp red redux rem ret rsqrt sad selp set setmaxnreg setp shf shfl shl shr sin sqrt st stmatrix sub
subc tanh tcgen05 tensormap testp trap vote wgmma wmma xor
"""
_SECOND = {  # the words after the first one
    "barrier": "cluster cta sync arrive red", "clusterlaunchcontrol": "try_cancel is_canceled query_cancel", "cp": "async reduce",
    "createpolicy": "fractional range cvt", "griddepcontrol": "launch_dependents wait", "multimem": "ld_reduce st red cp",
    "mbarrier": "arrive arrive_drop complete_tx expect_tx init inval pending_count test_wait try_wait", "setmaxnreg": "dec inc", "tensormap": "replace cp_fenceproxy",
    "tcgen05": "alloc dealloc relinquish_alloc_permit ld st wait::ld wait::st cp shift mma commit fence::before_thread_sync fence::after_thread_sync",
    "wgmma": "commit_group fence mma_async wait_group", "wmma": "load mma store",
}  # fmt: skip
CLOSED = frozenset(_CLOSED.split())
# Instructions that take _ as their result, or as the first half of `d|p`; ptxas refuses it for all others.
DISCARDING = frozenset(("atom", "elect", "lop3", "match.all", "mbarrier.arrive", "mbarrier.arrive_drop", "setp"))
_TWICE = frozenset(("col", "row", "sync"))  # words that may stand twice
_TWICE_OF = {"createpolicy": ("L2::evict_first", "L2::evict_unchanged")}  # the same of one instruction: two priorities
_VECTORS, _SCOPES = ("v2", "v4", "v8"), ("cta", "cluster", "gpu", "sys")
_ORDERS = ("relaxed", "acquire", "release", "acq_rel", "sc", "weak", "volatile")
_ALONE = {  # words of which an instruction has one at most
    "atom": (_VECTORS, _SCOPES, _ORDERS), "fence": (_ORDERS,), "ld": (_VECTORS, _SCOPES, _ORDERS), "mbarrier": (_SCOPES, _ORDERS),
    "red": (_VECTORS, _SCOPES, _ORDERS), "st": (_VECTORS, _SCOPES, _ORDERS),
}  # fmt: skip
_ROUNDINGS = ("rn", "rz", "rm", "rp", "rna", "rs", "rni", "rzi", "rmi", "rpi")
_LEVELS = ("L1", "L2", "L2::evict_last", "L2::evict_normal", "tensormap")
_NEEDS = {"applypriority": ("L2::evict_normal",), "discard": ("L2",), "prefetch": _LEVELS}  # one of these


def is_closed(op: str, words: tuple[str, ...]) -> bool:
    """Does ptxas refuse every form of an instruction that smemsim does not know? Stores and reductions that are
    asynchronous, fences of mbarrier.init, and names with .sync twice or without .aligned may have further forms.
    """
    is_open = (
        "mbarrier_init" in words or words.count("sync") > 1 or (op in ("tcgen05", "wgmma") and "sync" in words and "aligned" not in words)
    )
    if op in ("red", "st") and "async" in words:  # at generic and global addresses
        is_open = words[0] != "async" or "weak" in words or "shared::cluster" not in words
    return op in CLOSED and not is_open


@functools.lru_cache(1024)
def ill_formed(op: str, words: tuple[str, ...]) -> str:
    """Why no instruction has this name, in words; "" if nothing is known against it.

    >>> ill_formed("mbarrier", ("arrive", "relaxed", "shared", "b64"))
    '.relaxed needs a scope, such as .cta'
    >>> ill_formed("mbarrier", ("arrive", "shared", "b64"))
    ''
    """
    second = _SECOND.get(op, "").split()
    if second and (not words or words[0] not in second):
        return f"{op} is followed by .{', .'.join(second)}"
    may_repeat = _TWICE.union(TYPES, _TWICE_OF.get(op, ()))
    twice = next((word for word in words if words.count(word) > 1 and word not in may_repeat), "")
    if twice:
        return f".{twice} stands twice"
    for group in (_ROUNDINGS, *_ALONE.get(op, ())):
        both = [word for word in words if word in group]
        if len(both) > 1 and words[:1] != ("proxy",):
            return f".{both[0]} and .{both[1]} do not go together"
    needed = _NEEDS.get(op, ())
    if needed and not set(needed) & set(words):
        return f"it needs .{' or .'.join(needed)}"
    if op == "prefetch" and len(set(_LEVELS) & set(words)) > 1:
        return f".{' and .'.join(word for word in words if word in _LEVELS)} do not go together"
    if op == "prefetch" and {"tensormap", "global"} <= set(words):
        return ".tensormap does not go with .global"
    if (
        op == "fence"
        and words[:2] in (("proxy", "async"), ("proxy", "alias"))
        and len(words) > 2
        and not words[2].startswith(("global", "shared"))
    ):
        return f".{words[2]} does not go with .proxy.{words[1]}"
    return _ill_ordered(op, words) or _ill_typed(op, words)


def _ill_ordered(op: str, words: tuple[str, ...]) -> str:
    """The same of orders and scopes."""
    order = next((word for word in words if word in ("relaxed", "acquire", "release")), "")
    scope = next((word for word in words if word in _SCOPES), "")
    if op == "mbarrier" or (op in ("red", "st") and "async" in words):
        if order and not scope:
            return f".{order} needs a scope, such as .cta"
        if scope and not order and op == "mbarrier":
            return f".{scope} needs .relaxed, .acquire or .release"
    restricted = next((word for word in words if word.startswith("sync_restrict::")), "")
    if op == "fence" and restricted:
        wanted = {"acquire": "sync_restrict::shared::cluster", "release": "sync_restrict::shared::cta"}.get(order)
        if restricted != wanted or scope != "cluster":
            return f".{restricted} goes with .{'acquire' if restricted.endswith('cluster') else 'release'} and .cluster"
    return ""


def _ill_typed(op: str, words: tuple[str, ...]) -> str:
    """The same of types."""
    types = [word for word in words if word in TYPES]
    if op == "mbarrier" and len(types) > 1:
        return f".{types[0]} and .{types[1]}: it has one type"
    if op == "mapa" and len(types) != 1:
        return "it has one type"
    if op == "red" and words[:1] == ("async",) and (floats := FLOATS.intersection(types)):
        return f".{min(floats)}: asynchronous reductions are of integers"
    if op == "tcgen05" and {"block16", "block32"} & set(words) and "block_scale" not in words:
        return ".block16 and .block32 need .block_scale"
    kind = next((word for word in words if word.startswith("kind::") and not word.startswith("kind::mx")), "")
    if op == "tcgen05" and kind and "block_scale" in words:
        return f".{kind} and .block_scale do not go together"
    is_scaled = op == "tcgen05" and "kind::mxf4nvf4" in words
    if is_scaled and not any(word.startswith(("scale_vec::", "block16", "block32")) for word in words):
        return ".kind::mxf4nvf4 needs .scale_vec::2X, .scale_vec::4X, .block16 or .block32"
    return ""
