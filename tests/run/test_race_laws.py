"""Random programs of loads and stores: what races by a happens-before order that is computed here, of single bytes, is
what is found, wherever the threads and the bytes are.
"""

import dataclasses
import random

import numpy as np
import pytest

from smemsim import Gpu
from smemsim.run.engine import grid as engine_grid

TOGETHER = 24  # programs of a kernel, each with bytes of its own
ROW = 128  # bytes: a word of each lane


@dataclasses.dataclass(frozen=True, eq=False)
class Access:
    """A load or store by one of three actors (warps, or CTAs of one warp) of bytes of a row."""

    actor: int
    op: str  # ld, st, atom
    begin: int
    size: int
    is_strong: bool
    value: int = 0  # of each byte that it writes

    @property
    def is_write(self):
        return self.op != "ld"

    def meets(self, other):
        return self.begin < other.begin + other.size and other.begin < self.begin + self.size

    def races_with(self, other):
        """Without an order between them."""
        does = (self.is_write or other.is_write) and not (self.is_write and other.is_write and self.value == other.value)
        return self.actor != other.actor and self.meets(other) and does and not (self.is_strong and other.is_strong)


def drawn(rng):
    """What happens, in one order that is possible: accesses, and ("all",) or (from, to) where actors meet. In some all
    stores are plain ones of one or two values, in the same bytes.
    """
    of_one_value, of_one_size = rng.random() < 0.25, rng.choice((1, 2, 4, ROW))
    for number in range(rng.randint(2, 6)):
        if rng.random() < 0.35:
            yield ("all",) if rng.random() < 0.3 else tuple(rng.sample(range(3), 2))
        else:
            is_strong = rng.random() < 0.3 and not of_one_value
            size = rng.choice((1, 1, 2, 2, 4, 4, ROW)) if not is_strong else rng.choice((1, 2, 4, 4, ROW))
            op = rng.choice(("ld", "st", "atom") if is_strong and size in (4, ROW) else ("ld", "st"))
            size = of_one_size if of_one_value else size
            begin = rng.randrange(0, 4, size) if size < 4 and not of_one_value else 0
            yield Access(rng.randrange(3), op, begin, size, is_strong, rng.choice((1, 1, 2)) if of_one_value else number + 1)


def unordered(events):
    """Pairs of accesses that race."""
    clocks = [[0, 0, 0] for _ in range(3)]
    seen, found = [], []
    for event in events:
        if isinstance(event, Access):
            mine = clocks[event.actor]
            mine[event.actor] += 1
            found += [(other, event) for other, when in seen if mine[other.actor] < when and event.races_with(other)]
            seen.append((event, mine[event.actor]))
        elif event == ("all",):
            both = [max(row) for row in zip(*clocks, strict=True)]
            clocks = [list(both) for _ in range(3)]
        else:
            one, to = event
            clocks[to] = [*map(max, clocks[to], clocks[one])]
    return found


def certain(events):
    """Those that are found in any case: the last ones of their actors, where one actor alone has strong accesses. Of
    several strong writes only the last one is kept, and what reads one comes behind it.
    """
    accesses = [event for event in events if isinstance(event, Access)]
    if len({one.actor for one in accesses if one.is_strong}) > 1:
        return []
    last = {one.actor: one for one in accesses}
    races = [{*pair} for pair in unordered(events)]
    writes = [one for one in accesses if one.is_write]
    if len({one.value for one in writes}) < len(writes):  # which of them has changed the bytes, that a read may have seen?
        races = [
            pair for pair in races if all({one, other} in races or one is other for one in pair for other in writes if not one.is_write)
        ]
    return [pair for pair in races if all(last[one.actor] is one for one in pair)]


