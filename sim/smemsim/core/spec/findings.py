"""The finding codes that people and their scenario files rely on: number, slug and severity. A code keeps its meaning
for ever.
"""

from __future__ import annotations

import enum
import pathlib
from typing import NamedTuple

from smemsim.base.members import OwnEnumMembers

__all__ = ["CODES", "CONSEQUENCES", "TOLD_APART", "UPSTREAM", "UPSTREAM_IF_MENDED", "Code", "Severity"]


class Severity(enum.StrEnum, metaclass=OwnEnumMembers):
    """trap: refused, a fault, a hang, or undefined. wrong: silently wrong data. luck: right today, not
    guaranteed. note: worth knowing.

    >>> import smemsim
    >>> [str(severity) for severity in smemsim.Severity]
    ['trap', 'wrong', 'luck', 'note']
    """

    TRAP = "trap"
    WRONG = "wrong"
    LUCK = "luck"
    NOTE = "note"

    def __repr__(self) -> str:
        return repr(str(self))

    @property
    def says(self) -> str:
        """The meaning of the severity, in words."""
        return {
            "trap": "refused, a fault, a hang, or undefined",
            "wrong": "silently wrong data",
            "luck": "right today, not guaranteed",
            "note": "worth knowing",
        }[self]


class Code(NamedTuple):
    """A code's number, its slug, the severity its findings have unless they say otherwise, and what it says."""

    number: str
    slug: str
    severity: Severity
    says: str

    @property
    def cause(self) -> str:
        """The cause in prose, as its page has it: without tables and lists, and without the sentence before them.

        >>> CODES["D307"].cause.split()[0]
        'A'
        >>> [number for number, code in CODES.items() if "|" in code.cause or not code.cause.endswith(".")]
        []
        """
        text = (pathlib.Path(__file__).parents[2] / "explanations" / f"{self.number}.md").read_text(encoding="utf-8")
        paragraphs = text.partition("## Cause")[2].partition("\n## ")[0].strip().split("\n\n")
        prose = [" ".join(p.split()) for p in paragraphs if not p.startswith(("|", "- "))]
        return " ".join(p if not p.endswith(":") else p.rpartition(". ")[0] + "." * (". " in p) for p in prose).strip()


