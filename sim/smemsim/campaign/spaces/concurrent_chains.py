"""`chains`: small kernels whose threads wait for each other correctly, or with one mistake.

A program is right by construction, or one of its *links* is broken: a wait for the other parity, an arrival before its
writes, a missing fence. So its verdict is known without a card. A right program must have no finding, and leave the
results that its tiles say. A broken one must have a finding or a remark. All ways to run a program must agree, as in
`concurrent`.

The programs are rings of stages, copies ahead of their use, stores from stages, flags, the last CTA, locks, lanes, and
CTAs of a cluster. A link is drawn only if smemsim reports it in each run (see *The race detector* in docs/limits.md).
"""

from __future__ import annotations

import dataclasses
import random
from typing import Any, ClassVar

import numpy as np

from smemsim.base.garbage import seldom_collected
from smemsim.campaign.space import Case, ChunkResult, Space, drawn, one_by_one
from smemsim.campaign.spaces.concurrent import WORDS, Program, trouble_of

__all__ = ["KINDS", "SPACE", "Chain", "draw", "wrong_verdict"]


CHUNK_CASES = 16


# %goff is the byte of the thread in a tile, among the threads of its group. %st, %ph and %pe are the stage of round %n
# and the parities of its full and its empty mbarrier. %gin and %gout are the tile of the round in global memory.
_BEGIN = """.version 8.7
.target sm_90a
.address_size 64
.visible .entry concurrent(.param .align 64 .b8 map[128], .param .align 64 .b8 outmap[128], .param .u64 in, .param .u64 out, .param .u64 flags) {
.reg .pred %p<4>, %done, %more, %q, %first, %leader; .reg .b32 %x<8>, %y, %z, %v, %t, %cta, %thread, %warp, %lane, %gw, %goff, %roff;
.reg .b32 %tile, %bars, %peertile, %peerbars, %n, %st, %ph, %pe, %full, %empty, %peerfull, %peerempty, %buf, %peerbuf, %row, %want, %rank, %id, %at;
.reg .b64 %map, %input, %output, %flags, %gin, %gout, %g, %w;
.shared .align 1024 .b8 tile[4096]; .shared .align 8 .b8 bars[128]; .shared .align 8 .b8 words[128];
ld.param.u64 %input, [in]; ld.param.u64 %output, [out]; ld.param.u64 %flags, [flags]; mov.b64 %map, map; cvta.param.u64 %map, %map;
mov.u32 %t, %tid.x; mov.u32 %cta, %ctaid.x; mad.lo.u32 %thread, %cta, {threads}, %t; shr.u32 %warp, %t, 5; and.b32 %lane, %t, 31;
mov.u32 %tile, tile; mov.u32 %bars, bars; setp.eq.u32 %first, %t, 0; setp.eq.u32 %leader, %lane, 0;
"""
_BULK = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
_TENSOR = "cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
EMPTY = 64  # byte of the first `empty` mbarrier in `bars`, and of the first count of freed stages in `words`


@dataclasses.dataclass(frozen=True)
class Chain(Program):
    """A program. `link` is its broken link, "" for a right program. `made` is (words, mask, sum): word i of `out` is
    word i ^ mask of the input, and the sum is added to it.
    """

    box: ClassVar[int] = 32
    link: str = ""
    kind: str = ""
    made: tuple[int, int, int] = (0, 0, 0)

    def text(self) -> str:
        """The PTX."""
        return _BEGIN.replace("{threads}", str(32 * self.warps)) + f"// {self.link or 'right'}\n" + "\n".join(self.steps) + "\nret;\n}\n"

    def inputs(self) -> dict[str, np.ndarray]:
        """What the arrays hold before the launch. No two words of the input are equal."""
        held = super().inputs()
        return held | {"in": (np.random.default_rng(self.seed).permutation(WORDS) + 1000).astype(np.uint32)}

    def results(self) -> np.ndarray:
        """What a right program leaves in the first words of `out`."""
        words, mask, added = self.made
        found: np.ndarray = self.inputs()["in"][np.arange(words) ^ mask] + np.uint32(added)
        return found


class _Maker:
    """Writes the text of one program. `links` gets the links that may break."""

    def __init__(self, rng: random.Random, broken: str) -> None:
        self.rng, self.broken = rng, broken
        self.links: list[str] = []
        self.round = ""  # of an unrolled loop, in words
        self.labels = 0

    def link(self, name: str, right: str, wrong: str, breaks: bool = True) -> str:
        """A link of this name. Without `breaks` the wrong text is right, too."""
        name += self.round
        if breaks:
            self.links.append(name)
        return wrong if breaks and name == self.broken else right

    def label(self) -> str:
        """A new label."""
        self.labels += 1
        return f"L{self.labels}"

    def wait(self, at: str, parity: str, semantics: str = "") -> str:
        """Wait at an mbarrier."""
        label, how = self.label(), self.rng.choice(("try_wait", "try_wait", "test_wait"))
        return f"{label}: mbarrier.{how}.parity{semantics}.shared::cta.b64 %done, [{at}], {parity}; @!%done bra {label};"

    def only(self, guard: str, text: str) -> str:
        """Text for the threads of a guard."""
        if not text:
            return ""
        label = self.label()
        return f"@!{guard} bra {label}; {text} {label}:"


