"""The suites of tcgen05.mma operands and of what lies where in tensor memory. PLAN.md has their arrays and what each of
them settles.
"""

from __future__ import annotations

import functools
import pathlib
import random
import struct
from typing import Any

import numpy as np

from smemsim.capture import pointer_suite, transfer_suites, value_suites, wide_suite
from smemsim.capture.bench import KERNELS, RUNNERS, Bench, in_processes, ragged
from smemsim.capture.blackwell import access, commits, dots, draw, gemm, machine, pages, transfers
from smemsim.capture.blackwell.contents import COLUMNS, LANES, SENTINEL, k_bytes, kept_half, matrix_word, tensor_image
from smemsim.capture.blackwell.draw import A_COLUMN, META_COLUMN, ONES_UE8M0, SCALE_A_COLUMN, SCALE_B_COLUMN, Probe
from smemsim.capture.blackwell.layouts import documented
from smemsim.capture.blackwell.machine import WAIT
from smemsim.capture.blackwell.pages import expanded
from smemsim.capture.blackwell.words import BLOCK_SCALED, ELEMENTS, KINDS, index_bits, instruction_descriptor, pack, passes

Case = dict[str, Any]
UNTOUCHED, ODD = -2, -3
# Reserved bits of instruction descriptors (tables 42 to 44); of mxf4 also bit 12, which compilers set.
RESERVED = {
    "f16": (6, 23, 29),
    "tf32": (6, 23, 29),
    "f8f6f4": (6, 23, 29),
    "i8": (6, 23, 29),
    "mxf8f6f4": (0, 3, 6, 24, 31),
    "mxf4": (0, 3, 6, 12, 15, 24),
}
MODULES = {
    "blackwell_machine_1": lambda: machine.source(1),
    "blackwell_machine_2": lambda: machine.source(2),
    access.MODULE: access.source,
    commits.MODULE: commits.source,
    gemm.MODULE: gemm.source,
    transfers.MODULE: transfers.source,
    "blackwell_allocation": lambda: machine.header() + (machine.HERE / "allocation.cu").read_text(),
}


def answered(suite: str, chosen: list[Case]) -> list[dict[str, Any]]:
    """Run machine cases; an answer that has one gets `words` as (pass, CTA, lane, column)."""
    answers = in_processes("blackwell_machine", chosen)
    pages.report(suite, answers)
    for c, a in zip(chosen, answers, strict=True):
        if "words" in a:
            a["words"] = expanded(a["words"], np.uint32).reshape(len(c["passes"]), c["group"], LANES, c["columns"][1])
    return answers


def common(chosen: list[Case], answers: list[dict[str, Any]]) -> dict[str, np.ndarray]:
    """The outcome of every machine case."""
    return {
        "status": np.array([a["status"] for a in answers], np.uint16),
        "completed": np.array([a.get("completed", 0) for a in answers], np.uint8),
        "tensor_base": np.array([a.get("tensor_base", [0])[0] for a in answers], np.uint32),
        "columns": np.array([c["columns"][1] if a["status"] == 0 else 0 for c, a in zip(chosen, answers, strict=True)], np.uint16),
    }


def values(words: np.ndarray, accumulator: str) -> np.ndarray:
    """Tags as integers; ODD where the word is no small integer, UNTOUCHED where it is the sentinel."""
    if accumulator == "s32":
        whole = words.view(np.int32).astype(np.int64)
        odd = (whole < 0) | (whole >= 1 << 24)
    else:
        number = words.view(np.float32).astype(np.float64)
        odd = ~np.isfinite(number) | (np.where(np.isfinite(number), number, 0) % 1 != 0) | ~(np.abs(number) < 1 << 24)
        whole = np.where(odd, 0, number).astype(np.int64)
        odd |= whole < 0
    return np.where(words == SENTINEL, UNTOUCHED, np.where(odd, ODD, whole)).astype(np.int32)


def joined(digits: np.ndarray, bits: int) -> np.ndarray:
    """The passes' digits (pass, …) put together; UNTOUCHED where every pass is, ODD where
    one of them makes no digit.
    """
    out = np.zeros(digits.shape[1:], np.int32)
    for i, digit in enumerate(digits):
        out |= np.where(digit >= 0, digit, 0) << (i * bits)
    wrong = ((digits < 0) | (digits >= 1 << bits)).any(0)
    return np.where((digits == UNTOUCHED).all(0), UNTOUCHED, np.where(wrong, ODD, out)).astype(np.int32)


# ------------------------------------------------------------------------------------------------------------- operands