def kernel(programs, space, *, where):
    """The PTX, and the lines of each access. The actors are three warps, or three CTAs of a cluster or of a grid."""
    across = where == "cluster"
    scope, window = ("cluster", "shared::cluster") if across else ("cta", "shared")
    window, scope = ("global", "gpu") if space == "global" else (window, scope)
    lines, of = [], {}
    order, waits = (".release.cluster.shared::cluster", ".acquire.cluster") if across else (".shared", "")
    for n, events in enumerate(programs):
        parts = [[], [], []]
        bars = 0
        for number, event in enumerate(events):
            if isinstance(event, Access):
                kind, guard = f"b{8 * min(event.size, 4)}", "" if event.size == ROW else "@%one "
                at = f"[{'%mine' if event.size == ROW else '%base'}+{ROW * n + event.begin}]"
                how = f".relaxed.{scope}" if event.is_strong else ""
                value = event.value * 0x01010101 & (1 << 8 * min(event.size, 4)) - 1
                text = {
                    "ld": f"{guard}ld{how}.{window}.{kind} %v, {at};",
                    "st": f"{guard}mov.u32 %v, {value}; {guard}st{how}.{window}.{kind} {at}, %v;",
                    "atom": f"{guard}atom{how}.{window}.exch.{kind} %v, {at}, {value};",
                }[event.op]
                parts[event.actor].append((f"{text} {f'{guard}xor.b32 %acc, %acc, %v;' if event.op != 'st' else ''}", event))
            elif where == "grid":
                one, to = event
                flag, bars = f"[%flags+{4 * (8 * n + bars)}]", bars + 1
                release = "fence.acq_rel.gpu; @%one st.relaxed" if number % 2 else "st.release"
                label = f"W{n}_{number}"
                parts[one].append((f"bar.warp.sync -1; @%one {release}.gpu.global.u32 {flag}, 1;".replace("@%one fence", "fence"), None))
                waits = f"{label}: ld.acquire.gpu.global.u32 %v, {flag}; setp.eq.u32 %p, %v, 0; @%p bra {label};"
                parts[to].append((waits, None))
            elif event == ("all",):
                meet = "barrier.cluster.arrive.release; barrier.cluster.wait.acquire;" if across else "bar.sync 0;"
                for part in parts:
                    part.append((meet, None))
            else:
                one, to = event
                bar, bars = 8 * (8 * n + bars), bars + 1
                label = f"W{n}_{number}"
                if not across and number % 2:
                    parts[one].append((f"bar.arrive {bars}, 64;", None))
                    parts[to].append((f"bar.sync {bars}, 64;", None))
                    continue
                far = f"mapa.shared::cluster.u32 %to, %bars, {to};" if across else "mov.u32 %to, %bars;"
                parts[one].append((f"{far} mbarrier.arrive{order}.b64 _, [%to+{bar}];", None))
                parts[to].append((f"{label}: mbarrier.try_wait.parity{waits}.shared.b64 %p, [%bars+{bar}], 0; @!%p bra {label};", None))
        for actor, part in enumerate(parts):
            lines.append(f"@!%is{actor} bra P{n}_{actor};")
            for text, event in part:
                lines.append(text)
                if event is not None:
                    of[len(lines)] = n, event
            lines.append(f"P{n}_{actor}:")
        lines.append("barrier.cluster.arrive.release; barrier.cluster.wait.acquire;" if across else "bar.sync 0;")
    head = f""".version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 room, .param .u64 out, .param .u64 signs) {{
.reg .b32 %t, %me, %v, %acc, %to, %bars, %lane; .reg .pred %p, %one, %is<3>; .reg .b64 %d, %o, %flags; .reg .b{64 if space == "global" else 32} %base, %mine;
.shared .align 128 .b8 rows[{ROW * TOGETHER}]; .shared .align 8 .b64 bar[{8 * TOGETHER}];
mov.u32 %t, %tid.x; and.b32 %lane, %t, 31; mov.u32 %acc, 0; mov.u32 %bars, bar; setp.eq.u32 %one, %lane, 0;
{"shr.u32 %me, %t, 5;" if where == "warps" else "mov.u32 %me, %ctaid.x;"} ld.param.u64 %flags, [signs];
setp.eq.u32 %is0, %me, 0; setp.eq.u32 %is1, %me, 1; setp.eq.u32 %is2, %me, 2;
{"ld.param.u64 %base, [room]; mad.wide.u32 %mine, %lane, 4, %base;" if space == "global" else "mov.u32 %base, rows;"}
{"mapa.shared::cluster.u32 %base, %base, 0;" if across and space != "global" else ""} {"" if space == "global" else "mad.lo.u32 %mine, %lane, 4, %base;"}
setp.eq.u32 %p, %t, 0;
{" ".join(f"@%p mbarrier.init.shared.b64 [%bars+{8 * n}], 32;" for n in range(8 * len(programs)))}
{"" if space == "global" else " ".join(f"@%is0 st.{window}.u32 [%mine+{ROW * n}], 0;" for n in range(len(programs)))}
fence.mbarrier_init.release.cluster; {"barrier.cluster.arrive.release; barrier.cluster.wait.acquire;" if across else "bar.sync 0;"}
"""
    tail = """
ld.param.u64 %o, [out]; mov.u32 %v, %ctaid.x; mad.lo.u32 %v, %v, 96, %t; mad.wide.u32 %o, %v, 4, %o; st.global.u32 [%o], %acc;
ret; }"""
    first = head.count("\n")
    return head + "\n".join(lines) + tail, {line + first: what for line, what in of.items()}