@dataclasses.dataclass
class _Ring:
    """A ring of stages between two groups of warps: how tiles come into a stage, and how they leave it."""

    make: _Maker
    ctas: int

    def __post_init__(self) -> None:
        rng = self.make.rng
        self.stages, self.rounds = rng.choice((1, 2, 2, 3)), rng.randrange(2, 7)
        self.producers, self.consumers = rng.choice((1, 1, 2)), rng.choice((1, 1, 2))
        wide = max(self.producers, self.consumers)
        self.bytes = 128 * wide
        self.writer = rng.choice(("threads", "threads", "stmatrix", "cp.async", "cp.async", "noinc", "inc", "bulk", "bulk", "tensor"))
        self.reader = rng.choice(("ld", "ld", "ld", "ldmatrix", "bulk", "reduce"))
        is_asynchronous = self.writer in ("bulk", "tensor")
        self.by_mbarrier = is_asynchronous or self.writer in ("noinc", "inc")
        self.full = "mbarrier" if self.by_mbarrier else rng.choice(("mbarrier", "mbarrier", "named", "flag", "meet"))
        one = self.stores or is_asynchronous  # lanes other than lane 0 take no part
        self.empty = rng.choice(("mbarrier", "mbarrier", "flag") if one else ("mbarrier", "mbarrier", "named", "flag"))
        if self.full == "meet":
            self.empty = "meet"
        self.mask = 0 if self.stores else rng.choice((0, 1, 3, 31))
        self.added = 0 if self.stores else rng.randrange(1, 9)
        self.is_unrolled = rng.random() < 0.5
        self.full_by = "one" if is_asynchronous else "lanes" if self.by_mbarrier else rng.choice(("lanes", "warps"))
        self.empty_by = "warps" if self.stores else rng.choice(("lanes", "warps"))
        self.taken_by = "warps" if self.stores else rng.choice(("lanes", "lanes", "warps"))
        self.claimed_by = "one" if is_asynchronous else rng.choice(("lanes", "lanes", "warps"))
        self.is_asynchronous = is_asynchronous

    @property
    def surely(self) -> bool:
        """Does a missing wait show in each run? A group that is ahead may have signalled the next tile, too, and a wait
        for a count in memory then finds it.
        """
        return "flag" not in (self.full, self.empty)

    @property
    def stores(self) -> bool:
        """Do copies read the stages?"""
        return self.reader in ("bulk", "reduce")

    @property
    def warps(self) -> int:
        return self.producers + self.consumers

    def count(self, by: str, warps: int) -> int:
        """The arrivals of a phase."""
        return {"lanes": 32 * warps, "warps": warps, "one": 1}[by]

    # ---- the beginning

    def begin(self) -> str:
        m, found = self.make, ""
        full, empty = self.count(self.full_by, self.producers), self.count(self.empty_by, self.consumers)
        for stage in range(self.stages):
            for name, by, kind, at in (("full", full, self.full, 0), ("empty", empty, self.empty, EMPTY)):
                if kind == "mbarrier":
                    is_used = self._is_used(name, stage)
                    less = m.link(f"{name} counts one arrival less (stage {stage})", str(by), str(by - 1), by > 1 and is_used)
                    more = m.link(f"{name} counts one arrival more (stage {stage})", less, str(by + 1), is_used)
                    found += f"mbarrier.init.shared::cta.b64 [%bars+{at + 8 * stage}], {more}; "
                if kind == "flag":
                    found += f"mov.u32 %y, words; st.shared.u32 [%y+{at + 8 * stage}], 0; "
        begin = m.only("%first", found)
        if not found:
            return begin
        return begin + m.link("no barrier after the mbarriers begin", " bar.sync 0;", "", self.full == "mbarrier")

    def _is_used(self, name: str, stage: int) -> bool:
        """Does a wait depend on the mbarrier?"""
        return self.rounds > stage + (self.stages if name == "empty" else 0)

    # ---- signals and waits

    def signal(self, kind: str, name: str, by: str, others: int, *, meets: bool, weak_lanes: bool = True) -> str:
        """The threads of a group signal that a stage is full or empty. `meets`: other lanes have accessed it."""
        m, rng = self.make, self.make.rng
        at = f"%{name}"
        if kind == "meet":
            return self._meet(name)
        if kind == "named":
            count = m.link(f"a warp more is to arrive at {name}", str(32 * self.warps), str(32 * self.warps + 32), self._matters(name))
            # Consumers that arrive at `full` complete its next phase themselves: wrong tiles, but no race
            return f"bar.arrive {self._named(name, name == 'full')}, {count};"
        apart = self._matters(name) and (self.writer not in ("stmatrix", "cp.async") if name == "full" else self.reader != "ldmatrix")
        lanes = m.link(f"no bar.warp.sync before {name}", "bar.warp.sync -1; ", "", apart) if by == "warps" and meets else ""
        if kind == "flag":
            is_fenced = rng.random() < 0.5
            fence = m.link(f"{name} is set without a fence", "fence.acq_rel.cta; ", "", is_fenced and self._matters(name))
            release = m.link(
                f"{name} is set without a release", "red.release.cta", "red.relaxed.cta", not is_fenced and self._matters(name)
            )
            form = f"{fence}red.relaxed.cta.shared.add.u32 [{at}], 1;" if is_fenced else f"{release}.shared.add.u32 [{at}], 1;"
        else:
            form = rng.choice(("plain", "plain", "release", "fence"))
            fence = m.link(
                f"a relaxed arrival at {name} without a fence", "fence.acq_rel.cta; ", "", form == "fence" and self._matters(name)
            )
            form = {
                "plain": f"mbarrier.arrive.shared::cta.b64 _, [{at}];",
                "release": f"mbarrier.arrive.release.cta.shared::cta.b64 _, [{at}];",
                "fence": f"{fence}mbarrier.arrive.relaxed.cta.shared::cta.b64 _, [{at}];",
            }[form]
        return lanes + (form if by == "lanes" else m.only("%leader", form))

    def _named(self, name: str, matters: bool) -> str:
        """The register with the number of a named barrier. `matters`: another access depends on it."""
        right, wrong = ("%x6", "%x7") if name == "full" else ("%x7", "%x6")
        return self.make.link(f"the named barrier {name} is the other one", right, wrong, matters)

    def _meet(self, name: str) -> str:
        """All warps meet when a stage is full or empty. The link breaks in all rounds and in both groups."""
        m, m.round, kept = self.make, "", self.make.round
        found = m.link(f"no barrier when stages are {name}", "bar.sync 0;", "bar.warp.sync -1;", name == "full" or self.stages == 1)
        m.round = kept
        return found

    def _matters(self, name: str) -> bool:
        """Does another access depend on this signal or wait of this round?"""
        if name == "full":
            return True
        if self.is_unrolled:
            return self.number + self.stages < self.rounds
        return self.rounds > self.stages

    def wait(self, kind: str, name: str, by: str, *, meets: bool) -> str:
        """The threads of a group wait until a stage is full or empty. `meets`: other lanes will access it."""
        m, rng = self.make, self.make.rng
        late = name == "full" or (self.number >= self.stages if self.is_unrolled else self.rounds > self.stages)
        if kind == "meet":
            return ""
        if kind == "named":
            form = f"bar.sync {self._named(name, late)}, {32 * self.warps};"
            if name == "empty":
                label = m.label()
                form = f"setp.lt.u32 %q, %n, {self.stages}; @%q bra {label}; {form} {label}:"
            return form
        if kind == "flag":
            least = self.count(self.full_by, self.producers) if name == "full" else self.count(self.empty_by, self.consumers)
            rounds = f"div.u32 %want, %n, {self.stages}; " + ("add.u32 %want, %want, 1; " if name == "full" else "")
            less = m.link(f"the wait for {name} lets one signal out", "", " sub.u32 %want, %want, 1; max.s32 %want, %want, 0;", False)
            label = m.label()
            acquire = m.link(f"the wait for {name} is relaxed", "acquire", "relaxed", late)
            form = f"{rounds}mul.lo.u32 %want, %want, {least};{less} {label}: ld.{acquire}.cta.shared.u32 %y, [%{name}]; setp.lt.u32 %q, %y, %want; @%q bra {label};"
        else:
            parity = {"full": "%ph", "empty": "%pe"}
            other = {"full": "%pe", "empty": "%ph"}
            wrong = m.link(f"the wait for {name} has the other parity", parity[name], other[name], self.surely)
            inner = self.number % self.stages > 0 if self.is_unrolled else name == "full" and self.rounds % self.stages > 0
            at = m.link(
                f"the wait is for {name} of the stage before", f"%{name}", "%at", self.stages > 1 and late and inner and self.surely
            )
            before = f"add.u32 %at, %st, {self.stages - 1}; rem.u32 %at, %at, {self.stages}; mad.lo.u32 %at, %at, 8, %bars; add.u32 %at, %at, {0 if name == 'full' else EMPTY}; "
            kind_of_wait = rng.choice(("", "", ".acquire.cta", ".relaxed.cta"))
            after = (
                m.link(f"a relaxed wait for {name} without a fence", " fence.acq_rel.cta;", "", late)
                if kind_of_wait == ".relaxed.cta"
                else ""
            )
            form = before * (at == "%at") + m.wait(at, wrong, kind_of_wait) + after
        if by == "lanes":
            found = form
        else:
            found = m.only("%leader", form)
            if meets:
                lanes = self.surely and (self.reader != "ldmatrix" if name == "full" else self.writer != "stmatrix")
                found += m.link(f"no bar.warp.sync after the wait for {name}", " bar.warp.sync -1;", "", late and lanes)
        return m.link(f"no wait for {name}", found, "", late and self.surely)

    # ---- the groups

    def produce(self) -> str:
        """A round of the producers."""
        m = self.make
        claim = self.wait(self.empty, "empty", "lanes" if self.claimed_by == "one" else self.claimed_by, meets=True)
        if self.is_asynchronous:
            return m.only("%p0", f"{claim} {self._copy()}")
        each = self.bytes // 128 // self.producers
        step = 128 * self.producers
        write, complete = "", ""
        waits = self.writer in ("noinc", "inc")  # the arrival is at the end of the copies
        signal = "" if waits else self.signal(self.full, "full", self.full_by, self.consumers, meets=True)
        fence = ""
        if self.stores and not waits:
            fence = m.link("fence.proxy.async of the wrong space", " fence.proxy.async.shared::cta;", " fence.proxy.async.global;")
            fence = m.link("no fence.proxy.async after the writes", fence, "")
        if self.writer in ("threads", "stmatrix"):
            for n in range(each):
                write += f"ld.global.u32 %v, [%g+{n * step}]; "
                if self.writer == "threads":
                    write += f"st.shared.u32 [%row+{n * step}], %v; "
                else:
                    write += f"stmatrix.sync.aligned.m8n8.x1.shared.b16 [%id+{n * step}], {{%v}}; "
        else:
            write = " ".join(f"cp.async.ca.shared.global [%row+{n * step}], [%g+{n * step}], 4;" for n in range(each)) + " "
            if waits:
                incs = self.writer == "inc"
                signal = f"cp.async.mbarrier.arrive{'' if incs else '.noinc'}.shared.b64 [%full];"
                if incs:
                    signal = m.link("no cp.async.mbarrier.arrive", signal, "") + " mbarrier.arrive.shared::cta.b64 _, [%full];"
            else:
                commit = m.link("no commit", "cp.async.commit_group; ", "")
                complete = commit + m.link("wait_group 1", "cp.async.wait_group 0; ", "cp.async.wait_group 1; ")
                complete = m.link("no wait_group", complete, commit)
        is_early = self.full != "meet" and not (self.by_mbarrier and self.writer == "inc")
        text = m.link("full before the writes", f"{write}{complete}{fence} {signal}", f"{signal} {write}{complete}{fence}", is_early)
        return f"{claim} {text}"

    def _copy(self) -> str:
        """A thread fills a stage by bulk or tensor copies."""
        m = self.make
        fewer = m.link("half of the bytes are expected", str(self.bytes), str(self.bytes // 2))
        expect = f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%full], {fewer};"
        if m.rng.random() < 0.3:
            expect = f"mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%full], {fewer}; mbarrier.arrive.shared::cta.b64 _, [%full];"
        if self.writer == "bulk":
            copy = f"{_BULK} [%buf], [%gin], {self.bytes}, [%full];"
        else:
            copy = "sub.u64 %w, %gin, %input; cvt.u32.u64 %y, %w; shr.u32 %y, %y, 2; "
            copy += " ".join(
                f"add.u32 %z, %buf, {128 * n}; {_TENSOR} [%z], [%map, {{%y}}], [%full]; add.u32 %y, %y, 32;"
                for n in range(self.bytes // 128)
            )
        return f"{expect} {copy}"

    def consume(self) -> str:
        """A round of the consumers."""
        m = self.make
        take = self.wait(self.full, "full", "lanes" if self.stores else self.taken_by, meets=True)
        part = self.bytes // self.consumers
        if self.stores:
            how = (
                "cp.async.bulk.global.shared::cta.bulk_group"
                if self.reader == "bulk"
                else "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32"
            )
            late = self._matters("empty")
            # No later wait of the consumers comes before the stage is full again
            alone = late and (self.empty != "meet" or self.stages == 1)
            done = m.link("wait_group.read 1", "cp.async.bulk.wait_group.read 0;", "cp.async.bulk.wait_group.read 1;", alone)
            done = m.link("no wait_group.read", done, "", alone or (late and not self.is_unrolled))
            done = m.link("no commit of the store", f"cp.async.bulk.commit_group; {done}", done, alone)
            signal = self.signal(self.empty, "empty", "warps", self.producers, meets=False)
            proxy = "fence.proxy.async.shared::cta; " if self.writer in ("noinc", "inc") else ""
            proxy = m.link("no fence.proxy.async after the wait", proxy, "", bool(proxy))
            store = f"mad.lo.u32 %y, %gw, {part}, %buf; mul.wide.u32 %g, %gw, {part}; add.u64 %g, %g, %gout; {proxy}{how} [%g], [%y], {part}; {done}"
            if self.empty == "meet":
                return f"{m.only('%leader', store)} {signal}"
            inside = m.link("empty before the store", f"{store} {signal}", f"{signal} {store}", late)
            if self.full == "named":
                return f"{take} {m.only('%leader', inside)}"
            return m.only("%leader", f"{take} {inside}")
        each = part // 128
        step = 128 * self.consumers
        if self.reader == "ld":
            read = " ".join(f"ld.shared.u32 %x{n}, [%row+{n * step}];" for n in range(each))
        else:
            read = " ".join(
                f"ldmatrix.sync.aligned.m8n8.x1.shared.b16 {{%x{n}}}, [%id+{n * step}]; shfl.sync.bfly.b32 %x{n}, %x{n}, {self.mask}, 31, -1;"
                for n in range(each)
            )
        proxy = " fence.proxy.async.shared::cta;" if self.is_asynchronous else ""
        signal = self.signal(self.empty, "empty", self.empty_by, self.producers, meets=True)
        write = " ".join(f"add.u32 %x{n}, %x{n}, {self.added}; st.global.u32 [%g+{n * step}], %x{n};" for n in range(each))
        text = m.link(
            "empty before the reads", f"{read}{proxy} {signal}", f"{signal} {read}", self._matters("empty") and self.empty != "meet"
        )
        return f"{take} {text} {write}"

    def rounds_of(self, group: str) -> str:
        """All rounds of a group."""
        m = self.make
        other = self.mask << 2 if group == "consumer" and self.reader == "ld" else 0
        phase = f"div.u32 %ph, %n, {self.stages}; and.b32 %ph, %ph, 1;"
        if self.stages > 1 and self.full == "mbarrier" and not self.is_unrolled and self.rounds > 2:
            phase = m.link(
                f"the {group} takes the parity of the round for that of its phase", phase, "and.b32 %ph, %n, 1;", group == "consumer"
            )
        begin = f"""rem.u32 %st, %n, {self.stages}; {phase} xor.b32 %pe, %ph, 1; mad.lo.u32 %buf, %st, {self.bytes}, %tile;
{self._place("full", 0)} {self._place("empty", EMPTY)} add.u32 %x6, %st, 1; add.u32 %x7, %st, {1 + self.stages};
mad.lo.u32 %y, %cta, {self.rounds}, %n; mul.wide.u32 %gin, %y, {self.bytes}; add.u64 %gout, %gin, %output; add.u64 %gin, %gin, %input;
mad.lo.u32 %goff, %gw, 128, 0; and.b32 %y, %lane, 7; mad.lo.u32 %id, %y, 16, %goff; add.u32 %id, %id, %buf; mad.lo.u32 %goff, %lane, 4, %goff; xor.b32 %row, %goff, {other}; add.u32 %row, %row, %buf;
cvt.u64.u32 %g, %goff; add.u64 %g, %g, {"%gin" if group == "producer" else "%gout"};"""
        step = self.produce if group == "producer" else self.consume
        alone = self.full == "meet"
        before = f"setp.eq.u32 %p0, %t, 0; {'mov.u32 %gw, %warp;' if group == 'producer' else f'sub.u32 %gw, %warp, {self.producers};'}"
        found = [before]
        self.number = 0

        def inside() -> str:
            if not alone:
                return step()
            if group == "producer":  # all warps meet after the writes, and after the reads
                return f"{step()} {self._meet('empty')}"
            return f"{self._meet('full')} {step()}"

        if self.is_unrolled:
            for number in range(self.rounds):
                self.number, m.round = number, f" in round {number} of the {group}"
                found.append(f"mov.u32 %n, {number}; {begin} {inside()}")
            m.round = ""
        else:
            m.round = f" of the {group}"
            label = m.label()
            found.append(
                f"mov.u32 %n, 0; {label}: {begin} {inside()} add.u32 %n, %n, 1; setp.lt.u32 %more, %n, {self.rounds}; @%more bra {label};"
            )
            m.round = ""
        if group == "consumer" and self.stores:
            found.append(m.only("%leader", "cp.async.bulk.wait_group 0;"))
        return "\n".join(found)

    def _place(self, name: str, at: int) -> str:
        kind = self.full if name == "full" else self.empty
        base = f"mov.u32 %y, words; mad.lo.u32 %{name}, %st, 8, %y;" if kind == "flag" else f"mad.lo.u32 %{name}, %st, 8, %bars;"
        return f"{base} add.u32 %{name}, %{name}, {at};"

    def text(self) -> list[str]:
        m = self.make
        begin = self.begin()
        produce, consume = self.rounds_of("producer"), self.rounds_of("consumer")
        consumer, end = m.label(), m.label()
        return [
            begin,
            f"setp.ge.u32 %q, %warp, {self.producers}; @%q bra {consumer};",
            produce,
            f"bra {end};",
            f"{consumer}:",
            consume,
            f"{end}:",
        ]


# ---- other programs. Word i of `in` and of `out` belongs to thread i of the launch.

# %in and %mine are the words of the thread, %inother and %other those of the same thread of another CTA or, in a
# launch of one CTA, of another warp. %own and %near are words in shared memory: its own, and that of a thread of
# another warp.
_PLACES = """mul.wide.u32 %g, %thread, 4; add.u64 %gin, %input, %g; add.u64 %gout, %output, %g;
shl.b32 %y, %t, 2; add.u32 %row, %tile, %y; xor.b32 %y, %t, {mask}; shl.b32 %y, %y, 2; add.u32 %at, %tile, %y; mul.wide.u32 %w, %cta, 4; add.u64 %w, %flags, %w;"""


def _multistage(m: _Maker) -> Chain:
    """All warps copy tiles ahead by cp.async or bulk copies, and read words of other warps."""
    rng = m.rng
    warps, stages, rounds = rng.choice((2, 2, 4)), rng.choice((2, 2, 3, 4)), rng.randrange(3, 7)
    size, mask, ahead = 128 * warps, rng.choice((32, 33, 63)), stages - 1
    is_bulk = rng.random() < 0.4
    added = rng.randrange(9)

    def place(number: str) -> str:
        return f"rem.u32 %st, {number}, {stages}; mad.lo.u32 %buf, %st, {size}, %tile; mad.lo.u32 %y, %cta, {rounds}, {number}; mul.wide.u32 %gin, %y, {size}; add.u64 %gout, %gin, %output; add.u64 %gin, %gin, %input;"

    def load(number: str) -> str:
        if is_bulk:
            copy = f"mad.lo.u32 %full, %st, 8, %bars; mbarrier.arrive.expect_tx.shared::cta.b64 _, [%full], {size}; {_BULK} [%buf], [%gin], {size}, [%full];"
            return f"{place(number)} {m.only('%first', copy)}"
        return f"{place(number)} mad.lo.u32 %row, %t, 4, %buf; mul.wide.u32 %g, %t, 4; add.u64 %g, %g, %gin; cp.async.ca.shared.global [%row], [%g], 4;"

    begin = ""
    if is_bulk:
        begin = m.only("%first", " ".join(f"mbarrier.init.shared::cta.b64 [%bars+{8 * n}], 1;" for n in range(stages)))
        begin += m.link("no barrier after the mbarriers begin", " bar.sync 0;", "")
    commit = "" if is_bulk else " cp.async.commit_group;"
    fills = "\n".join(f"mov.u32 %n, {n}; {load('%n') if n < rounds else ''}{commit}" for n in range(ahead))
    if is_bulk:
        parity = f"div.u32 %ph, %n, {stages}; and.b32 %ph, %ph, 1; xor.b32 %pe, %ph, 1;"
        wait = f"{parity} mad.lo.u32 %full, %st, 8, %bars; {m.wait('%full', m.link('the wait has the other parity', '%ph', '%pe'))}"
        wait = m.link("no wait", wait, "")
    else:
        wait = m.link(f"wait_group {stages - 1}", f"cp.async.wait_group {stages - 2};", f"cp.async.wait_group {stages - 1};")
        wait = m.link("no wait_group", wait, "")
    meets = m.link("no barrier before the reads", "bar.sync 0;", "", not is_bulk)
    meets = m.link("no barrier in the loop", meets, "", rounds > stages)
    proxy = is_bulk  # before the next copy
    read = f"xor.b32 %y, %t, {mask}; mad.lo.u32 %at, %y, 4, %buf; ld.shared.u32 %x0, [%at]; {'fence.proxy.async.shared::cta;' if proxy else ''} add.u32 %x0, %x0, {added}; mul.wide.u32 %g, %t, 4; add.u64 %g, %g, %gout; st.global.u32 [%g], %x0;"
    label = m.label()
    following = f"add.u32 %z, %n, {ahead}; setp.ge.u32 %q, %z, {rounds}; @%q bra {label}; {load('%z')} {label}:"
    tail = (
        commit
        if is_bulk
        else m.link(
            "no empty group at the end",
            f"{following}{commit}",
            following.replace(f" {label}:", f" cp.async.commit_group; {label}:"),
            stages > 2,
        )
    )
    if is_bulk:
        tail = following
    loop = m.label()
    inside = f"{place('%n')} {wait} {meets} {read} {tail}"
    inside = m.link(
        "the next copy before the barrier",
        inside,
        f"{tail} {place('%n')} {wait} {meets} {read}",
        rounds > stages and stages > 1 and not is_bulk,
    )
    steps = [begin, fills, f"mov.u32 %n, 0; {loop}: {inside} add.u32 %n, %n, 1; setp.lt.u32 %more, %n, {rounds}; @%more bra {loop};"]
    ctas = rng.choice((1, 2))
    return Chain(tuple(steps), warps, ctas, made=(ctas * rounds * size // 4, mask, added))


def _staged(m: _Maker) -> Chain:
    """All warps write tiles to stages, and one thread stores these by bulk copies."""
    rng = m.rng
    warps, stages, rounds = rng.choice((1, 2, 2, 4)), rng.choice((1, 2, 2, 3)), rng.randrange(2, 7)
    size, late = 128 * warps, rounds > stages
    how = rng.choice(("cp.async.bulk.global.shared::cta.bulk_group", "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32"))
    added = rng.randrange(9)
    wait = m.link(
        "wait_group.read of one group more",
        f"cp.async.bulk.wait_group.read {stages - 1};",
        f"cp.async.bulk.wait_group.read {stages};",
        late,
    )
    wait = m.link("no wait_group.read", wait, "", late)
    waiting = m.link("another thread waits", "%first", "%p1", late and warps > 1)
    before = m.link("no barrier after the wait", "bar.sync 0;", "bar.warp.sync -1;", late and warps > 1)
    fence = m.link("fence.proxy.async of the wrong space", "fence.proxy.async.shared::cta;", "fence.proxy.async.global;")
    fence = m.link("no fence.proxy.async", fence, "")
    after = m.link("no barrier before the store", "bar.sync 0;", "", warps > 1)
    fence = f"{fence} {after}"
    commit = m.link("no commit", "cp.async.bulk.commit_group;", "", late)
    write = "mad.lo.u32 %row, %t, 4, %buf; st.shared.u32 [%row], %x0;"
    body = f"""rem.u32 %st, %n, {stages}; mad.lo.u32 %buf, %st, {size}, %tile; mad.lo.u32 %y, %cta, {rounds}, %n; mul.wide.u32 %gin, %y, {size}; add.u64 %gout, %gin, %output; add.u64 %gin, %gin, %input;
mul.wide.u32 %g, %t, 4; add.u64 %g, %g, %gin; ld.global.u32 %x0, [%g]; add.u32 %x0, %x0, {added};"""
    store = m.only("%first", f"{how} [%gout], [%buf], {size}; {commit}")
    if rng.random() < 0.5:  # the wait before the writes
        body += f" setp.eq.u32 %p1, %t, {32 % (32 * warps)}; {m.only(waiting, wait)} {before} {write} {fence} {store}"
    else:
        body += f" {write} {fence} {store} setp.eq.u32 %p1, %t, {32 % (32 * warps)}; {m.only(waiting, wait)} {before}"
    loop = m.label()
    ctas = rng.choice((1, 2))
    steps = [
        f"mov.u32 %n, 0; {loop}: {body} add.u32 %n, %n, 1; setp.lt.u32 %more, %n, {rounds}; @%more bra {loop};",
        m.only("%first", "cp.async.bulk.wait_group 0;"),
    ]
    return Chain(tuple(steps), warps, ctas, made=(ctas * rounds * size // 4, 0, added))


def _passed(m: _Maker) -> Chain:
    """A CTA writes words to global memory, and another one reads them after a flag or a counter."""
    rng = m.rng
    warps, ctas = rng.choice((1, 2, 2)), rng.choice((2, 2, 4))
    threads, added = 32 * warps, rng.randrange(1, 9)
    writer = rng.choice(("st", "st", "st", "cg", "red", "wt", "bulk"))
    each = rng.random() < 0.3  # each thread releases
    grid = rng.choice(("gpu", "gpu", "sys"))
    steps = [_PLACES.replace("{mask}", "1"), f"ld.global.u32 %x0, [%gin]; add.u32 %x0, %x0, {added};"]
    done = ""
    if writer == "bulk":
        fence = m.link("no fence.proxy.async", "fence.proxy.async.shared::cta;", "")
        meets = m.link("no barrier before the store", "bar.sync 0;", "", warps > 1)
        commit = m.link("no commit", "cp.async.bulk.commit_group;", "")
        done = m.link("no wait_group", "cp.async.bulk.wait_group 0;", "")
        done = m.link("wait_group.read", done, "cp.async.bulk.wait_group.read 0;")
        done = m.link("wait_group 1", done, "cp.async.bulk.wait_group 1;")
        each = False
        store = f"cp.async.bulk.global.shared::cta.bulk_group [%gout], [%tile], {4 * threads}; {commit} {done}"
        steps.append(f"st.shared.u32 [%row], %x0; {fence} {meets} {m.only('%first', store)}")
    else:
        steps.append(
            {
                "st": "st.global.u32 [%gout], %x0;",
                "cg": "st.global.cg.u32 [%gout], %x0;",
                "red": "red.global.add.u32 [%gout], %x0;",
                "wt": "st.global.wt.u32 [%gout], %x0;",
            }[writer]
        )
    strong = writer == "red"
    narrow = m.link("the scope of the release is cta", grid, "cta")
    is_fenced = rng.random() < 0.5
    count = threads if each else 1
    wide = rng.choice(("fence.acq_rel", "fence.sc"))
    if not each and writer != "bulk":
        steps.append(m.link("no barrier before the release", "bar.sync 0;", "bar.warp.sync -1;", warps > 1))
    if is_fenced:
        fence = m.link("no fence before the flag", f"{wide}.{narrow};", "")
        release = f"{fence} red.relaxed.{grid}.global.add.u32 [%w], 1;"
    else:
        release = f"red.{m.link('a relaxed flag', 'release', 'relaxed')}.{narrow}.global.add.u32 [%w], 1;"
    steps.append(release if each else m.only("%first", release))
    # the reader
    across = rng.randrange(1, ctas)
    near = rng.choice((0, 1, 3, 31))
    narrow = m.link("the scope of the acquire is cta", grid, "cta")
    is_fenced = rng.random() < 0.5
    label = m.label()
    alone = rng.random() < 0.6
    after = m.link("no fence after the flag", f"fence.acq_rel.{narrow};", "") if is_fenced else ""
    acquire = f"ld.relaxed.{grid}" if is_fenced else f"ld.{m.link('a relaxed wait', 'acquire', 'relaxed')}.{narrow}"
    wait = f"{label}: {acquire}.global.u32 %y, [%w]; setp.lt.u32 %q, %y, {count}; @%q bra {label}; {after}"
    steps.append(
        f"xor.b32 %z, %cta, {across}; mul.wide.u32 %w, %z, 4; add.u64 %w, %w, %flags; mad.lo.u32 %y, %z, {threads}, %t; xor.b32 %y, %y, {near}; mul.wide.u32 %g, %y, 4; add.u64 %g, %g, %output;"
    )
    if alone:
        meets = m.link("no barrier after the wait", "bar.sync 0;", "", warps > 1)
        steps.append(f"{m.only('%first', wait)} {meets}")
    else:
        steps.append(wait)
    load = rng.choice(("ld.global.u32", "ld.global.u32", "ld.relaxed.gpu.global.u32", "ld.global.cg.u32"))
    if strong and load.startswith("ld.relaxed"):
        load = "ld.global.u32"
    steps.append(f"{load} %x1, [%g]; mul.wide.u32 %g, %thread, 4; add.u64 %g, %g, %output; st.global.u32 [%g+4096], %x1;")
    return Chain(tuple(steps), warps, ctas, made=(threads * ctas, 0, added))


def _last(m: _Maker) -> Chain:
    """The last CTA to arrive at a counter reads the words of all."""
    rng = m.rng
    warps, ctas = rng.choice((1, 2, 2)), rng.choice((2, 2, 4))
    threads, added = 32 * warps, rng.randrange(1, 9)
    is_fenced = rng.random() < 0.6
    fence = m.link("the fence before the counter has scope cta", "fence.acq_rel.gpu;", "fence.acq_rel.cta;", is_fenced)
    fence = m.link("no fence before the counter", fence, "", is_fenced)
    meets = m.link("no barrier before the counter", "bar.sync 0;", "bar.warp.sync -1;", warps > 1)
    by_all = rng.random() < 0.5
    atom = "atom.relaxed.gpu"
    after = m.link("no fence after the counter", "fence.acq_rel.gpu;", "", is_fenced)
    if not is_fenced:
        fence, by_all = "", True
        atom = m.link("the counter releases nothing", "atom.acq_rel.gpu", "atom.acquire.gpu")
        after = ""
    before = f"{fence} {meets}" if by_all else meets
    inside = "" if by_all else fence
    told = m.link("no barrier after the counter", "bar.sync 0;", "bar.warp.sync -1;", warps > 1)
    ticket = m.only("%first", f"{inside} {atom}.global.add.u32 %x2, [%flags+64], 1; st.shared.u32 [%tile+1024], %x2; {after}")
    loads = " ".join(f"ld.global.u32 %x0, [%g+{4 * threads * n}]; st.global.u32 [%g+{4096 + 4 * threads * n}], %x0;" for n in range(ctas))
    end = m.label()
    steps = [
        _PLACES.replace("{mask}", "1"),
        f"ld.global.u32 %x0, [%gin]; add.u32 %x0, %x0, {added}; st.global.u32 [%gout], %x0;",
        before,
        ticket,
        f"{told} ld.shared.u32 %x2, [%tile+1024]; setp.ne.u32 %q, %x2, {ctas - 1}; @%q bra {end}; xor.b32 %y, %t, 1; mul.wide.u32 %g, %y, 4; add.u64 %g, %g, %output; {loads} {end}:",
    ]
    return Chain(tuple(steps), warps, ctas, made=(threads * ctas, 0, added))


def _locked(m: _Maker) -> Chain:
    """CTAs update a word under a lock, one by one."""
    rng = m.rng
    ctas = rng.choice((2, 3, 4))
    place = rng.choice(("global", "shared"))
    if place == "shared":
        ctas = 1
    warps = rng.choice((2, 4)) if place == "shared" else rng.choice((1, 2))
    wide = "cta" if place == "shared" else "gpu"
    lock, word = ("[%flags+64]", "[%flags+128]") if place == "global" else ("[%tile]", "[%tile+64]")
    take = m.label()
    is_fenced = rng.random() < 0.5
    fence_in = m.link("no fence after the lock", f"fence.acq_rel.{wide};", "", is_fenced) if is_fenced else ""
    fence_out = m.link("no fence before the unlock", f"fence.acq_rel.{wide};", "", is_fenced) if is_fenced else ""
    cas = "relaxed" if is_fenced else m.link("the lock is relaxed", "acquire", "relaxed")
    unlock = "relaxed" if is_fenced else m.link("the unlock is relaxed", "release", "relaxed")
    by = rng.choice(("st", "atom"))
    scope = m.link("the lock has scope cta", wide, "cta", wide == "gpu")
    free = f"st.{unlock}.{wide}.{place}.u32 {lock}, 0;" if by == "st" else f"atom.{unlock}.{wide}.{place}.exch.b32 %y, {lock}, 0;"
    locked = f"{take}: atom.{cas}.{scope}.{place}.cas.b32 %y, {lock}, 0, 1; setp.ne.u32 %q, %y, 0; @%q bra {take};"
    critical = f"{locked} {fence_in} ld.{place}.u32 %x1, {word}; add.u32 %x1, %x1, 1; st.{place}.u32 {word}, %x1; {fence_out} {free}"
    early = f"{locked} {fence_in} ld.{place}.u32 %x1, {word}; add.u32 %x1, %x1, 1; {fence_out} {free} st.{place}.u32 {word}, %x1;"
    critical = m.link("the store is after the unlock", critical, early)
    steps = [_PLACES.replace("{mask}", "1")]
    if place == "shared":
        steps.append(
            m.only("%first", "st.shared.u32 [%tile], 0; st.shared.u32 [%tile+64], 0;")
            + m.link("no barrier after the lock begins", " bar.sync 0;", "")
        )
    steps.append(m.only("%leader", critical))
    if place == "shared":
        steps.append(
            m.link("no barrier before the sum is read", "bar.sync 0;", "bar.warp.sync -1;")
            + " ld.shared.u32 %x1, [%tile+64]; st.global.u32 [%gout], %x1;"
        )
    return Chain(tuple(steps), warps, ctas)


def _lanes(m: _Maker) -> Chain:
    """Lanes of a warp exchange words in shared memory, several times."""
    rng = m.rng
    rounds = rng.randrange(1, 4)
    steps = [_PLACES.replace("{mask}", "0"), "ld.global.u32 %x0, [%gin];"]
    mask = 0
    is_double = rng.random() < 0.5
    for n in range(rounds):
        m.round = f" in round {n}"
        other = rng.choice((1, 2, 5, 31))
        mask ^= other
        at = 256 * (n % 2) if is_double else 0
        between = m.link("no bar.warp.sync before the load", "bar.warp.sync -1;", "")
        last = n == rounds - 1
        after = m.link("no bar.warp.sync after the load", "bar.warp.sync -1;", "", not last and not is_double)
        if is_double and rng.random() < 0.5 and not last:
            after = ""
        steps.append(
            f"st.shared.u32 [%row+{at}], %x0; {between} xor.b32 %y, %t, {other}; mad.lo.u32 %at, %y, 4, %tile; ld.shared.u32 %x0, [%at+{at}]; {after}"
        )
    m.round = ""
    steps.append("st.global.u32 [%gout], %x0;")
    ctas = rng.choice((1, 2))
    return Chain(tuple(steps), 1, ctas, made=(32 * ctas, mask, 0))


def _cluster(m: _Maker) -> Chain:
    """CTAs of a cluster pass words through their shared memory."""
    rng = m.rng
    cluster, warps = rng.choice((2, 2, 4)), rng.choice((1, 2))
    threads, across, added, mask = 32 * warps, rng.randrange(1, cluster), rng.randrange(9), rng.choice((0, 1, 31))
    way = rng.choice(("barrier", "barrier", "arrive", "st.async", "bulk", "multicast", "read"))
    meet = rng.choice(
        (
            "barrier.cluster.arrive; barrier.cluster.wait;",
            "barrier.cluster.arrive.release; barrier.cluster.wait.acquire;",
            "fence.acq_rel.cluster; barrier.cluster.arrive.relaxed; barrier.cluster.wait.acquire;",
        )
    )
    size = 4 * threads
    begin = f"""mov.u32 %rank, %cluster_ctarank; xor.b32 %rank, %rank, {across}; mapa.shared::cluster.u32 %peertile, %tile, %rank; mapa.shared::cluster.u32 %peerbars, %bars, %rank;
ld.global.u32 %x0, [%gin]; add.u32 %x0, %x0, {added}; shl.b32 %y, %t, 2; add.u32 %peerbuf, %peertile, %y;"""
    steps = [_PLACES.replace("{mask}", str(mask)), begin]
    counts = {"arrive": threads, "st.async": 1, "bulk": 1, "multicast": 1}
    if way in counts:
        less = m.link("one arrival less", str(counts[way]), str(counts[way] - 1), counts[way] > 1)
        init = m.only(
            "%first",
            f"mbarrier.init.shared::cta.b64 [%bars], {less};"
            + (f" mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bars], {size};" if way != "arrive" else ""),
        )
        with_fence = "fence.mbarrier_init.release.cluster; barrier.cluster.arrive.relaxed; barrier.cluster.wait.acquire;"
        without = "barrier.cluster.arrive.relaxed; barrier.cluster.wait.acquire;"
        start = m.link("no fence.mbarrier_init", with_fence, without) if rng.random() < 0.5 else meet
        start = m.link("no barrier of the cluster at the beginning", start, "bar.sync 0;")
        steps.append(f"{init} {start}")
    else:
        steps.append(m.link("no barrier of the cluster at the beginning", meet, "bar.sync 0;", way == "barrier"))
    scope = rng.choice((".acquire.cluster", ".acquire.cluster", ""))
    waits = way in counts
    wait = m.link("no wait", m.wait("%bars", m.link("the wait has the other parity", "0", "1", waits), scope), "", waits)
    read = "ld.shared.u32 %x1, [%at];"
    if way == "barrier":
        steps.append(f"st.shared::cluster.u32 [%peerbuf], %x0; {m.link('no barrier of the cluster', meet, 'bar.sync 0;')} {read}")
    elif way == "arrive":
        arrive = rng.choice(("plain", "fence"))
        scope = m.link("the arrival has scope cta", "cluster", "cta")
        form = f"mbarrier.arrive.release.{scope}.shared::cluster.b64 _, [%peerbars];"
        if arrive == "fence":
            form = (
                m.link("no fence before the arrival", f"fence.acq_rel.{scope};", "")
                + " mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%peerbars];"
            )
        steps.append(f"st.shared::cluster.u32 [%peerbuf], %x0; {form} {wait} {read}")
    elif way == "st.async":
        steps.append(f"st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%peerbuf], %x0, [%peerbars]; {wait} {read}")
    elif way == "bulk":
        fence = m.link("no fence.proxy.async", "fence.proxy.async.shared::cta;", "")
        meets = m.link("no barrier before the copy", "bar.sync 0;", "", warps > 1)
        copy = f"cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%peertile], [%tile+1024], {size}, [%peerbars];"
        steps.append(f"st.shared.u32 [%row+1024], %x0; {fence} {meets} {m.only('%first', copy)} {wait} {read}")
    elif way == "multicast":
        added = mask = 0
        steps[0] = _PLACES.replace("{mask}", "0")
        copy = f"setp.eq.u32 %p1, %rank, {across}; and.pred %p1, %p1, %first; " + m.only(
            "%p1", f"{_BULK}.multicast::cluster [%tile], [%gin], {size}, [%bars], {(1 << cluster) - 1};"
        )
        steps.append(f"{copy} {wait} {read}")
    else:
        steps.append(
            f"st.shared.u32 [%row], %x0; {m.link('no barrier of the cluster before the read', meet, 'bar.sync 0;')} xor.b32 %y, %t, {mask}; mad.lo.u32 %peerbuf, %y, 4, %peertile; ld.shared::cluster.u32 %x1, [%peerbuf];"
        )
    end = meet
    if way in ("read", "bulk"):
        end = m.link("no barrier of the cluster at the end", meet, "")
    steps.append(f"st.global.u32 [%gout], %x1; {end}")
    return Chain(tuple(steps), warps, cluster, cluster=cluster)


def _multicast(m: _Maker) -> Chain:
    """Two CTAs copy halves of each tile to both, through a ring of stages."""
    rng = m.rng
    stages, rounds, consumers = rng.choice((1, 2, 2, 3)), rng.randrange(2, 6), rng.choice((1, 2))
    size, added, late = 128 * consumers, rng.randrange(9), rounds > stages
    half = size // 2
    free = m.link("the other CTA does not free its stage", str(2 * consumers), str(consumers), late)
    is_local = free == str(consumers)
    bars = " ".join(
        f"mbarrier.init.shared::cta.b64 [%bars+{8 * n}], 1; mbarrier.init.shared::cta.b64 [%bars+{EMPTY + 8 * n}], {free};"
        for n in range(stages)
    )
    meet = "barrier.cluster.arrive.release; barrier.cluster.wait.acquire;"
    begin = m.only("%first", bars) + m.link(
        "no barrier of the cluster at the beginning", f" fence.mbarrier_init.release.cluster; {meet}", " bar.sync 0;"
    )
    place = f"""rem.u32 %st, %n, {stages}; div.u32 %ph, %n, {stages}; and.b32 %ph, %ph, 1; xor.b32 %pe, %ph, 1; mad.lo.u32 %buf, %st, {size}, %tile;
mad.lo.u32 %full, %st, 8, %bars; add.u32 %empty, %full, {EMPTY}; mad.lo.u32 %peerempty, %st, 8, %peerbars; add.u32 %peerempty, %peerempty, {EMPTY};"""
    claim = m.link(
        "no wait for empty",
        m.wait("%empty", m.link("the wait for empty has the other parity", "%pe", "%ph"), rng.choice(("", ".acquire.cluster"))),
        "",
        late,
    )
    expected = m.link("half of the bytes are expected", str(size), str(half))
    ranks = m.link("the copy goes to one CTA", "3", "1")
    copy = f"mad.lo.u32 %z, %rank, {half}, %buf; mad.lo.u32 %y, %rank, {half}, 0; mad.lo.u32 %y, %n, {size}, %y; cvt.u64.u32 %g, %y; add.u64 %g, %g, %input; mov.b16 %h, {ranks}; {_BULK}.multicast::cluster [%z], [%g], {half}, [%full], %h;"
    produce = m.only("%p0", f"{claim} mbarrier.arrive.expect_tx.shared::cta.b64 _, [%full], {expected}; {copy}")
    take = m.link(
        "no wait for full",
        m.wait("%full", m.link("the wait for full has the other parity", "%ph", "%pe"), rng.choice(("", ".acquire.cluster"))),
        "",
    )
    remote = "" if is_local else "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%peerempty];"
    signal = f"{m.link('no bar.warp.sync before empty', 'bar.warp.sync -1;', '', late)} {m.only('%leader', f'mbarrier.arrive.release.cluster.shared::cta.b64 _, [%empty]; {remote}')}"
    read = "mad.lo.u32 %y, %gw, 128, %buf; mad.lo.u32 %y, %lane, 4, %y; ld.shared.u32 %x0, [%y]; fence.proxy.async.shared::cta;"
    both = m.link("empty before the reads", f"{read} {signal}", f"{signal} {read}", late)
    write = f"add.u32 %x0, %x0, {added}; mad.lo.u32 %y, %cta, {rounds}, %n; mul.wide.u32 %gout, %y, {size}; mad.lo.u32 %y, %gw, 128, 0; mad.lo.u32 %y, %lane, 4, %y; cvt.u64.u32 %g, %y; add.u64 %g, %g, %gout; add.u64 %g, %g, %output; st.global.u32 [%g], %x0;"
    other, end, loops = m.label(), m.label(), (m.label(), m.label())
    again = f"add.u32 %n, %n, 1; setp.lt.u32 %more, %n, {rounds};"
    steps = [
        ".reg .b16 %h; mov.u32 %rank, %cluster_ctarank; xor.b32 %y, %rank, 1; mapa.shared::cluster.u32 %peerbars, %bars, %y; setp.eq.u32 %p0, %t, 0;",
        begin,
        f"setp.ge.u32 %q, %warp, 1; @%q bra {other};",
        f"mov.u32 %n, 0; {loops[0]}: {place} {produce} {again} @%more bra {loops[0]}; bra {end};",
        f"{other}: sub.u32 %gw, %warp, 1; mov.u32 %n, 0; {loops[1]}: {place} {take} {both} {write} {again} @%more bra {loops[1]};",
        f"{end}: {m.link('no barrier of the cluster at the end', meet, '')}",
    ]
    return Chain(tuple(steps), 1 + consumers, 2, cluster=2, made=(rounds * size // 4, 0, added))


def _multiplied(m: _Maker) -> Chain:
    """A warpgroup multiplies tiles of a ring of stages by wgmma."""
    rng = m.rng
    stages, rounds = rng.choice((1, 2, 2, 3)), rng.randrange(2, 6)
    late, behind = rounds > stages, stages > 1 and rng.random() < 0.4  # the group before is freed
    bars = " ".join(
        f"mbarrier.init.shared::cta.b64 [%bars+{8 * n}], 1; mbarrier.init.shared::cta.b64 [%bars+{EMPTY + 8 * n}], 4;"
        for n in range(stages)
    )
    begin = m.only("%first", bars) + m.link("no barrier after the mbarriers begin", " bar.sync 0;", "")
    place = f"""rem.u32 %st, %n, {stages}; div.u32 %ph, %n, {stages}; and.b32 %ph, %ph, 1; xor.b32 %pe, %ph, 1; mad.lo.u32 %buf, %st, 256, %tile; mad.lo.u32 %full, %st, 8, %bars; add.u32 %empty, %full, {EMPTY};"""
    claim = m.link("no wait for empty", m.wait("%empty", m.link("the wait for empty has the other parity", "%pe", "%ph")), "", late)
    copy = f"mul.wide.u32 %g, %n, 256; add.u64 %g, %g, %input; {_BULK} [%buf], [%g], 256, [%full];"
    produce = m.only("%p0", f"{claim} mbarrier.arrive.expect_tx.shared::cta.b64 _, [%full], 256; {copy}")
    take = m.link("no wait for full", m.wait("%full", m.link("the wait for full has the other parity", "%ph", "%pe")), "")
    fence = m.link("no wgmma.fence", "wgmma.fence.sync.aligned;", "")
    multiply = "shr.u32 %y, %buf, 4; cvt.u64.u32 %w, %y; or.b64 %w, %w, %desc; wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, {%x0, %x1, %x2, %x3}, %w, 1, 1, 1, 0;"
    commit = m.link("no commit", "wgmma.commit_group.sync.aligned;", "")
    pending = 1 if behind else 0
    wait = m.link(
        f"wgmma.wait_group {pending + 1}",
        f"wgmma.wait_group.sync.aligned {pending};",
        f"wgmma.wait_group.sync.aligned {pending + 1};",
        late or not behind,
    )
    wait = m.link("no wgmma.wait_group", wait, "", late or not behind)
    at, guard = "%empty", "%leader"
    before = ""
    if behind:
        before = f"add.u32 %at, %st, {stages - 1}; rem.u32 %at, %at, {stages}; mad.lo.u32 %at, %at, 8, %bars; add.u32 %at, %at, {EMPTY}; setp.ne.u32 %q, %n, 0; and.pred %q, %q, %leader;"
        at, guard = m.link("the stage of the pending group is freed", "%at", "%empty", late), "%q"
    signal = f"{before} {m.only(guard, f'mbarrier.arrive.shared::cta.b64 _, [{at}];')}"
    both = m.link("empty before the wait", f"{wait} {signal}", f"{signal} {wait}", late)
    end, other, loops = m.label(), m.label(), (m.label(), m.label())
    again = f"add.u32 %n, %n, 1; setp.lt.u32 %more, %n, {rounds};"
    last = "wgmma.wait_group.sync.aligned 0;" if behind else ""
    last = m.link("no wgmma.wait_group at the end", last, "", behind)
    steps = [
        ".reg .f32 %f<4>; .reg .b64 %desc; mov.f32 %f0, 0f00000000; mov.f32 %f1, 0f00000000; mov.f32 %f2, 0f00000000; mov.f32 %f3, 0f00000000; mov.u64 %desc, 0x80000; setp.eq.u32 %p0, %t, 128;",
        "mov.u32 %x0, 0x3c003c00; mov.u32 %x1, 0x3c004000; mov.u32 %x2, 0x40003c00; mov.u32 %x3, 0x3c003c00;",
        begin,
        f"setp.lt.u32 %q, %warp, 4; @%q bra {other};",
        f"mov.u32 %n, 0; {loops[0]}: {place} {produce} {again} @%more bra {loops[0]}; bra {end};",
        f"{other}: mov.u32 %n, 0; {loops[1]}: {place} {take} {fence} {multiply} {commit} {both} {again} @%more bra {loops[1]}; {last}",
        "mul.wide.u32 %g, %t, 16; add.u64 %g, %g, %output; st.global.v4.f32 [%g], {%f0, %f1, %f2, %f3};",
        f"{end}:",
    ]
    return Chain(tuple(steps), 5, 1)


def _rounds(m: _Maker) -> Chain:
    """All CTAs meet several times at a counter in global memory, and read what others wrote."""
    rng = m.rng
    warps, ctas, rounds = rng.choice((1, 2)), rng.choice((2, 3, 4)), rng.randrange(1, 4)
    threads = 32 * warps
    steps = [_PLACES.replace("{mask}", "0"), "ld.global.u32 %x0, [%gin]; mov.u64 %gout, %output;"]
    for n in range(rounds):
        m.round = f" in round {n}"
        is_fenced = rng.random() < 0.5
        first = m.link("no barrier before the counter", "bar.sync 0;", "bar.warp.sync -1;", warps > 1)
        release = m.link("no fence before the counter", "fence.acq_rel.gpu;", "", is_fenced) if is_fenced else ""
        red = "red.relaxed.gpu" if is_fenced else m.link("the counter is relaxed", "red.release.gpu", "red.relaxed.gpu")
        after = m.link("no fence after the counter", "fence.acq_rel.gpu;", "", is_fenced) if is_fenced else ""
        load = "ld.relaxed.gpu" if is_fenced else m.link("the wait is relaxed", "ld.acquire.gpu", "ld.relaxed.gpu")
        last = m.link("no barrier after the wait", "bar.sync 0;", "bar.warp.sync -1;", warps > 1)
        label = m.label()
        wait = f"{release} {red}.global.add.u32 [%flags+64], 1; {label}: {load}.global.u32 %y, [%flags+64]; setp.lt.u32 %q, %y, {ctas * (n + 1)}; @%q bra {label}; {after}"
        at = 2048 * (n % 2)
        step = rng.randrange(1, ctas)
        steps += [
            f"mul.wide.u32 %g, %thread, 4; add.u64 %g, %g, %output; st.global.u32 [%g+{at}], %x0;",
            f"{first} {m.only('%first', wait)} {last}",
            f"add.u32 %y, %cta, {step}; rem.u32 %y, %y, {ctas}; mad.lo.u32 %y, %y, {threads}, %t; mul.wide.u32 %g, %y, 4; add.u64 %g, %g, %output; ld.global.u32 %x1, [%g+{at}]; add.u32 %x0, %x0, %x1;",
        ]
    m.round = ""
    steps.append("mul.wide.u32 %g, %thread, 4; add.u64 %g, %g, %output; st.global.u32 [%g+4096], %x0;")
    return Chain(tuple(steps), warps, ctas)


def _summed(m: _Maker) -> Chain:
    """Each CTA waits for the one before it, and adds to its sum."""
    rng = m.rng
    ctas, warps = rng.choice((2, 3, 4)), rng.choice((1, 2))
    threads = 32 * warps
    label = m.label()
    is_fenced = rng.random() < 0.5
    acquire = "ld.relaxed.gpu" if is_fenced else m.link("the wait is relaxed", "ld.acquire.gpu", "ld.relaxed.gpu")
    after = m.link("no fence after the wait", "fence.acq_rel.gpu;", "") if is_fenced else ""
    wait = f"{label}: {acquire}.global.u32 %y, [%w+-4]; setp.eq.u32 %q, %y, 0; @%q bra {label}; {after}"
    meets = m.link("no barrier after the wait", "bar.sync 0;", "bar.warp.sync -1;", warps > 1)
    before = m.link("no barrier before the flag", "bar.sync 0;", "bar.warp.sync -1;", warps > 1)
    store = "st.relaxed.gpu" if is_fenced else m.link("the flag is relaxed", "st.release.gpu", "st.relaxed.gpu")
    fence = m.link("no fence before the flag", "fence.acq_rel.gpu;", "") if is_fenced else ""
    skip = m.label()
    flag = f"{before} {m.only('%first', f'{fence} {store}.global.u32 [%w], 1;')}"
    sums = m.link("the flag is set before the sum", f"st.global.u32 [%gout], %x0; {flag}", f"{flag} st.global.u32 [%gout], %x0;")
    steps = [
        _PLACES.replace("{mask}", "0"),
        f"ld.global.u32 %x0, [%gin]; setp.eq.u32 %p0, %cta, 0; @%p0 bra {skip}; {m.only('%first', wait)} {meets} ld.global.u32 %x1, [%gout+{-4 * threads}]; add.u32 %x0, %x0, %x1; {skip}:",
        sums,
    ]
    return Chain(tuple(steps), warps, ctas)


def _ring(m: _Maker) -> Chain:
    """A ring of stages between groups of warps."""
    ctas = m.rng.choice((1, 1, 2, 4))
    ring = _Ring(m, ctas)
    steps = ring.text()
    return Chain(tuple(steps), ring.warps, ctas, made=(ctas * ring.rounds * ring.bytes // 4, ring.mask, ring.added))


KINDS = (
    _ring,
    _ring,
    _ring,
    _multistage,
    _staged,
    _passed,
    _passed,
    _last,
    _locked,
    _lanes,
    _cluster,
    _cluster,
    _multicast,
    _multiplied,
    _rounds,
    _summed,
)


def _written(rng: random.Random, broken: str) -> tuple[_Maker, Chain]:
    make = _Maker(rng, broken)
    kind = rng.choice(KINDS)
    chain = kind(make)
    return make, dataclasses.replace(chain, link=broken, kind=kind.__name__[1:], seed=rng.randrange(1 << 30))


def draw(rng: random.Random, broken: float = 0.7) -> Chain:
    """A chain: one with a broken link as often as `broken` says."""
    seed, breaks, which = rng.getrandbits(48), rng.random() < broken, rng.random()
    make, right = _written(random.Random(seed), "")
    if not breaks:
        return right
    return _written(random.Random(seed), make.links[int(which * len(make.links))])[1]


# ---- How they are judged


def wrong_verdict(program: Chain, found: Any) -> str:
    """What is wrong with the result of a program, in a sentence; "" for nothing."""
    if isinstance(found, str):
        return found
    left, status, findings, remarks = found
    if program.link:
        return "" if findings or remarks or status else f"no finding and no remark: {program.link}"
    codes = sorted({finding[0] for finding in findings})
    if codes or status:
        return f"a right program has the status {status} and findings: {', '.join(codes)}"
    words = np.frombuffer(left[1], np.uint32)[: program.made[0]]
    return "" if (words == program.results()).all() else "a right program leaves other words in `out`"


def _case(seed: int, chunk: int, number: int) -> Case:
    program = draw(drawn("chains", seed, chunk, number))
    wrong, found = trouble_of(program)
    wrong = wrong or wrong_verdict(program, found)
    of = f"{'wrong: ' * bool(wrong)}{program.kind}, {'a broken link' if program.link else 'right'}"
    return Case(
        of, {"kernel.ptx": program.text(), "launch.json": program.launch_file()} if wrong else {"kernel.ptx": program.text()}, wrong
    )


def _chunk(seed: int, chunk: int) -> ChunkResult:
    """A chunk. Garbage of its launches is collected rarely."""
    with seldom_collected():
        return one_by_one("chains", _case, CHUNK_CASES)(seed, chunk)


SPACE = Space("chains", "programs whose threads wait for each other correctly, or with one mistake: a right one has no finding and the right results, a mistake is reported", _chunk, CHUNK_CASES, _case)  # fmt: skip
