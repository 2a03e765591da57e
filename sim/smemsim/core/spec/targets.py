"""The `.target` that an instruction needs. No assembler accepts it for other targets.

Compiled: every row is the answer of ptxas 13.0.88 to such an instruction for targets sm_75 to sm_121a (13.4.59 for
those of PTX ISA 9.2). A test compares the rows with the installed ptxas. The PTX ISA's sections on target ISAs agree
for the instructions that it documents.
"""

from __future__ import annotations

import dataclasses
import functools
import re

__all__ = [
    "ARRIVALS", "FIRST_VERSIONS", "SCALE_INPUT", "TARGET_OPTIONS", "TARGET_RULES", "THIRD_SOURCE", "TargetRule", "family_of", "how_it_runs", "static_shared", "target_number",
    "unsupported",
]  # fmt: skip


# The words of `.target` beside targets (PTX ISA 9.1 §11.1.2, compiled: ptxas refuses others).
TARGET_OPTIONS = ("texmode_unified", "texmode_independent", "debug", "map_f64_to_f32")
HOPPER = ("sm_90a",)
DATACENTRE = ("sm_100f", "sm_100a", "sm_103f", "sm_103a")  # a family's targets, and those of one architecture
THOR = ("sm_110f", "sm_110a")
RTX = ("sm_120f", "sm_120a", "sm_121f", "sm_121a")
TCGEN05 = (*DATACENTRE, *THOR)
BLACKWELL = (*TCGEN05, *RTX)
BOTH = (*HOPPER, *BLACKWELL)
ARCHITECTURES_ALONE = ("sm_100a", "sm_103a", "sm_110a")  # not the family's
RTX_ALONE = ("sm_120a", "sm_121a")
ULTRA = ("sm_103f", "sm_103a", *THOR)