# fmt: off
CODES: dict[str, Code] = {number: Code(number, slug, Severity(severity), says) for number, slug, severity, says in (
    ("A101", "destination-misaligned", "trap", "the shared address of a transfer is not a multiple of 128 B (bulk copies: 16 B)"),
    ("A102", "stage-misaligned", "trap", "some pipeline stages are misaligned and others are not: the distance between stages is the cause"),
    ("A103", "bulk-size",       "trap",  "the size of a bulk copy is not a multiple of 16 B"),
    ("A104", "map-misaligned",  "trap",  "the CUtensorMap object is not at a multiple of 64 B"),
    ("A105", "pattern-phase",   "wrong", "software XORs offsets, hardware XORs addresses, and the buffer does not begin where the swizzle pattern begins"),
    ("A106", "alignment-not-guaranteed", "luck", "the declared alignment does not guarantee the alignment that is needed"),
    ("A107", "outside-buffer",  "wrong", "a transfer or a read leaves its buffer or the shared window"),
    ("A108", "buffers-overlap", "note",  "two buffers share bytes: a wrong size, or memory that is used twice on purpose"),
    ("T201", "box-range",       "trap",  "a box dimension is not between 1 and 256"),
    ("T202", "inner-exceeds-swizzle", "trap", "the box's inner extent is wider than the swizzle"),
    ("T203", "inner-not-16",    "trap",  "the box's inner extent is not a multiple of 16 B"),
    ("T204", "global-misaligned", "trap", "a global address or stride is not a multiple of 16 B (32 B with INTERLEAVE_32B or packed types)"),
    ("T205", "map-refused",     "trap",  "the driver refuses the map, or the card a box of it, for another reason"),
    ("T206", "inner-not-contiguous", "wrong", "dimension 0 of the map is not the tensor's contiguous axis"),
    ("T207", "map-is-not-tensor", "wrong", "extents, strides or address are not those of the tensor"),
    ("T208", "inner-below-swizzle", "note", "rows narrower than the swizzle lie a full swizzle width apart"),
    ("T209", "fill-where-data", "wrong", "out-of-bounds fill arrives instead of data"),
    ("T210", "transaction-bytes", "trap", "the mbarrier expects another number of bytes than arrive"),
    ("T211", "element-width",   "wrong", "the map's elements are not as wide as the tensor's"),
    ("T212", "map-traps",       "trap",  "the map exists, but every transfer or every load through it traps"),
    ("T213", "argument-ignored", "wrong", "an argument is checked and encoded, but has no effect on transfers"),
    ("T214", "elements-overlap", "note", "a stride is smaller than what it steps over: elements share bytes"),
    ("T215", "beyond-the-documents", "luck", "it works on the hardware that was measured, but no document allows it"),
    ("T216", "store-overrun",   "note",  "dimension 0 ends inside a 16-byte chunk, which stores and reductions write as a whole"),
    ("T217", "sources-disagree", "note", "documents contradict each other; the finding names the one that smemsim follows"),
    ("T218", "one-direction",   "note",  "every store through the map traps, or the map is for stores only"),
    ("T219", "always-fill",     "note",  "a part of every box lies outside the tensor (im2col: most of the pixel box)"),
    ("T220", "all-zero",        "trap",  "the tensor map is 128 bytes of zero: it was never encoded, or not copied"),
    ("T221", "null-address",    "note",  "the global address is 0: a placeholder that must be replaced before the first transfer"),
    ("T222", "partial-step",    "note",  "the box is not a multiple of the element stride: the number of elements is rounded up"),
    ("D301", "field-in-bytes",  "wrong", "LBO or SBO was written in bytes; the field counts units of 16 B"),
    ("D302", "swizzle-code",    "wrong", "the swizzle code means another swizzle on this architecture, or none"),
    ("D303", "low-bits-lost",   "wrong", "an address or offset is not a multiple of 16 B, or has more than 18 bits"),
    ("D304", "start-overflow",  "wrong", "an advance overflows the 14 bits of the start address field"),
    ("D305", "fixed-bits",      "note",  "reserved or constant bits differ"),
    ("D306", "base-offset",     "wrong", "a base offset is set, but the data was swizzled by absolute addresses"),
    ("D307", "bytes-alias",     "wrong", "two elements of one instruction are read from the same byte"),
    ("D308", "stride-value",    "wrong", "LBO or SBO must have another value"),
    ("D309", "strides-swapped", "wrong", "the values of LBO and SBO are swapped"),
    ("D310", "field-unused",    "note",  "this instruction never uses the field"),
    ("L401", "layout-aliases",  "wrong", "the stated layout is not one-to-one: two elements have the same place"),
    ("L402", "not-representable", "trap", "no descriptor reads this layout"),
    ("L403", "descriptor-found", "note", "the scenario has no descriptor for an operand; this one reads it"),
    ("R501", "swizzle-mismatch", "wrong", "writer and reader use different swizzles"),
    ("R502", "k-advance",       "wrong", "later K steps start in the wrong place"),
    ("R503", "panel-jump",      "wrong", "K steps are right within the first swizzle width, and start in the wrong place after it"),
    ("R504", "block-advance",   "wrong", "M or N blocks start in the wrong place"),
    ("R505", "transposed",      "wrong", "the operand is the transpose of the intended tile"),
    ("R507", "unwritten",       "wrong", "a value is used that nothing has written"),
    ("R508", "operand-mismatch", "wrong", "an operand holds other elements than the intended tile, and no more specific code fits"),
    ("R510", "never-read",      "note",  "no later step reads the data of a transfer"),
    ("P101", "ring-held-back",  "note",  "a ring of stages works as fewer stages than it has, because of a wait that is not needed"),
    ("P102", "needless-wait",   "note",  "with a weaker wait the sanitizer stays silent, and memory is the same"),
    ("P103", "wait-never-waits", "note", "a wait for a parity never waits: each time, an old phase satisfies it"),
    ("P901", "bank-conflicts",  "note",  "accesses of neighbouring threads fall into the same banks"),
    ("P902", "line-conflicts",  "note",  "a line spends much of the launch's passes through shared memory on bank conflicts"),
    ("P903", "uncoalesced",     "note",  "a line touches many more sectors of global memory than its bytes need"),
    ("P904", "idle-lanes",      "note",  "most lanes of the launch's warp instructions are idle"),
    ("P905", "counter-limit",   "wrong", "a counter is above the bound that the launch has for it"),
    ("I601", "shape",           "trap",  "the instruction does not exist with this M, N or K"),
    ("I602", "type-major",      "trap",  "the instruction cannot read this type with this major-ness or swizzle"),
    ("I603", "idesc",           "wrong", "fields of the instruction descriptor contradict each other, the instruction or its kind"),
    ("I604", "lane-split",      "wrong", "the rows of an operand are not in the lanes of tensor memory that the instruction reads (M = 64, .ws, two CTAs)"),
    ("I605", "copy-shape",      "wrong", "tcgen05.cp moves other rows or columns than those of the tile, or other copies of them"),
    ("S701", "scale-layout",    "wrong", "scale factors in shared memory are not in the atom of 32 x 16 B that the copy assumes"),
    ("S702", "scale-slice",     "wrong", "a tensor-memory column, scale id, byte-id or thread-id of a step is not that of its scale factors"),
    ("X001", "out-of-bounds-access", "trap", "a thread accesses memory that is not allocated, or past the shared window"),
    ("X002", "misaligned-access", "trap", "an address is not a multiple of the size of the access"),
    ("X003", "missing-proxy-fence", "wrong", "TMA or the tensor core reads stores of threads without fence.proxy.async"),
    ("X004", "read-before-arrival", "wrong", "bytes of an asynchronous operation are read before a thread has waited for it"),
    ("X005", "overwritten-in-flight", "wrong", "bytes are overwritten while an asynchronous operation may still read or write them"),
    ("X006", "hang",            "trap",  "warps wait for an event that never happens"),
    ("X007", "registers-in-flight", "wrong", "registers of an asynchronous instruction are used before a wait for it"),
    ("X008", "missing-barrier", "wrong", "two threads access the same bytes, one of them writes, and nothing orders them"),
    ("X009", "tensor-memory-allocation", "trap", "tensor memory is allocated, used or deallocated against its rules"),
    ("X010", "barrier-misuse",  "trap",  "a barrier or an mbarrier is used against its rules"),
    ("X011", "divergence",      "trap",  "an instruction for a whole warp or warpgroup is not executed by all of it"),
    ("X012", "tensor-memory-order", "wrong", "tensor memory is accessed before an earlier operation on it is complete"),
    ("X013", "assertion",       "trap",  "the kernel's own assertion failed, or it executed trap"),
    ("X014", "missing-wgmma-fence", "wrong", "wgmma reads registers that no wgmma.fence made visible"),
    ("X015", "illegal-instruction", "trap", "an instruction has operands that hardware refuses"),
    ("X016", "issued-by-many",  "wrong", "several threads of a warp issue an operation that one thread should issue: it happens several times"),
    ("X017", "product-lost",    "wrong", "a matrix product is overwritten before any instruction has read it"),
    ("X019", "own-rank",        "note",  "every CTA of a cluster gives mapa its own rank, and uses the result as an address in another CTA"),
    ("X020", "answer-decides",  "wrong", "the result depends on how often clusterlaunchcontrol.try_cancel succeeds"),
    ("X030", "schedule-decides", "wrong", "the result depends on the order of threads, CTAs and asynchronous operations"),
    ("H801", "errors-cancel",   "luck",  "both operands are displaced in the same way: the product does not change"),
    ("H802", "square-hides",    "luck",  "square extents hide a transposition"),
    ("H803", "one-atom-hides",  "luck",  "a value is right only because an extent equals one atom"),
)}

