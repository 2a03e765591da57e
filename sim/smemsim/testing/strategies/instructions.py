"""Instruction descriptors of tcgen05.mma."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from smemsim.descriptors.instr import InstrDescriptor
from smemsim.errors import InputError
from smemsim.spec.architectures import architecture
from smemsim.spec.formats import FORMATS
from smemsim.spec.instr_descriptor import MAX_SHIFTS
from smemsim.spec.tcgen05 import KINDS, SCALE_TYPES_OF_BLOCK, WIDE_K, kind_of, scale_modes, shapes_of
from smemsim.testing.strategies.descriptors import neighbours, words
from smemsim.testing.strategies.given import is_grave, legality

__all__ = ["instr_descriptors", "near_instr_descriptors"]

MAJORS = ("K", "MN")
Draw = Callable[[st.SearchStrategy[Any]], Any]


def instr_descriptors(
    *, kind: str | None = None, legal: str = "legal", arch: str | None = None, cta_group: int | None = None, ws: bool | None = None
) -> st.SearchStrategy[InstrDescriptor]:
    """Instruction descriptors of tcgen05.mma: ones that the hardware has ("legal"), one field away from that and wrong ("near"), any word ("any").

    `kind` is all of them if None (those of `arch`, if given); `cta_group` and `ws` are what they are judged with, unknown if None. The rules are
    documented, not measured. InputError for a kind or a context that does not exist.

    >>> from hypothesis import given, settings
    >>> @settings(max_examples=10, derandomize=True, deadline=None)
    ... @given(instr_descriptors(kind="f16", cta_group=2))
    ... def law(d):
    ...     assert d.m in (128, 256) and d.n % 16 == 0
    >>> law()
    """
    wanted = legality(legal)
    rows, context = _kinds(kind, arch, cta_group, ws)
    if wanted == "any":
        return st.sampled_from(rows).flatmap(lambda name: words(KINDS[name].word).map(lambda word: InstrDescriptor.decode(word, kind=name)))
    if wanted == "near":
        return near_instr_descriptors(kind=kind, arch=arch, cta_group=cta_group, ws=ws).map(lambda found: found[1])
    return _legal_instr(rows, context).filter(lambda d: not is_grave(d.problems(**context)))


def near_instr_descriptors(
    *, kind: str | None = None, arch: str | None = None, cta_group: int | None = None, ws: bool | None = None
) -> st.SearchStrategy[tuple[InstrDescriptor, InstrDescriptor, str]]:
    """(legal descriptor, the same with another value in one field, that field): the second one is no instruction, or another one than meant.

    Options as of `instr_descriptors`.

    >>> from hypothesis import given, settings
    >>> @settings(max_examples=10, derandomize=True, deadline=None)
    ... @given(near_instr_descriptors(kind="f16"))
    ... def law(found):
    ...     assert any(f.severity in ("trap", "wrong") for f in found[1].problems())
    >>> law()
    """
    rows, context = _kinds(kind, arch, cta_group, ws)
    sound = _legal_instr(rows, context).filter(lambda d: not is_grave(d.problems(**context)))

    def wrong(pair: tuple[InstrDescriptor, str]) -> bool:
        return is_grave(pair[0].problems(**context))

    return sound.flatmap(lambda d: neighbours(d).filter(wrong).map(lambda pair: (d, *pair)))


def _kinds(kind: Any, arch: Any, cta_group: Any, ws: Any) -> tuple[tuple[str, ...], dict[str, Any]]:
    context = {name: value for name, value in (("arch", arch), ("cta_group", cta_group), ("ws", ws)) if value is not None}
    InstrDescriptor(kind="f16").problems(**context)  # InputError for what is no context
    rows = tuple(
        row.name
        for row in ([kind_of(kind)] if kind is not None else KINDS.values())
        if (arch is None or architecture(arch).name in row.archs) and shapes_of(row, cta_group=cta_group, ws=ws, sparse=False, wide_k=False)
    )
    if not rows:
        told = ", ".join(f"{name} = {value!r}" for name, value in context.items())
        raise InputError(f"kind = {kind!r}: does not exist with {told}")
    return rows, context


@st.composite
def _legal_instr(draw: Draw, kinds: tuple[str, ...], context: dict[str, Any]) -> InstrDescriptor:
    row = KINDS[draw(st.sampled_from(kinds))]
    group, ws = context.get("cta_group"), context.get("ws")
    sparse = draw(st.booleans())
    wide = not sparse and row.has_wide_k and context.get("arch") in (None, "sm_103a") and draw(st.booleans())
    shapes = shapes_of(row, cta_group=group, ws=ws, sparse=sparse, wide_k=wide)
    if not shapes:
        sparse, wide = False, False
        shapes = shapes_of(row, cta_group=group, ws=ws, sparse=False, wide_k=False)
    shape = draw(st.sampled_from(shapes))
    types = [draw(st.sampled_from(list(of.values()))) for of in (row.a_types, row.b_types)]
    given: dict[str, Any] = {"kind": row.name, "m": draw(st.sampled_from(shape.m)), "n": draw(st.sampled_from(shape.n))}
    given |= {"a_type": types[0], "b_type": types[1], "sparsity": sparse, "k": WIDE_K if wide else None}
    wide_d = [name for name in row.d_types.values() if FORMATS[name].bits == 32]  # an f16 D needs f16 inputs, or fp8
    narrow = row.name == "f16" and types != ["f16", "f16"]
    given["d_type"] = draw(st.sampled_from(wide_d if narrow else list(row.d_types.values())))
    floats = FORMATS[types[0]].is_float
    for side in "ab":
        if f"transpose_{side}" in row.word.fields and row.transposable:
            given[f"{side}_major"] = draw(st.sampled_from(MAJORS))
        if floats:
            given[f"negate_{side}"] = draw(st.booleans())
    if not floats:
        given["saturate"] = draw(st.booleans())
    if sparse and "sparsity_selector" in row.word.fields:
        given["sparsity_selector"] = draw(st.sampled_from(row.selectors))
    if ws and "max_shift" in row.word.fields:
        given["max_shift"] = draw(st.sampled_from(MAX_SHIFTS))
    if row.block_scaled:
        mode = draw(st.sampled_from(scale_modes(row, wide_k=wide)))
        given["scale_type"] = draw(st.sampled_from(SCALE_TYPES_OF_BLOCK[mode.block]))
        given |= {f"{side}_sf_id": draw(st.sampled_from(sorted(mode.ids))) for side in "ab"}
    return InstrDescriptor(**given)