def told(programs, space, *, where):
    """For each program the accesses that are told of, each with the other one of its race if that is known."""
    text, of = kernel(programs, space, where=where)
    gpu = Gpu("sm_90a")
    room, out = gpu.array(np.zeros(ROW * TOGETHER // 4, np.uint32)), gpu.array(np.zeros(512, np.uint32))
    flags = gpu.array(np.zeros(8 * TOGETHER, np.uint32))
    shape = {"warps": (1, 1, 96), "cluster": (3, 3, 32), "grid": (3, 1, 32)}[where]
    options = dict(zip(("grid", "cluster", "block"), shape, strict=True))
    run = gpu.launch(text, "k", **options, args=[room, out, flags], progress=False, workers=1)
    found = [[] for _ in programs]
    for f in (*run.findings, *run.remarks):
        assert f.code == "X008", run.text()
        n, mine = of[f.line]
        others = [of[half.instruction.line][1] for half in f.halves if half.instruction is not None and half.instruction.line != f.line]
        found[n].append((mine, *others[:1]))
        for other in f.alike:
            n, mine = of[other.line]
            found[n].append((mine,))
    return found


def is_told(mine, others, races):
    """Is it a race, with such another one? Of several like accesses the line of the last one is named."""
    partners = [two if one is mine else one for one, two in races if mine in (one, two)]
    return any(all(other.is_write == partner.is_write for other in others) for partner in partners)


def assert_agrees(programs, space, where):
    for events, found in zip(programs, told(programs, space, where=where), strict=True):
        assert found or not certain(events), (events, certain(events))
        for mine, *others in found:
            assert is_told(mine, others, unordered(events)), (events, mine, others)


def several(seed):
    rng = random.Random(f"{seed}")
    return [list(drawn(rng)) for _ in range(TOGETHER)]


@pytest.mark.parametrize("space", ["shared", "global"])
@pytest.mark.parametrize("where", ["warps", "cluster"])
@pytest.mark.parametrize("seed", range(4))
def test_what_races_is_what_nothing_orders(seed, space, where):
    assert_agrees(several(seed), space, where)


@pytest.mark.parametrize("together", [8, 1])
@pytest.mark.parametrize("seed", range(4))
def test_so_it_is_of_ctas_that_meet_by_flags(seed, together, monkeypatch):
    """Also where each CTA runs after the one before, as those of a large grid do."""
    monkeypatch.setattr(engine_grid, "at_once", lambda launch, *, sanitizer=True: together)
    assert_agrees([[event for event in events if event != ("all",)] for events in several(seed)], "global", "grid")


@pytest.mark.parametrize("where", ["warps", "cluster"])
@pytest.mark.parametrize("op", ["ld", "st", "atom"])
def test_a_strong_access_of_a_word_meets_bytes_that_others_have_stored(op, where):
    """Warp 0 stores a byte, warp 2 another one, and then the word."""
    first, own, whole = Access(0, "st", 3, 1, False, 1), Access(2, "st", 0, 1, False, 2), Access(2, op, 0, 4, True, 3)
    wrong, right = told([[first, own, whole], [first, (0, 2), own, whole]], "shared", where=where)
    assert wrong
    assert right == []


# ---- copies: of a row of global memory, which an actor issues, and which is over for whoever waits


@dataclasses.dataclass(frozen=True, eq=False)
class Copy:
    """A bulk copy, which an mbarrier counts, the cp.async of all lanes of a warp, or a bulk copy to global memory, which
    reads.
    """

    actor: int
    is_bulk: bool
    is_write: bool = True


@dataclasses.dataclass(frozen=True)
class Wait:
    """For a bulk copy to shared memory by any actor; for all others of its kind by the issuer."""

    actor: int
    copy: Copy


def with_copies(rng):
    """Loads, stores of whole words, copies, waits for these, and actors that meet."""
    copies = []
    for number in range(rng.randint(2, 6)):
        what = rng.random()
        if what < 0.3:
            yield ("all",) if rng.random() < 0.3 else tuple(rng.sample(range(3), 2))
        elif what < 0.55 and len(copies) < 4:
            copies.append(Copy(rng.randrange(3), *rng.choice(((True, True), (True, True), (False, True), (True, False)))))
            yield copies[-1]
        elif what < 0.8 and copies:
            copy = rng.choice(copies)
            yield Wait(rng.randrange(3) if copy.is_bulk and copy.is_write else copy.actor, copy)
        else:
            op = rng.choice(("ld", "ld", "st"))
            size = rng.choice((1, 2, 4, ROW) if op == "ld" else (4, ROW))
            yield Access(rng.randrange(3), op, rng.randrange(0, 4, size) if size < 4 else 0, size, False, 0xA0 + number)


def too_early(events):
    """Pairs of which one is a copy that is not over, or that is issued before the other is known to be over."""
    clocks, over = [[0, 0, 0] for _ in range(3)], [set(), set(), set()]
    seen, found, known = [], [], {}
    for event in events:
        if isinstance(event, Wait) and event.copy.is_bulk and event.copy.is_write:  # the issuer's arrival, too, is waited for
            clock, done = known[event.copy]
            clocks[event.actor], over[event.actor] = [*map(max, clocks[event.actor], clock)], over[event.actor] | done | {event.copy}
        elif isinstance(event, Wait):
            over[event.actor] |= {one for one, _ in seen if is_own(one, event)}
        elif isinstance(event, (Access, Copy)):
            mine = clocks[event.actor]
            mine[event.actor] += 1
            for other, when in seen:
                if not (other.is_write or event.is_write):
                    continue
                if isinstance(other, Copy):
                    is_late = other not in over[event.actor] and not are_words_of_one(other, event)
                    found += [(other, event)] * is_late
                elif other.actor != event.actor and (isinstance(event, Copy) or event.races_with(other)):
                    found += [(other, event)] * (mine[other.actor] < when)
            seen.append((event, mine[event.actor]))
            known[event] = list(mine), set(over[event.actor])
        elif event == ("all",):
            both = [max(row) for row in zip(*clocks, strict=True)]
            clocks, over = [list(both) for _ in range(3)], [set.union(*over) for _ in range(3)]
        else:
            one, to = event
            clocks[to], over[to] = [*map(max, clocks[to], clocks[one])], over[to] | over[one]
    return found


def is_own(one, wait):
    """cp.async.wait_all is for all copies that the thread has issued."""
    return isinstance(one, Copy) and (one.is_bulk, one.is_write, one.actor) == (wait.copy.is_bulk, wait.copy.is_write, wait.actor)


def are_words_of_one(one, other):
    """Nothing is said of two cp.async of one thread."""
    return isinstance(other, Copy) and not one.is_bulk and not other.is_bulk and one.actor == other.actor


def copying(programs):
    """The PTX, and the lines of accesses and copies. The actors are three warps."""
    lines, of = [], {}
    for n, events in enumerate(programs):
        parts, bars, number = [[], [], []], 0, 0
        counted = {event: 8 * (8 * n + 4 + k) for k, event in enumerate(event for event in events if isinstance(event, Copy))}
        ends = [Wait(0 if copy.is_bulk and copy.is_write else copy.actor, copy) for copy in counted]
        for number, event in enumerate((*events, *ends)):
            label = f"W{n}_{number}"
            if isinstance(event, Access):
                guard = "" if event.size == ROW else "@%one "
                at = f"[{'%mine' if event.size == ROW else '%base'}+{ROW * n + event.begin}]"
                kind, value = f"b{8 * min(event.size, 4)}", event.value * 0x01010101 & (1 << 8 * min(event.size, 4)) - 1
                loads = f"{guard}ld.shared.{kind} %v, {at}; {guard}xor.b32 %acc, %acc, %v;"
                stores = f"{guard}mov.u32 %v, {value}; {guard}st.shared.{kind} {at}, %v; fence.proxy.async;"
                parts[event.actor].append((loads if event.op == "ld" else stores, event))
            elif isinstance(event, Copy):
                bar, source = f"[%bars+{counted[event]}]", ROW * list(counted).index(event)  # they bring other bytes each
                bulk = f"""bar.warp.sync -1; @%one mbarrier.arrive.expect_tx.shared.b64 _, {bar}, {ROW}; @%one cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%base+{ROW * n}], [%room+{source}], {ROW}, {bar};"""
                away = f"bar.warp.sync -1; @%one cp.async.bulk.global.shared::cta.bulk_group [%away+{4 * ROW * n + source}], [%base+{ROW * n}], {ROW}; @%one cp.async.bulk.commit_group;"
                words = f"cp.async.ca.shared.global [%mine+{ROW * n}], [%own+{source}], 4;"
                parts[event.actor].append(((bulk if event.is_write else away) if event.is_bulk else words, event))
            elif isinstance(event, Wait):
                waits = f"{label}: mbarrier.try_wait.parity.shared.b64 %p, [%bars+{counted[event.copy]}], 0; @!%p bra {label};"
                read = "@%one cp.async.bulk.wait_group.read 0; bar.warp.sync -1;"
                words = "cp.async.wait_all; fence.proxy.async;"
                parts[event.actor].append(((waits if event.copy.is_write else read) if event.copy.is_bulk else words, None))
            elif event == ("all",):
                for part in parts:
                    part.append(("bar.sync 0;", None))
            else:
                bars += 1
                for actor, what in zip(event, ("arrive", "sync"), strict=True):
                    parts[actor].append((f"bar.{what} {bars}, 64;", None))
        for actor, part in enumerate(parts):
            lines.append(f"@!%is{actor} bra P{n}_{actor};")
            for text, event in part:
                lines.append(text)
                if event is not None:
                    of[len(lines)] = n, event
            lines.append(f"P{n}_{actor}:")
        lines.append("bar.sync 0;")
    head = f""".version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 room, .param .u64 out, .param .u64 away) {{
.reg .b32 %t, %me, %v, %acc, %bars, %lane, %base, %mine; .reg .pred %p, %one, %is<3>; .reg .b64 %o, %room, %own, %away;
.shared .align 128 .b8 rows[{ROW * TOGETHER}]; .shared .align 8 .b64 bar[{8 * TOGETHER}];
mov.u32 %t, %tid.x; and.b32 %lane, %t, 31; mov.u32 %acc, 0; mov.u32 %bars, bar; setp.eq.u32 %one, %lane, 0; shr.u32 %me, %t, 5;
setp.eq.u32 %is0, %me, 0; setp.eq.u32 %is1, %me, 1; setp.eq.u32 %is2, %me, 2; ld.param.u64 %room, [room]; mad.wide.u32 %own, %lane, 4, %room;
mov.u32 %base, rows; mad.lo.u32 %mine, %lane, 4, %base; setp.eq.u32 %p, %t, 0; ld.param.u64 %away, [away];
{" ".join(f"@%p mbarrier.init.shared.b64 [%bars+{8 * n}], 1;" for n in range(8 * len(programs)))}
{" ".join(f"@%is0 st.shared.u32 [%mine+{ROW * n}], 0;" for n in range(len(programs)))}
fence.proxy.async; bar.sync 0;
"""
    tail = "\nld.param.u64 %o, [out]; mad.wide.u32 %o, %t, 4, %o; st.global.u32 [%o], %acc;\nret; }"
    first = head.count("\n")
    return head + "\n".join(lines) + tail, {line + first: what for line, what in of.items()}


@pytest.mark.parametrize("seed", range(6))
def test_copies_that_come_too_early_are_those_that_nobody_has_waited_for(seed):
    """X003 as a remark is of copies behind loads, which some order and no fence is between."""
    rng = random.Random(f"{seed}")
    programs = [list(with_copies(rng)) for _ in range(TOGETHER)]
    text, of = copying(programs)
    gpu = Gpu("sm_90a")
    arrays = [
        gpu.array(np.arange(1, 129, dtype=np.uint32) * 0x01010101),
        gpu.array(np.zeros(96, np.uint32)),
        gpu.array(np.zeros(ROW * TOGETHER, np.uint32)),
    ]
    run = gpu.launch(text, "k", block=96, args=arrays, progress=False, workers=1)
    found = [set() for _ in programs]
    for f in (*run.findings, *(f for f in run.remarks if f.code != "X003")):
        assert f.code in ("X004", "X005", "X008")
        for line in (f.line, *(other.line for other in f.alike)):
            n, what = of[line]
            found[n].add(what)
    for events, told_of in zip(programs, found, strict=True):
        pairs = too_early(events)
        assert bool(told_of) == bool(pairs), (events, pairs)
        assert all(any(one in pair for pair in pairs) for one in told_of), (events, told_of, pairs)


# ---- lanes of one warp, which execute one instruction after the other, and meet by bar.warp.sync


def by_lanes(rng):
    """Loads and stores of one word by lanes 0, 1 and 2."""
    for number in range(rng.randint(2, 6)):
        yield ("all",) if rng.random() < 0.3 else Access(rng.randrange(3), rng.choice(("ld", "st")), 0, 4, False, number + 1)


def in_one_warp(programs):
    """The PTX, and the lines of accesses."""
    lines, of = [], {}
    for n, events in enumerate(programs):
        for event in (*events, ("all",)):
            if event == ("all",):
                lines.append("bar.warp.sync -1;")
                continue
            guard, at = f"@%is{event.actor}", f"[%base+{ROW * n}]"
            if event.op == "ld":
                lines.append(f"{guard} ld.shared.u32 %v, {at}; {guard} xor.b32 %acc, %acc, %v;")
            else:
                lines.append(f"{guard} st.shared.u32 {at}, {event.value};")
            of[len(lines)] = n, event
    head = f""".version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out) {{
.reg .b32 %t, %v, %acc, %base; .reg .pred %is<3>; .reg .b64 %o; .shared .align 128 .b8 rows[{ROW * TOGETHER}];
mov.u32 %t, %tid.x; mov.u32 %acc, 0; setp.eq.u32 %is0, %t, 0; setp.eq.u32 %is1, %t, 1; setp.eq.u32 %is2, %t, 2; mov.u32 %base, rows;
{" ".join(f"@%is0 st.shared.u32 [%base+{ROW * n}], 0;" for n in range(len(programs)))} bar.warp.sync -1;
"""
    tail = "\nld.param.u64 %o, [out]; mad.wide.u32 %o, %t, 4, %o; st.global.u32 [%o], %acc;\nret; }"
    first = head.count("\n")
    return head + "\n".join(lines) + tail, {line + first: what for line, what in of.items()}


@pytest.mark.parametrize("seed", range(3))
def test_lanes_race_where_their_warp_has_not_met(seed):
    rng = random.Random(f"{seed}")
    programs = [list(by_lanes(rng)) for _ in range(TOGETHER)]
    text, of = in_one_warp(programs)
    gpu = Gpu("sm_90a")
    run = gpu.launch(text, "k", block=32, args=[gpu.array(np.zeros(32, np.uint32))], progress=False, workers=1)
    found = [set() for _ in programs]
    for f in (*run.findings, *run.remarks):
        assert f.code == "X008"
        for line in (f.line, *(other.line for other in f.alike)):
            n, what = of[line]
            found[n].add(what)
    for events, told_of in zip(programs, found, strict=True):
        pairs = unordered(events)
        assert bool(told_of) == bool(pairs), (events, pairs)
        assert all(any(one in pair for pair in pairs) for one in told_of), (events, told_of, pairs)