def places(probe: Probe, case: Case, words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(raw, owner): the element's place for every (CTA, lane, column), for each metadata half if there are two.

    A place is chunk * per_chunk + position, chunk being the byte address / 16. `owner` says whose shared memory: 1
    even, 2 odd CTA; 0 without a pair.
    """
    element = ELEMENTS[probe.dtype]
    each, halves = len(case["passes"]) // case["halves"], case["halves"]
    raws, owners = [], []
    for half in range(halves):
        numbers = values(words[half * each : (half + 1) * each], probe.accumulator)
        count = passes(element, index_bits(element))
        raws.append(joined(numbers[:count], element.tag_bits))
        owners.append(numbers[count] if probe.group == 2 else np.zeros_like(numbers[0]))
    return np.array(raws), np.array(owners)


@functools.cache
def where(probe: Probe) -> tuple[np.ndarray, ...]:
    """(metadata half, CTA, lane, column) of D that shows each element (rows of both CTAs, stored k), through the
    documented layouts.
    """
    total = probe.m if probe.operand == "A" else probe.n
    logical = [x for x in range(probe.k) if kept_half(probe.dtype, x) == 0] if probe.sparse else list(range(probe.k))
    out = np.zeros((4, total, probe.stored_k), np.int32)
    for row in range(total):
        for stored in range(probe.stored_k):
            if probe.operand == "A":
                m, n, half = row, logical[stored], 0
            else:
                m, n, half = stored, row, kept_half(probe.dtype, stored) if probe.sparse else 0
            out[:, row, stored] = half, *documented(probe.m, probe.n, m, n, group=probe.group, ws=probe.ws, sparse=probe.sparse)
    return tuple(out)


def at_mn(probe: Probe, raw: np.ndarray) -> np.ndarray:
    """`raw` by (row, k) of the operand: (rows of both CTAs, stored k)."""
    return np.asarray(raw[where(probe)])


def write_operands(bench: Bench, out: pathlib.Path, suite: str, title: str, seed: int, chosen: list[tuple[str, Probe, int]]) -> None:
    cases = [draw.operand_case(probe, word) for _, probe, word in chosen]
    answers = answered(suite, cases)
    raws, owners, elements = [], [], []
    for (_, probe, _), case, a in zip(chosen, cases, answers, strict=True):
        if "words" in a:
            raw, owner = places(probe, case, a["words"])
            raws.append(raw)
            owners.append(owner if probe.group == 2 else np.zeros(0, np.int32))
            elements.append(at_mn(probe, raw))
        else:
            for part in (raws, owners, elements):
                part.append(np.zeros(0, np.int32))
    probes = [probe for _, probe, _ in chosen]
    bench.write(
        out, suite, "tcgen05_operand", title, seed, len(chosen),
        {
            "what": np.array([what for what, _, _ in chosen]),
            "descriptor": np.array([word for _, _, word in chosen], np.uint64),
            "idesc": np.array([probe.idesc() for probe in probes], np.uint32),
            **{name: np.array([getattr(p, name) for p in probes]) for name in ("kind", "dtype", "operand", "major")},
            **{name: np.array([getattr(p, name) for p in probes], np.uint16) for name in ("m", "n", "k", "stored_k", "rows", "group", "ws", "sparse")},
            "halves": np.array([c["halves"] for c in cases], np.uint8),
            **common(cases, answers),
            **ragged("raw", raws, np.int32),
            **ragged("owner", owners, np.int8),
            **ragged("element", elements, np.int32),
        },
        ("raw", "element"),
    )  # fmt: skip


def tcgen05_operands(bench: Bench, out: pathlib.Path) -> None:
    chosen = [("", probe, word) for probe, word in draw.operands(9201)]
    title = "Which element of shared memory tcgen05.mma reads for every element of A and of B: random descriptors, every kind"
    write_operands(bench, out, "tcgen05_operands", title, 9201, chosen)


def tcgen05_descriptor_edges(bench: Bench, out: pathlib.Path) -> None:
    title = "The same through words that the PTX ISA does not describe, or not fully: constant bits, layout codes, base_offset, LBO, the window's end"
    write_operands(bench, out, "tcgen05_descriptor_edges", title, 9202, draw.edges(9202))


# ---------------------------------------------------------------------------------------------------- where D and A lie

A_AT, B_AT = 0x4000, 0x10000


def layout_case(kind: str, dtype: str, m: int, n: int, *, group: int = 1, ws: bool = False, sparse: bool = False, background: bool = False,
                suffix: str = "", idesc: dict[str, Any] | None = None, **fields: Any) -> Case:  # fmt: skip
    """Pass 0 makes D[m, n] the number of A's row, pass 1 that of B's row: 128 * CTA + the row in that CTA's shared
    memory.
    """
    probe = Probe(kind, dtype, "A", "K", m, n, group, ws, sparse)
    element, k, stored = ELEMENTS[dtype], probe.k, probe.stored_k
    step = {
        "op": probe.form + suffix, "flags": WAIT, "a": matrix_word(A_AT, k_bytes(element, stored)), "b": matrix_word(B_AT, k_bytes(element, k)),
        "idesc": probe.idesc(**(idesc or {})), "meta": META_COLUMN, "scale_a": SCALE_A_COLUMN, "scale_b": SCALE_B_COLUMN, "enable_d": 0, **fields,
    }  # fmt: skip
    rows_a, rows_b = m // group, n // group
    runs = []
    for i in range(2):
        what_a, what_b = ("row tags", "weights") if i == 0 else ("weights", "row tags")
        shared = []
        for rank in range(group):
            tag = [128 * rank]
            a = [dtype, A_AT, what_a, rows_a, stored, *(tag if i == 0 else [])]
            b = [dtype, B_AT, *(["spread"] if sparse else [what_b]), rows_b, k, *([what_b] if sparse else []), *(tag if i == 1 else [])]
            shared.append([["zeros"], a, b])
        tensor: list[Any] = [[META_COLUMN, 8, "word", 0x44444444]]
        if kind in BLOCK_SCALED:
            tensor += [[SCALE_A_COLUMN, 32, "word", ONES_UE8M0], [SCALE_B_COLUMN, 32, "word", ONES_UE8M0]]
        if background:
            tensor.append([0, 256, "f32"])
        runs.append({"shared": shared, "tensor": [tensor] * group})
    return {"group": group, "columns": draw.around(n), "steps": [step], "passes": runs, "probe": vars(probe), "what": ""}


def layout_cases() -> list[Case]:
    """Every shape that some source calls legal, and some about which the PTX ISA and CUTLASS disagree."""
    out: list[Case] = []

    def add(what: str, *arguments: Any, **more: Any) -> None:
        out.append({**layout_case(*arguments, **more), "what": what})

    for kind, (_, types) in draw.kinds().items():
        for dtype in types:
            scaled = kind in BLOCK_SCALED
            for m in (128,) if scaled else (64, 128):
                for n in (8, 16, 24, 40, 64, 128, 136, 256):  # N % 8 against N % 16; i8 takes 24 or does not
                    add("cta_group::1", kind, dtype, m, n)
                add("cta_group::1 sparse", kind, dtype, m, 64, sparse=True)
            for m in (128, 256):
                for n in (16, 32, 48, 64, 128, 256):  # i8: steps of 32 or 16
                    add("cta_group::2", kind, dtype, m, n, group=2)
                add("cta_group::2 sparse", kind, dtype, m, 64, group=2, sparse=True)
            if not scaled:
                for m in (32, 64, 128):
                    for n in (64, 128, 256):
                        add(".ws", kind, dtype, m, n, ws=True)
                    if m > 32:
                        add(".ws sparse", kind, dtype, m, 64, ws=True, sparse=True)
    for lane in (16, 1, 8, 32):  # M = 64 twice in the same columns; other lanes belong to no operand
        add("D at another lane", "f16", "bf16", 64, 64, d=lane << 16)
    for column in (1, 3, 32, 100):
        add("D at another column", "f16", "bf16", 128, 64, d=column)
        out[-1]["columns"] = [0, 256]
    return out


def modifier_cases(seed: int) -> list[Case]:
    rng = random.Random(seed)
    out: list[Case] = []

    def add(what: str, *arguments: Any, **more: Any) -> None:
        out.append({**layout_case(*arguments, **more), "what": what})

    def mask(count: int) -> list[int]:
        return [rng.getrandbits(32) for _ in range(count)]

    for kind, dtype in (("f16", "bf16"), ("tf32", "tf32"), ("f8f6f4", "e4m3")):
        for enable in (0, 1):
            add("enable-input-d", kind, dtype, 128, 64, background=True, enable_d=enable)
            add("enable-input-d", kind, dtype, 256, 64, group=2, background=True, enable_d=enable)
        for m, group in ((128, 1), (64, 1), (256, 2), (128, 2)):
            for _ in range(3):
                add("disable-output-lane", kind, dtype, m, 64, group=group, suffix=".mask", mask=mask(4 * group))
        for m in (32, 64, 128):
            for _ in range(10):
                counts = sum(rng.randrange(64) << 8 * i for i in range(4))
                spans = rng.randrange(20) << 40 | rng.randrange(20) << 48
                shift = rng.choice((0, 0, 1, 2, 8, 16, 31))
                zero = counts | rng.getrandbits(4) << 32 | int(rng.random() < 0.9) << 39 | spans | shift << 56
                most = 0 if not shift else 1 if shift <= 8 else 2 if shift <= 16 else 3
                add("zero-column mask", kind, dtype, m, 64, ws=True, suffix=".zero", zero=zero, idesc={"max_shift": most})
        for flags in ({"negate_a": True}, {"negate_b": True}, {"negate_a": True, "negate_b": True}):
            add("negate", kind, dtype, 128, 64, idesc=flags)
    for kind, dtype in (("mxf8f6f4", "e4m3"), ("mxf4", "e2m1x2"), ("mxf4nvf4", "e2m1x2")):
        for flags in ({"negate_a": True}, {"negate_b": True}, {"negate_a": True, "negate_b": True}):
            add("negate", kind, dtype, 128, 64, idesc=flags)
    for kind, bits in RESERVED.items():
        for bit in bits if kind in draw.kinds() else ():
            add(f"reserved bit {bit}", kind, KINDS[kind][1][0], 128, 64, idesc={"extra": 1 << bit})
    for kind, dtype in (("f16", "bf16"), ("tf32", "tf32")):
        for scale in range(16):
            add("scale-input-d", kind, dtype, 128, 32, background=True, enable_d=1, suffix=f".scale{scale}")
    # `use` names a descriptor whose rows begin 8 further on: which A is it?
    for kind, dtype in (("f16", "bf16"), ("i8", "u8")):
        for ws in (False, True) if kind in draw.kinds() else ():
            case = layout_case(kind, dtype, 128, 64, ws=ws)
            first = case["steps"][0]
            name = first["op"] + ".fill"
            other = {**first, "op": first["op"] + ".use", "d": 128, "b" if ws else "a": first["b" if ws else "a"] + (8 * 32 >> 4)}
            last = {**other, "op": first["op"] + ".lastuse", "d": 256}
            out.append({**case, "steps": [{**first, "op": name}, other, last], "columns": [0, 320], "what": "collector"})
    return out


def write_layouts(bench: Bench, out: pathlib.Path, suite: str, title: str, seed: int, cases: list[Case]) -> None:
    answers = answered(suite, cases)
    probes = [c["probe"] for c in cases]
    first = [c["steps"][0] for c in cases]
    bench.write(
        out, suite, "tmem_layout", title, seed, len(cases),
        {
            "what": np.array([c["what"] for c in cases]),
            "form": np.array([s["op"] for s in first]),
            **{name: np.array([p[name] for p in probes]) for name in ("kind", "dtype")},
            **{name: np.array([p[name] for p in probes], np.uint16) for name in ("m", "n", "group", "ws", "sparse")},
            "idesc": np.array([s["idesc"] for s in first], np.uint32),
            "d": np.array([s.get("d", 0) for s in first], np.uint32),
            "enable_d": np.array([s["enable_d"] for s in first], np.uint8),
            "background": np.array([any(r[2] == "f32" for r in c["passes"][0]["tensor"][0]) for c in cases], np.uint8),
            "mask": np.array([[*s.get("mask", []), *[0] * 8][:8] for s in first], np.uint32),
            "zero_column_mask": np.array([s.get("zero", 0) for s in first], np.uint64),
            **common(cases, answers),
            **ragged("words", [a.get("words", np.zeros(0, np.uint32)) for a in answers], np.uint32),
        },
        ("words",),
    )  # fmt: skip


def tmem_layouts(bench: Bench, out: pathlib.Path) -> None:
    title = "Where D lies: every lane and column of both CTAs as a number of A's row and one of B's, every shape, also those that sources disagree about"
    write_layouts(bench, out, "tmem_layouts", title, 0, layout_cases())


def tcgen05_modifiers(bench: Bench, out: pathlib.Path) -> None:
    title = "The same with enable-input-d, scale-input-d, disable-output-lane, zero-column masks, negation, collectors"
    write_layouts(bench, out, "tcgen05_modifiers", title, 9203, modifier_cases(9203))


BYTES_OF_OWNERS = 0x14, 0x28  # wherever 4 or 6 bits lie in a byte, these two are different numbers


def owner_words(dtype: str) -> tuple[int, int]:
    """Cells of A that distinguish the even CTA from the odd one: elements 1 and 2, or bytes if the question is what a
    byte means.
    """
    element = ELEMENTS[dtype]
    if element.bits < 8 and dtype != "e2m1x2":
        even, odd = (byte * 0x01010101 for byte in BYTES_OF_OWNERS)
    else:
        even, odd = (int(pack(element, np.full((1, element.per_chunk), element.encode(x), np.uint32)).view("<u4").flat[0]) for x in (1, 2))
    return even, odd


def owners_of(cases: list[Case]) -> np.ndarray:
    """(case, CTA) words of the last pass, 0 where no pass asks for the owner."""
    return np.array([c["owners"] or (0, 0) for c in cases], np.uint32)


def tmem_operand_cases() -> list[Case]:
    """A from tensor memory: tags of its bytes, and for sub-byte types what every container byte means. B is an
    identity.
    """
    out = []
    for kind, (base_k, types) in draw.kinds().items():
        for dtype in types:
            element = ELEMENTS[dtype]
            scaled = kind in BLOCK_SCALED
            shapes = [(128, 1, False), (256, 2, False)] + (
                [] if scaled else [(64, 1, False), (128, 2, False), (32, 1, True), (64, 1, True), (128, 1, True)]
            )
            for m, group, ws in shapes:
                n = max(64 if ws or scaled else 16, base_k * group, 16)
                probe = Probe(kind, dtype, "A", "K", m, n, group, ws)
                for suffix, lane in (("", 0), (".ashift", 0), ("", 16)):
                    if (suffix and (scaled or ws or m == 64 or group == 2)) or (lane and not (m == 64 and not ws)):
                        continue
                    form = f"{kind}.ts.ashift" if suffix else probe.form.replace(".ss", ".ts")
                    step = {
                        "op": form, "flags": WAIT, "a": lane << 16 | A_COLUMN, "d": lane << 16, "b": matrix_word(B_AT, k_bytes(element, base_k)),
                        "idesc": probe.idesc(), "scale_a": SCALE_A_COLUMN, "scale_b": SCALE_B_COLUMN, "enable_d": 0,
                    }  # fmt: skip
                    scales = [[SCALE_A_COLUMN, 32, "word", ONES_UE8M0], [SCALE_B_COLUMN, 32, "word", ONES_UE8M0]] if scaled else []
                    shared = [[["zeros"], [dtype, B_AT, "identity", n // group, base_k, rank * n // group]] for rank in range(group)]
                    contents = "bytes" if element.bits < 8 else "tags"
                    count = 2 if contents == "bytes" else passes(element, index_bits(element))
                    runs = []
                    for i in range(count):
                        what = ["lane bytes", i] if contents == "bytes" else ["tags", dtype, i]
                        runs.append({"shared": shared, "tensor": [[[A_COLUMN, 96, *what], *scales]] * group})
                    owners = owner_words(dtype) if group == 2 else ()
                    if owners:  # whose tensor memory: one number in the even CTA's, another one in the odd CTA's
                        runs.append({"shared": shared, "tensor": [[[A_COLUMN, 96, "word", word], *scales] for word in owners]})
                    out.append({"group": group, "columns": draw.around(n), "steps": [step], "passes": runs, "probe": vars(probe), "what": contents,
                                "owners": owners})  # fmt: skip
    return out


def write_tensor_probe(
    bench: Bench, out: pathlib.Path, suite: str, kind: str, title: str, seed: int, cases: list[Case], more: dict[str, np.ndarray]
) -> None:
    """A suite of machine cases whose words are kept as they are."""
    answers = answered(suite, cases)
    probes, first = [c["probe"] for c in cases], [c["steps"][0] for c in cases]
    bench.write(
        out, suite, kind, title, seed, len(cases),
        {
            "what": np.array([c["what"] for c in cases]),
            "form": np.array([s["op"] for s in first]),
            **{name: np.array([p[name] for p in probes]) for name in ("kind", "dtype")},
            **{name: np.array([p[name] for p in probes], np.uint16) for name in ("m", "n", "group", "ws", "sparse")},
            **{name: np.array([s.get(name, 0) for s in first], np.uint32) for name in ("idesc", "d", "meta", "scale_a", "scale_b")},
            "a": np.array([s["a"] for s in first], np.uint64),
            "passes": np.array([len(c["passes"]) for c in cases], np.uint8),
            **more,
            **common(cases, answers),
            **ragged("words", [a.get("words", np.zeros(0, np.uint32)) for a in answers], np.uint32),
        },
        ("words",),
    )  # fmt: skip


def tmem_operands(bench: Bench, out: pathlib.Path) -> None:
    cases = tmem_operand_cases()
    title = "Which byte of tensor memory tcgen05.mma reads for every element of A, and what a container byte of a sub-byte type means"
    tag_bits = np.array([ELEMENTS[c["probe"]["dtype"]].tag_bits for c in cases], np.uint8)
    more = {"tag_bits": tag_bits, "owner_words": owners_of(cases)}
    write_tensor_probe(bench, out, "tmem_operands", "tmem_operand", title, 0, cases, more)


def scale_cases() -> list[Case]:
    """One block of K has ones in A, the rest zeros; the scales of one side hold tags, those of the other are 1."""
    out = []
    for kind, block, vectors, ue8m0 in (("mxf8f6f4", "block32", 1, True), ("mxf4", "block32", 2, True), ("mxf4nvf4", "block32", 2, True),
                                        ("mxf4nvf4", "block16", 4, True), ("mxf4nvf4", "block16", 4, False)):  # fmt: skip
        dtype = "e4m3" if kind == "mxf8f6f4" else "e2m1x2"
        element = ELEMENTS[dtype]
        for sparse in (False, True):
            k = KINDS[kind][0] * (2 if sparse else 1)
            for m, group in ((128, 1), (256, 2), (128, 2)):
                for n in (8 * group, 64, 128, 256):
                    for side in "AB":
                        for vector in range(vectors):
                            ids = {1: range(4), 2: (0, 2), 4: (0,)}[vectors]
                            plain = n == 64 and not sparse
                            # (scale id of the descriptor, of the address): kernels give the
                            # same, or none in the address
                            pairs = [(number, 0) for number in (ids if plain else ids[:1])]
                            if plain and m == 128 and group == 1 and vector == 0:
                                pairs += [(number, other) for number in ids for other in ids if other]
                            for number, other in pairs:
                                # Stored elements of the block: a sparse row keeps half of every group.
                                stored = k // 2 if sparse else k
                                begin, end = stored // vectors * vector, stored // vectors * (vector + 1)
                                words = {"A": (SCALE_A_COLUMN, SCALE_B_COLUMN), "B": (SCALE_B_COLUMN, SCALE_A_COLUMN)}[side]
                                idesc = instruction_descriptor(
                                    kind, dtype, dtype, m=m, n=n, sparse=sparse, ue8m0=ue8m0, scale_a_id=number if side == "A" else 0,
                                    scale_b_id=number if side == "B" else 0,
                                )  # fmt: skip
                                step = {
                                    "op": f"{kind}.{block}.ss{'.sp' if sparse else ''}", "flags": WAIT, "a": matrix_word(A_AT, k_bytes(element, stored)),
                                    "b": matrix_word(B_AT, k_bytes(element, k)), "idesc": idesc, "meta": META_COLUMN,
                                    "scale_a": SCALE_A_COLUMN | (other << 30 if side == "A" else 0),
                                    "scale_b": SCALE_B_COLUMN | (other << 30 if side == "B" else 0), "enable_d": 0,
                                }  # fmt: skip
                                shared = [
                                    ["zeros"],
                                    [dtype, A_AT, "ones", m // group, stored, begin, end],
                                    [dtype, B_AT, "ones", n // group, k, 0, k],
                                ]
                                one = ONES_UE8M0 if ue8m0 else 0x38383838
                                runs = [
                                    {
                                        "shared": [shared] * group,
                                        "tensor": [[[META_COLUMN, 8, "word", 0x44444444], [words[0], 32, "scale tags", ue8m0, i], [words[1], 32, "word", one]]] * group,
                                    }
                                    for i in range(3 if ue8m0 else 4)
                                ]  # fmt: skip
                                # 2 and 4
                                owners = ((0x80808080, 0x81818181) if ue8m0 else (0x40404040, 0x48484848)) if group == 2 else ()
                                if owners:  # whose tensor memory
                                    tensor = [
                                        [[META_COLUMN, 8, "word", 0x44444444], [words[0], 32, "word", word], [words[1], 32, "word", one]]
                                        for word in owners
                                    ]
                                    runs.append({"shared": [shared] * group, "tensor": tensor})
                                probe = vars(Probe(kind, dtype, side, "K", m, n, group, False, sparse))
                                out.append({"group": group, "columns": draw.around(n), "steps": [step], "passes": runs, "probe": probe,
                                            "what": f"{side} {vector}", "owners": owners})  # fmt: skip
    return out


def tmem_scales(bench: Bench, out: pathlib.Path) -> None:
    cases = scale_cases()
    title = "Which byte of tensor memory scales every row and column, one block of K at a time"
    write_tensor_probe(bench, out, "tmem_scales", "tmem_scale", title, 0, cases, {"owner_words": owners_of(cases)})


def metadata_cases(seed: int) -> list[Case]:
    """A is all ones, and its metadata is random. B is an identity, so D shows which element of each group a row
    keeps."""
    rng, out = random.Random(seed), []
    for kind, dtype in (("f16", "bf16"), ("tf32", "tf32"), ("f8f6f4", "e4m3"), ("i8", "u8"), ("mxf8f6f4", "e4m3"), ("mxf4", "e2m1x2")):
        if kind not in draw.kinds():
            continue
        element, k = ELEMENTS[dtype], 2 * KINDS[kind][0]
        scaled = kind in BLOCK_SCALED
        shapes = [(128, 1, False), (256, 2, False)] + ([] if scaled else [(64, 1, False), (128, 2, False), (64, 1, True), (128, 1, True)])
        for m, group, ws in shapes:
            for selector in (0, 1) if kind in ("f16", "tf32") else (0,):
                for lane in (0, 16) if (m == 64 and not ws) or (m == 128 and group == 2) else (0,):
                    for _ in range(4):
                        n = max(64, k * group if k * group <= 256 else k)
                        probe = Probe(kind, dtype, "A", "K", m, n, group, ws, sparse=True)
                        step = {
                            "op": probe.form, "flags": WAIT, "d": lane << 16, "a": matrix_word(A_AT, k_bytes(element, k // 2)),
                            "b": matrix_word(B_AT, k_bytes(element, k)), "meta": lane << 16 | META_COLUMN, "enable_d": 0,
                            "idesc": probe.idesc(**({} if scaled else {"selector": selector})), "scale_a": SCALE_A_COLUMN, "scale_b": SCALE_B_COLUMN,
                        }  # fmt: skip
                        scales = [[SCALE_A_COLUMN, 32, "word", ONES_UE8M0], [SCALE_B_COLUMN, 32, "word", ONES_UE8M0]] if scaled else []
                        drawn = [rng.getrandbits(30) for _ in range(group)]
                        shared = [
                            [["zeros"], [dtype, A_AT, "ones", m // group, k // 2, 0, k // 2], [dtype, B_AT, "identity", n // group, k, rank * n // group]]
                            for rank in range(group)
                        ]  # fmt: skip
                        tensor = [[[META_COLUMN, 4, "nibbles", dtype, seed_of], *scales] for seed_of in drawn]
                        out.append({"group": group, "columns": draw.around(n), "steps": [step], "passes": [{"shared": shared, "tensor": tensor}],
                                    "probe": vars(probe), "what": f"selector {selector}"})  # fmt: skip
    return out


def tmem_metadata(bench: Bench, out: pathlib.Path) -> None:
    cases = metadata_cases(9204)
    images = [[tensor_image(r)[:, META_COLUMN : META_COLUMN + 4] for r in c["passes"][0]["tensor"]] * 2 for c in cases]
    title = "Which nibble of the sparsity metadata belongs to which row and group of A: random metadata, D says what every row kept"
    write_tensor_probe(
        bench, out, "tmem_metadata", "tmem_metadata", title, 9204, cases, {"metadata": np.array([pair[:2] for pair in images], np.uint32)}
    )


# ------------------------------------------------------------------------------------------------------- copies, shifts

COPY_ROWS = {"128x256b": (128, 32), "4x256b": (4, 32), "128x128b": (128, 16), "64x128b.warpx2::02_13": (64, 16), "64x128b.warpx2::01_23": (64, 16),
             "32x128b.warpx4": (32, 16)}  # fmt: skip


def copy_cases(seed: int) -> list[Case]:
    rng, out = random.Random(seed), []
    for shape, (rows, width) in COPY_ROWS.items():
        for decompression in machine.DECOMPRESSIONS:
            for group in (1, 2):
                for i in range(24 if group == 1 and not decompression else 8):
                    code = (0, 2, 4, 6)[i % 4] if i < 20 else rng.choice((1, 3, 5, 7))
                    word = draw.descriptor(rng, "u8", rows, width, "K", code)
                    lane = rng.choice((32, 64, 16, 1)) if i == 7 else 0
                    bits = 6 if "b6" in decompression else 4 if "b4" in decompression else 0
                    backgrounds = [["bits", bits, step] for step in range(-(-18 // bits))] if bits else [["words", 0]]
                    runs = [
                        {"shared": [[[*b[:-1], rank] if b[0] == "words" else b] for rank in range(group)], "tensor": [[]] * group}
                        for b in backgrounds
                    ]
                    step = {"op": f"cp.{shape}{decompression}", "flags": WAIT, "a": word, "d": lane << 16 | rng.randrange(0, 20)}
                    out.append({"group": group, "columns": [0, 32], "steps": [step], "passes": runs, "what": shape + decompression})
    return out


def tcgen05_copies(bench: Bench, out: pathlib.Path) -> None:
    seed, suite, cases = 9205, "tcgen05_copies", copy_cases(9205)
    answers = answered(suite, cases)
    bench.write(
        out, suite, "tcgen05_copy",
        "tcgen05.cp of every shape, multicast and decompression: which shared bits lie where in tensor memory afterwards, through random descriptors",
        seed, len(cases),
        {
            "instruction": np.array([c["what"] for c in cases]),
            "descriptor": np.array([c["steps"][0]["a"] for c in cases], np.uint64),
            "d": np.array([c["steps"][0]["d"] for c in cases], np.uint32),
            "group": np.array([c["group"] for c in cases], np.uint8),
            "passes": np.array([len(c["passes"]) for c in cases], np.uint8),
            **common(cases, answers),
            **ragged("words", [a.get("words", np.zeros(0, np.uint32)) for a in answers], np.uint32),
        },
        ("words",),
    )  # fmt: skip


def tmem_shifts(bench: Bench, out: pathlib.Path) -> None:
    suite = "tmem_shifts"
    cases = []
    for group in (1, 2):
        for lane in (0, 32, 64, 96, 16):
            for column in (0, 1, 8, 13, 56):
                step = {"op": "shift", "flags": WAIT, "d": lane << 16 | column}
                runs = [{"shared": [[["zeros"]]] * group, "tensor": [[[0, COLUMNS, "index", i]]] * group} for i in range(2)]
                cases.append({"group": group, "columns": [0, 96], "steps": [step], "passes": runs, "what": "shift"})
    answers = answered(suite, cases)
    bench.write(
        out, suite, "tmem_shift", "tcgen05.shift.down: lanes and columns afterwards", 0, len(cases),
        {
            "d": np.array([c["steps"][0]["d"] for c in cases], np.uint32),
            "group": np.array([c["group"] for c in cases], np.uint8),
            **common(cases, answers),
            **ragged("words", [a.get("words", np.zeros(0, np.uint32)) for a in answers], np.uint32),
        },
        ("words",),
    )  # fmt: skip


# ----------------------------------------------------------------------------------------------------------- allocation

MOST_OPS = 16


def allocation_cases(seed: int) -> list[Case]:
    """Sequences of (what, columns, index): 0 alloc, 1 dealloc of operation `index`, 2 relinquish. Most keep to the
    rules; some do not.
    """
    rng, out = random.Random(seed), []
    for i in range(160):
        ops: list[tuple[int, int, int]] = []
        held: dict[int, int] = {}
        largest, grows = 512, rng.random() < 0.2
        for _ in range(rng.randrange(2, MOST_OPS - 1)):
            free = 512 - sum(held.values())
            sizes = [n for n in (32, 64, 128, 256, 512) if n <= min(free, 512 if grows else largest)]
            if held and (not sizes or rng.random() < 0.4):
                index = rng.choice(list(held))
                ops.append((1, held.pop(index), index))
            elif sizes:
                largest = rng.choice(sizes)
                held[len(ops)] = largest
                ops.append((0, largest, 0))
        out.append({"group": 1 + i % 2, "ops": ops, "what": "sequence"})
    for columns in (0, 1, 16, 31, 33, 48, 96, 384, 511, 513, 1024):
        out.append({"group": 1, "ops": [(0, columns, 0)], "what": "count"})
    out.append({"group": 1, "ops": [(0, 512, 0), (0, 32, 0)], "what": "more than there is"})
    out.append({"group": 1, "ops": [(0, 64, 0), (2, 0, 0), (0, 32, 0)], "what": "after relinquish"})
    out.append({"group": 1, "ops": [(0, 64, 0), (1, 32, 0)], "what": "half back"})
    return out


def run_allocation(bench: Bench, case: Case) -> dict[str, Any]:
    KERNELS.setdefault("blackwell_allocation", MODULES["blackwell_allocation"])
    group, ops = case["group"], case["ops"]
    packed = bench.device.array(np.array(ops, np.uint32))
    addresses, cycles = (bench.device.array(np.full(2 * MOST_OPS, 0xFFFFFFFF, np.uint32)) for _ in range(2))
    bench.device.launch(
        bench.function("blackwell_allocation", f"sequence_{group}"), group, 0, packed, len(ops), addresses, cycles, threads=64
    )
    return {"addresses": addresses.read(np.uint32).tolist(), "cycles": cycles.read(np.uint32).tolist()}


def run_contention(bench: Bench, case: Case) -> dict[str, Any]:
    KERNELS.setdefault("blackwell_allocation", MODULES["blackwell_allocation"])
    held = bench.api.Buffer(case["ctas"] * 32)
    columns = bench.device.array(np.array(case["sizes"], np.uint32))
    bench.device.launch(
        bench.function("blackwell_allocation", "contend"), case["ctas"], 0, columns, len(case["sizes"]), case["hold"], held, threads=32
    )
    return {"held": [list(struct.unpack("<2I3Q", held.read().tobytes()[i : i + 32])) for i in range(0, case["ctas"] * 32, 32)]}


RUNNERS |= {"blackwell_allocation": run_allocation, "blackwell_contention": run_contention}


def tcgen05_allocations(bench: Bench, out: pathlib.Path) -> None:
    seed, suite, chosen = 9206, "tcgen05_allocations", allocation_cases(9206)
    answers = in_processes("blackwell_allocation", chosen)
    pages.report(suite, answers)
    missing = [0xFFFFFFFF] * (2 * MOST_OPS)
    bench.write(
        out, suite, "tcgen05_alloc",
        "Sequences of tcgen05.alloc, dealloc and relinquish_alloc_permit: the addresses they give; odd counts in processes of their own",
        seed, len(chosen),
        {
            "what": np.array([c["what"] for c in chosen]),
            "group": np.array([c["group"] for c in chosen], np.uint8),
            "ops": np.array([[*c["ops"], *[(3, 0, 0)] * (MOST_OPS - len(c["ops"]))] for c in chosen], np.uint16),
            "status": np.array([a["status"] for a in answers], np.uint16),
            "address": np.array([a.get("addresses", missing) for a in answers], np.uint32).reshape(-1, 2, MOST_OPS),
            "cycles": np.array([a.get("cycles", missing) for a in answers], np.uint32).reshape(-1, 2, MOST_OPS),
        },
    )  # fmt: skip


def tcgen05_contention(bench: Bench, out: pathlib.Path) -> None:
    suite = "tcgen05_contention"
    sizes = ([512], [256], [128], [256, 64], [32, 512], [512, 32], [64], [128, 256, 32])
    chosen = [{"sizes": one, "ctas": ctas, "hold": hold} for one in sizes for ctas, hold in ((600, 20000), (1500, 3000))]
    answers = in_processes("blackwell_contention", chosen)
    pages.report(suite, answers)
    held = [np.array(a.get("held", np.zeros((0, 5))), np.uint64) for a in answers]
    bench.write(
        out, suite, "tcgen05_contention",
        "CTAs that share an SM and ask for more columns than it has: who waited for whom, and which address each got", 0, len(chosen),
        {
            "sizes": np.array([(c["sizes"] + [0] * 4)[:4] for c in chosen], np.uint16),
            "ctas": np.array([c["ctas"] for c in chosen], np.uint32),
            "status": np.array([a["status"] for a in answers], np.uint16),
            **ragged("held", held, np.uint64),
        },
    )  # fmt: skip


SUITES = {
    f.__name__: f
    for f in (
        tcgen05_operands,
        tcgen05_descriptor_edges,
        tmem_layouts,
        tcgen05_modifiers,
        tmem_operands,
        tmem_scales,
        tmem_metadata,
        tcgen05_copies,
        tmem_shifts,
        tcgen05_allocations,
        tcgen05_contention,
    )
}
SUITES |= access.SUITES | commits.SUITES | dots.SUITES | gemm.SUITES | transfers.SUITES
# of Hopper, and run on Blackwell too
ALSO = (*transfer_suites.SUITES, *value_suites.SUITES, *wide_suite.SUITES, *pointer_suite.SUITES)