# The PTX ISA version of each target: ptxas refuses the target under an older `.version`. Targets that are missing
# here exist in every version with `.address_size`.
FIRST_VERSIONS = {
    "sm_72": (6, 1), "sm_75": (6, 3), "sm_80": (7, 0), "sm_86": (7, 1), "sm_87": (7, 4), "sm_89": (7, 8), "sm_90": (7, 8), "sm_90a": (8, 0),
    "sm_100": (8, 6), "sm_100a": (8, 6), "sm_100f": (8, 8), "sm_103": (8, 8), "sm_103a": (8, 8), "sm_103f": (8, 8),
    "sm_110": (9, 0), "sm_110a": (9, 0), "sm_110f": (9, 0), "sm_120": (8, 7), "sm_120a": (8, 7), "sm_120f": (8, 8), "sm_121": (8, 8), "sm_121a": (8, 8), "sm_121f": (8, 8),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class TargetRule:
    """The need of one instruction: a least number, or one of some targets. The begin of its name is `begin`, "" for any
    instruction.

    All of its further `words` must be there. The first broken rule is reported.
    """

    begin: str
    words: tuple[str, ...]
    needs: int | tuple[str, ...]

    @functools.cached_property
    def beginning(self) -> tuple[str, ...]:
        """The words with which the instruction's name begins."""
        return tuple(self.begin.split(".")) if self.begin else ()

    def holds(self, name: tuple[str, ...]) -> bool:
        """Does the rule apply to an instruction of this name?"""
        return name[: len(self.beginning)] == self.beginning and all(word in name for word in self.words)

    def allows(self, target: str) -> bool:
        """Is the instruction there on a target?"""
        return target_number(target) >= self.needs if isinstance(self.needs, int) else target in self.needs

    @property
    def sentence(self) -> str:
        """The need, in words."""
        return f"it needs sm_{self.needs} or higher" if isinstance(self.needs, int) else f"it needs {' or '.join(self.needs)}"


def target_number(target: str) -> int:
    """The number of a target, without its suffix.

    >>> target_number("sm_100f")
    100
    """
    found = re.search(r"\d+", target)
    return int(found[0]) if found else 0


def family_of(target: str) -> int:
    """The family of a target: 10 of sm_100 and sm_103, 12 of sm_120 and sm_121. Targets of one family run each other's
    `f` code, older to newer.

    >>> family_of("sm_103a") == family_of("sm_100f"), family_of("sm_110a") == family_of("sm_100f")
    (True, False)
    """
    return target_number(target) // 10


def how_it_runs(target: str, arch: str) -> str:
    """Why PTX for a target runs on a card, as the driver chooses: "exact", "family", "older"; "" if it does not.

    PTX for a target with `a` runs on that card only. With `f` it runs on cards of its family from that number on.
    Without either it runs on every card from that number on.

    >>> [how_it_runs(target, "sm_121a") for target in ("sm_121a", "sm_120f", "sm_120", "sm_120a", "sm_100f")]
    ['exact', 'family', 'older', '', '']
    """
    if target == arch:
        return "exact"
    if target.endswith("a") or target_number(target) > target_number(arch):
        return ""
    if target.endswith("f"):
        return "family" if family_of(target) == family_of(arch) else ""
    return "older"


# Bytes of static shared memory that ptxas 13.0.88 takes: for a target with `a` those of its cards, from a number on;
# for any other 48 KiB.
STATIC_SHARED, OF_ITS_CARDS = 49152, {90: 232448, 120: 101376}


def static_shared(target: str) -> int:
    """Bytes of static shared memory that ptxas takes for a target.

    >>> static_shared("sm_89"), static_shared("sm_120"), static_shared("sm_120a")
    (49152, 49152, 101376)
    """
    if not target.endswith("a"):
        return STATIC_SHARED
    return OF_ITS_CARDS[max(number for number in OF_ITS_CARDS if number <= target_number(target))]


@functools.lru_cache(maxsize=4096)
def unsupported(name: tuple[str, ...], target: str) -> TargetRule | None:
    """The rule that keeps an instruction, by the words of its name, from a target; None where there is none.

    >>> unsupported(("wgmma", "fence", "sync", "aligned"), "sm_90").sentence, unsupported(("wgmma", "fence", "sync", "aligned"), "sm_90a")
    ('it needs sm_90a', None)
    """
    return next((rule for rule in TARGET_RULES if rule.holds(name) and not rule.allows(target)), None)


def _rows(begin: str, needs: int | tuple[str, ...], *words: str) -> tuple[TargetRule, ...]:
    """A rule for each of some lists of words."""
    return tuple(TargetRule(begin, tuple(w.split()), needs) for w in words or ("",))


# No words of names: an instruction that has such an operand.
SCALE_INPUT, THIRD_SOURCE, ARRIVALS = "scale-input-d", "a third source", "a count of arrivals"
_TENSOR = "cp.async.bulk.tensor"
_PREFETCH = "cp.async.bulk.prefetch.tensor"
_SMALL = ("e2m1x2", "e2m3x2", "e3m2x2", "ue8m0x2")
# fmt: off
TARGET_RULES: tuple[TargetRule, ...] = (
    *_rows("wgmma", HOPPER),
    *_rows("setmaxnreg", BOTH),
    *_rows("tcgen05", TCGEN05),
    *_rows("tcgen05.ld.red", ULTRA),
    *_rows("tcgen05.shift", ARCHITECTURES_ALONE),
    *_rows("tcgen05.mma", ("sm_100a", "sm_110a"), "kind::i8"),
    TargetRule("tcgen05.mma", (SCALE_INPUT,), DATACENTRE),
    *_rows("tcgen05.mma", ARCHITECTURES_ALONE, "scale_vec::1X", "scale_vec::2X", "scale_vec::4X"),
    *_rows("tcgen05.mma.sp", ARCHITECTURES_ALONE, "kind::mxf4", "kind::mxf4nvf4"),
    *_rows("tensormap.replace", BOTH),
    *_rows("tensormap.replace", BLACKWELL, "swizzle_atomicity"),
    *_rows("tensormap", 90),
    *_rows(_TENSOR, TCGEN05, "cta_group::1", "cta_group::2", "tile::gather4 shared::cluster", "im2col::w shared::cluster", "im2col::w::128",
           "tile::scatter4"),
    *_rows(_TENSOR, 100, "tile::gather4", "im2col::w"),
    *_rows(_PREFETCH, TCGEN05, "tile::gather4", "im2col::w", "im2col::w::128"),
    *_rows("cp.async.bulk", 100, "cp_mask"),
    *_rows("cp.async.bulk", 90),
    *_rows("cp.reduce.async.bulk", 90),
    *_rows("cp.async", 80),
    *_rows("clusterlaunchcontrol", BLACKWELL, "multicast::cluster::all"),
    *_rows("clusterlaunchcontrol", 100),
    *_rows("ldmatrix", BLACKWELL, "m16n16", "m8n16"),
    *_rows("stmatrix", BLACKWELL, "m16n8"),
    *_rows("stmatrix", 90),
    *_rows("redux", DATACENTRE, "f32"),
    *_rows("redux", 80),
    *_rows("cvt", ("sm_100a", "sm_103a"), "rs"), *_rows("cvt", (*ARCHITECTURES_ALONE, *RTX_ALONE), "s2f6x2"),
    *_rows("cvt", BLACKWELL, *_SMALL, "bf16x2 e4m3x2", "bf16x2 e5m2x2"),
    *_rows("cvt", 89, "e4m3x2", "e5m2x2"),
    *_rows("cvt", 100, "rn satfinite tf32", "rz satfinite tf32"),
    *_rows("cvt", 90, "rn tf32", "rz tf32", "f16 bf16"),
    *_rows("cvt", 80, "tf32", "bf16", "bf16x2", "f16x2 f32"),
    *_rows("mma", RTX_ALONE, "block_scale sp::ordered_metadata kind::mxf4", "block_scale sp::ordered_metadata kind::mxf4nvf4"),
    *_rows("mma", RTX, "block_scale", "e3m2", "e2m3", "e2m1"),
    *_rows("mma", BLACKWELL, "kind::f8f6f4"),
    *_rows("mma", 89, "e4m3", "e5m2"),
    *_rows("mma", 90, "m16n8k4 f64", "m16n8k8 f64", "m16n8k16 f64"),
    *_rows("mma", 80, "sp", "sp::ordered_metadata", "f64", "tf32", "bf16", "m16n8k16", "m16n8k32", "m16n8k64", "m16n8k128", "m16n8k256"),
    *_rows("wmma", 80, "f64", "tf32", "bf16"),
    *_rows("st.bulk", 100),
    *_rows("st.async", 100, "global"), *_rows("st.async", 90),
    *_rows("red.async", 100, "global"), *_rows("red.async", 90),
    *_rows("ld", 100, "v8", "v4 b64", "v4 u64", "v4 s64", "v4 f64"),
    *_rows("st", 100, "v8", "v4 b64", "v4 u64", "v4 s64", "v4 f64"),
    *(row for op in ("add", "sub", "mul", "fma") for row in _rows(op, 100, "f32x2")),
    *(row for op in ("add", "sub", "fma") for row in _rows(op, 100, "f32 f16", "f32 bf16")),
    *(row for op in ("add", "sub", "mul", "setp", "set", "tanh", "ex2") for row in _rows(op, 90, "bf16", "bf16x2")),
    *(row for op in ("fma", "neg", "abs", "min", "max") for row in _rows(op, 80, "bf16", "bf16x2")),
    *(row for op in ("add", "min", "max") for row in _rows(op, 90, "u16x2", "s16x2")),
    *(row for op in ("min", "max") for row in (TargetRule(op, (THIRD_SOURCE,), 100), *_rows(op, 90, "relu"), *_rows(op, 86, "xorsign"), *_rows(op, 80, "NaN"))),
    *_rows("fma", 90, "oob"), *_rows("fma", 80, "relu"),
    *(row for op in ("atom", "red") for row in _rows(op, 90, "bf16", "bf16x2", "v2", "v4", "v8")),
    *_rows("atom", 90, "b128"),
    TargetRule("mbarrier", (ARRIVALS,), 90),
    *_rows("mbarrier", 90, "expect_tx", "complete_tx", "try_wait", "relaxed"),
    *_rows("mbarrier", 80),
    *_rows("multimem", (*TCGEN05, *RTX_ALONE), "e4m3x4", "e5m2x4", "e4m3x2", "e5m2x2", "e4m3", "e5m2"),
    *(row for op in ("mapa", "getctarank", "elect", "griddepcontrol", "multimem", "barrier.cluster", "fence.mbarrier_init", "fence.proxy.async")
      for row in _rows(op, 90)),
    *_rows("fence", 90, "sync_restrict::shared::cluster", "sync_restrict::shared::cta", "proxy tensormap::generic"),
    *(row for op in ("prefetch",) for row in _rows(op, 90, "tensormap")),
    *_rows("createpolicy", 80), *_rows("applypriority", 80), *_rows("discard", 80),
    *_rows("", 90, "shared::cluster", "cluster", "%clusterid", "%nclusterid", "%cluster_ctaid", "%cluster_nctaid", "%cluster_ctarank",
           "%cluster_nctarank", "%is_explicit_cluster"),
    *(row for name in ("reqnctapercluster", "maxclusterrank", "explicitcluster", "blocksareclusters") for row in _rows(name, 90)),
)
# fmt: on