# Codes that are more likely the cause of others come first; codes of one line are equally likely. The order: the map,
# the transfers, the descriptors, the order of accesses, and consequences.
_UPSTREAM = """
X016
A103
T201 T202 T203 T204 T205 T206 T207 T208 T209 T210 T211 T212 T213 T214 T215 T216 T217 T218 T219 T220 T221 T222
D301
D302
D303
D304
D306
D308
D309
I601 I602 I603 I604 I605
D305 D307 D310
L401 L402 L403
R501
R502
R503
R504
R505
A101 A102 A104 A105 A106 A107 A108
X009
X010
X011
X014
X003
X007
X012
X008
X004
X005
X017
X019 X020
X030
R507 R508 R510
X013
X001
X002
X015
X006
S701 S702 P901 H801 H802 H803
P905
P902 P903 P904
P101 P102 P103
"""
# fmt: on
UPSTREAM: dict[str, int] = {code: rank for rank, line in enumerate(_UPSTREAM.split("\n")) for code in line.split()}
# if a single change of the scenario fixes it, its place in the order is that of another code
UPSTREAM_IF_MENDED = {"R508": "R502"}
# Codes that a finding further upstream about the same bytes of the same run explains:
CONSEQUENCES = frozenset(("R507", "R508", "T210", "X004", "X005", "X006", "X011"))
TOLD_APART = ("X006", "X011")  # reported at each place where threads wait, although the sentences are alike
