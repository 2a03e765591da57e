"""The instructions of random concurrent programs: a table of forms with weights.

A form is one instruction, or a few that belong together. A word in angle brackets is drawn (`Operands` of
`concurrent.py`).
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["FAMILIES", "Family", "Form"]


class Form(NamedTuple):
    """A form, and how often it is drawn in its family.

    `is_open`: what it leaves may depend on the order of threads, although no finding says so. Deterministic programs
    have no such form.
    """

    weight: float
    text: str
    is_open: bool = False

    @property
    def needs_cluster(self) -> bool:
        """Does it need a cluster of several CTAs?"""
        return "%peer" in self.text or "barrier.cluster" in self.text or "<rank" in self.text

    @property
    def needs_mbarriers(self) -> bool:
        """Does it name an mbarrier?"""
        return "<bar>" in self.text or "%peerbars" in self.text or "%state" in self.text


class Family(NamedTuple):
    """Forms of one purpose: how often a program has one of them, and how often a predicate guards it."""

    weight: float
    guarded: float
    forms: tuple[Form, ...]


# Words of registers:
# - <value>, <wide> and <half> have 32, 64 and 16 bits. <two> and <four> are vectors of 32 bits.
# - <result>, <wide_result> and <half_result> receive the results of atomics and of strong loads.
# - <truth> is a predicate, <written_truth> one that may be overwritten.
# - <leader> is a guard of one thread, or of one thread of each warp.
# Words of addresses, with the bytes of the access (4 if there is no number):
# - In <slot>, <slot8> and <slot16> (shared memory), <cell>, <cell8> and <cell16> (global), each thread has its own.
# - <shared>, <shared8>, <shared16>, <word>, <word8> and <word16> may also be one address for many threads.
# - <sum8>, <global_sum8> and <global_sum2> are for atomics of 64 and 16 bits.
# - <common> is a word of all threads, <block> the place of a bulk copy, <box> that of a tensor copy.
# - <bar> is an mbarrier.
# Other words:
# - <operation>, <operation64>, <bulk_operation> and <tensor_operation> are those of atomics and of copies that add.
# - <ordered>, <released> and <acquired> are the semantics of an atomic, a reduction and a wait. <scope> is a scope.
# - <threads> is the number of threads of the CTA, <some_threads> a smaller one.
# - <size> is the bytes of a copy, <count> an arrival count, <parity> a parity, <mask> a mask of lanes.
# - <rank> is a rank in the cluster, <ranks> the mask of all ranks, <label> a label.

_EXPECTING = "mbarrier.arrive.expect_tx.shared.b64 _, [<bar>], <size>;"
_BULK = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
_TENSOR = "cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
_REMOTE = "shared::cluster.mbarrier::complete_tx::bytes"
_COMMIT = "cp.async.bulk.commit_group;"

FAMILIES: dict[str, Family] = {
    "store to shared memory": Family(9, 0.35, (
        Form(5, "st.shared.u32 [<slot>], <value>;"),
        Form(2, "st.shared.u16 [<slot>], <value>;"),
        Form(2, "st.shared.u8 [<slot>], <value>;"),
        Form(0.5, "st.shared.b64 [<slot8>], <wide>;"),
        Form(0.5, "st.shared.v2.b32 [<slot8>], <two>;"),
        Form(0.5, "st.shared.v4.b32 [<slot16>], <four>;"),
        Form(0.4, "st.volatile.shared.u32 [<slot>], <value>;"),
        Form(0.4, "st.relaxed.<scope>.shared.u32 [<slot>], <value>;"),
        Form(0.4, "st.release.<scope>.shared.u32 [<slot>], <value>;"),
        Form(2, "@%p0 st.shared.u32 [<common>], <value>;"),
        Form(0.7, "@%p0 st.shared.v2.u32 [<block>], <two>;"),
        Form(0.7, "@%p0 st.shared.v4.u32 [<block>], <four>;"),
        Form(2, "st.shared.u32 [<common>], <value>;", is_open=True),
        Form(0.5, "st.shared.v4.u32 [<block>], <four>;", is_open=True),
    )),
    "load from shared memory": Family(10, 0.35, (
        Form(9, "ld.shared.u32 <value>, [<shared>];"),
        Form(0.5, "ld.shared.u16 <value>, [<shared>];"),
        Form(0.5, "ld.shared.s8 <value>, [<shared>];"),
        Form(0.5, "ld.shared.b64 <wide>, [<shared8>];"),
        Form(0.5, "ld.shared.v2.b32 <two>, [<shared8>];"),
        Form(0.7, "ld.shared.v4.b32 <four>, [<shared16>];"),
        Form(0.5, "ld.volatile.shared.u32 <result>, [<shared>];"),
        Form(0.5, "ld.relaxed.<scope>.shared.u32 <result>, [<shared>];"),
        Form(0.5, "ld.acquire.<scope>.shared.u32 <result>, [<shared>];"),
    )),
    "store to global memory": Family(8, 0.35, (
        Form(6, "st.global.u32 [<cell>], <value>;"),
        Form(0.4, "st.volatile.global.u32 [<cell>], <value>;"),
        Form(0.4, "st.relaxed.<scope>.global.u32 [<cell>], <value>;"),
        Form(0.4, "st.release.<scope>.global.u32 [<cell>], <value>;"),
        Form(0.5, "st.global.u16 [<cell>], <value>;"),
        Form(0.5, "st.global.u8 [<cell>], <value>;"),
        Form(0.5, "st.global.b64 [<cell8>], <wide>;"),
        Form(0.5, "st.global.v4.b32 [<cell16>], <four>;"),
        Form(1.5, "@%p0 st.global.u32 [%flag], <value>;"),
        Form(0.5, "@%p0 st.release.<scope>.global.u32 [%flag], <value>;", is_open=True),
        Form(0.3, "@%p0 st.relaxed.<scope>.global.u32 [%flag], <value>;", is_open=True),
        Form(1.5, "st.global.u32 [<word>], <value>;", is_open=True),
        Form(0.5, "st.release.<scope>.global.u32 [<word>], <value>;", is_open=True),
    )),
    "load from global memory": Family(8, 0.35, (
        Form(6, "ld.global.u32 <value>, [<word>];"),
        Form(0.5, "ld.volatile.global.u32 <result>, [<word>];"),
        Form(0.5, "ld.relaxed.<scope>.global.u32 <result>, [<word>];"),
        Form(0.5, "ld.acquire.<scope>.global.u32 <result>, [<word>];"),
        Form(0.4, "ld.global.s16 <value>, [<word>];"),
        Form(0.4, "ld.global.b64 <wide>, [<word8>];"),
        Form(0.4, "ld.global.v2.b32 <two>, [<word8>];"),
        Form(0.4, "ld.global.v4.b32 <four>, [<word16>];"),
    )),
    "load of the input": Family(3, 0.35, (
        Form(2, "ld.global.u32 <value>, [%in];"),
        Form(1.5, "ld.global.nc.u32 <value>, [%in];"),
        Form(0.5, "ld.global.nc.L1::no_allocate.v4.b32 <four>, [%inrow];"),
    )),
    "atomic": Family(6, 0.35, (
        Form(2.4, "atom<ordered>.global.<operation> <result>, [<word>], <value>;"),
        Form(1.6, "atom<ordered>.shared.<operation> <result>, [<shared>], <value>;"),
        Form(1.5, "red<released>.global.<operation> [<word>], <value>;"),
        Form(1, "red<released>.shared.<operation> [<shared>], <value>;"),
        Form(0.4, "atom<ordered>.global.<operation64> <wide_result>, [<global_sum8>], <wide>;"),
        Form(0.3, "atom<ordered>.shared.<operation64> <wide_result>, [<sum8>], <wide>;"),
        Form(0.3, "red<released>.global.<operation64> [<global_sum8>], <wide>;"),
        Form(0.3, "atom<ordered>.global.add.noftz.f16 <half_result>, [<global_sum2>], <half>;"),
        Form(0.3, "red<released>.global.add.noftz.f16 [<global_sum2>], <half>;"),
        Form(0.3, "atom<ordered>.shared.cas.b16 <half_result>, [<shared>], <half>, <half>;", is_open=True),
        Form(0.3, "red<released>.global.add.noftz.bf16x2 [<word>], <value>;", is_open=True),
        Form(0.5, "atom<ordered>.global.exch.b32 <result>, [<word>], <value>;", is_open=True),
        Form(0.3, "atom<ordered>.shared.exch.b64 <wide_result>, [<sum8>], <wide>;", is_open=True),
        Form(0.5, "atom<ordered>.global.cas.b32 <result>, [<word>], <value>, <value>;", is_open=True),
        Form(0.5, "atom<ordered>.shared.cas.b32 <result>, [<shared>], <value>, <value>;", is_open=True),
        Form(0.3, "atom<ordered>.global.cas.b64 <wide_result>, [<global_sum8>], <wide>, <wide>;", is_open=True),
        Form(0.4, "atom<ordered>.global.inc.u32 <result>, [<word>], <value>;", is_open=True),
        Form(0.4, "atom<ordered>.shared.dec.u32 <result>, [<shared>], <value>;", is_open=True),
        Form(0.3, "red.global.add.f32 [<word>], <value>;", is_open=True),
        Form(0.3, "red.global.v2.f32.add [<word8>], <two>;", is_open=True),
    )),
    "fence": Family(5, 0.2, (
        Form(1, "fence.acq_rel.<scope>;"),
        Form(1, "fence.acq_rel.<scope>;"),
        Form(1, "fence.sc.<scope>;"),
        Form(0.5, "fence.acquire.<scope>;"),
        Form(0.5, "fence.release.<scope>;"),
        Form(1, "membar.gl;"),
        Form(1, "membar.cta;"),
        Form(1, "fence.proxy.async;"),
        Form(1, "fence.proxy.async.shared::cta;"),
        Form(0.3, "fence.proxy.async.shared::cluster;"),
        Form(1, "fence.proxy.async.global;"),
        Form(0.3, "fence.proxy.alias;"),
        Form(0.3, "fence.proxy.tensormap::generic.release.gpu;"),
        Form(0.3, "fence.acquire.sync_restrict::shared::cluster.cluster;"),
        Form(0.3, "fence.release.sync_restrict::shared::cta.cluster;"),
        Form(0.3, "fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster;"),
        Form(0.3, "fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster;"),
        Form(1, "fence.mbarrier_init.release.cluster;"),
    )),
    "barrier": Family(7, 0.08, (
        Form(4, "bar.sync 0;"),
        Form(1, "barrier.sync 0;"),
        Form(1, "bar.sync 0, <threads>;"),
        Form(1, "bar.red.popc.u32 <value>, 0, <truth>;"),
        Form(0.5, "bar.red.or.pred %p8, 0, <truth>;"),
        Form(0.5, "barrier.cta.sync.aligned 0, <threads>;"),
    )),
    "named barrier": Family(2, 0.3, (
        Form(1, "bar.sync 1, <some_threads>;"),
        Form(1, "bar.arrive 1, <threads>;"),
        Form(1, "bar.sync 1, <threads>;"),
        Form(1, "bar.sync 2, 32;"),
        Form(0.5, "barrier.arrive 3, <threads>;"),
        Form(0.5, "barrier.sync 3, <threads>;"),
    )),
    "arrival": Family(5, 0.5, (
        Form(1, "mbarrier.arrive.shared.b64 %state, [<bar>];"),
        Form(1, "mbarrier.arrive.shared.b64 _, [<bar>], 2;"),
        Form(1, "mbarrier.arrive.expect_tx.shared.b64 _, [<bar>], 64;"),
        Form(1, "mbarrier.arrive.release.cluster.shared::cta.b64 _, [<bar>];"),
        Form(0.3, "mbarrier.arrive.relaxed.cta.shared::cta.b64 _, [<bar>];"),
        Form(0.3, "mbarrier.arrive.noComplete.shared.b64 %state, [<bar>], 1;"),
        Form(1, "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [<bar>], 64;"),
        Form(0.3, "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [<bar>], 64;"),
        Form(1, "mbarrier.arrive_drop.shared.b64 %state, [<bar>];"),
        Form(1, "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%peerbars];"),
        Form(0.5, "@%p0 mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%peerbars], 4;"),
    )),
    "wait at an mbarrier": Family(6, 0.2, (
        Form(4, "<label>: mbarrier.try_wait.parity<acquired>.shared::cta.b64 %done, [<bar>], <parity>; @!%done bra <label>;"),
        Form(2, "<label>: mbarrier.test_wait.parity<acquired>.shared::cta.b64 %done, [<bar>], <parity>; @!%done bra <label>;"),
        Form(1, "<label>: mbarrier.try_wait.parity<acquired>.shared::cta.b64 %done, [<bar>], <parity>, 0x4000; @!%done bra <label>;"),
        Form(1, "mbarrier.test_wait.parity<acquired>.shared::cta.b64 %done, [<bar>], <parity>;"),
        Form(0.5, "mbarrier.arrive.shared.b64 %state, [<bar>]; <label>: mbarrier.try_wait.shared.b64 %done, [<bar>], %state; @!%done bra <label>;"),
    )),
    "mbarrier begins or ends": Family(1, 0.8, (
        Form(1, "mbarrier.inval.shared.b64 [<bar>];"),
        Form(1, "mbarrier.init.shared.b64 [<bar>], <count>;"),
        Form(1, "mbarrier.pending_count.b64 <result>, %state;"),
    )),
    "cp.async": Family(3, 0.35, (
        Form(1, "cp.async.ca.shared.global [<slot>], [%in], 4;"),
        Form(1.5, "cp.async.ca.shared.global [<slot>], [%in], 4; cp.async.commit_group;"),
        Form(0.7, "cp.async.ca.shared.global [<slot>], [%in], 4, 2; cp.async.commit_group;"),
        Form(0.3, "cp.async.ca.shared.global [<slot8>], [%inrow], 8; cp.async.commit_group;"),
        Form(0.5, "cp.async.cg.shared.global [<slot16>], [%inrow], 16; cp.async.commit_group;"),
    )),
    "wait for cp.async": Family(3, 0.15, (
        Form(1, "cp.async.commit_group;"),
        Form(1, "cp.async.wait_group 0;"),
        Form(1, "cp.async.wait_group 1;"),
        Form(1, "cp.async.wait_all;"),
        Form(1, "cp.async.mbarrier.arrive.shared.b64 [<bar>];"),
        Form(1, "cp.async.mbarrier.arrive.noinc.shared.b64 [<bar>];"),
    )),
    "bulk copy": Family(4, 0, (
        Form(3, f"@%p0 {_BULK} [<block>], [%input], <size>, [<bar>];"),
        Form(2, f"@!%p0 bra <label>; {_EXPECTING} {_BULK} [<block>], [%input], <size>, [<bar>]; <label>:"),
        Form(0.5, "@%p0 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [<block>], [%input], <size>, [<bar>];"),
        Form(1, f"@%p0 {_TENSOR} [<box>], [%map, {{<value>}}], [<bar>];"),
        Form(1, f"@!%p0 bra <label>; mbarrier.arrive.expect_tx.shared.b64 _, [<bar>], 64; {_TENSOR} [<box>], [%map, {{<value>}}], [<bar>]; <label>:"),
        Form(1, "@%p0 cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%peer], [%tile], 64, [%peerbars];"),
        Form(0.5, f"@%p0 {_BULK}.multicast::cluster [<block>], [%input], <size>, [<bar>], <ranks>;"),
    )),
    "bulk store": Family(2, 0, (
        Form(2, f"<leader> cp.async.bulk.global.shared::cta.bulk_group [%output], [%tile], 64; {_COMMIT}"),
        Form(2, f"<leader> cp.async.bulk.global.shared::cta.bulk_group [%output+256], [%tile+64], 64; <leader> {_COMMIT}"),
        Form(2, f"<leader> cp.reduce.async.bulk.global.shared::cta.bulk_group.<bulk_operation> [%output], [%tile], 64; {_COMMIT}"),
        Form(1, f"@%p0 cp.async.bulk.tensor.1d.global.shared::cta.tile.bulk_group [%outmap, {{<value>}}], [<box>]; {_COMMIT}"),
        Form(0.5, f"@%p0 cp.reduce.async.bulk.tensor.1d.global.shared::cta.<tensor_operation>.tile.bulk_group [%outmap, {{<value>}}], [<box>]; {_COMMIT}"),
        Form(1, f"<leader> cp.async.bulk.prefetch.L2.global [%input], 64; {_COMMIT}"),
        Form(0.3, "@%p0 cp.async.bulk.prefetch.tensor.1d.L2.global.tile [%map, {<value>}];"),
    )),
    "wait for bulk stores": Family(3, 0.3, (
        Form(1, "cp.async.bulk.commit_group;"),
        Form(1, "cp.async.bulk.wait_group 0;"),
        Form(1, "cp.async.bulk.wait_group.read 0;"),
        Form(1, "cp.async.bulk.wait_group 1;"),
    )),
    "warp": Family(3, 0.1, (
        Form(1, "bar.warp.sync -1;"),
        Form(1, "bar.warp.sync <mask>;"),
        Form(1, "shfl.sync.bfly.b32 <value>, <value>, 1, 31, -1;"),
        Form(1, "shfl.sync.idx.b32 <value>, <value>, 0, 31, -1;"),
        Form(0.5, "shfl.sync.up.b32 <value>, <value>, 2, 0, -1;"),
        Form(1, "vote.sync.ballot.b32 <value>, <truth>, -1;"),
        Form(0.5, "vote.sync.any.pred %p7, <truth>, -1;"),
        Form(1, "match.any.sync.b32 <value>, %lane, -1;"),
        Form(1, "redux.sync.add.u32 <value>, <value>, -1;"),
        Form(1, "activemask.b32 <result>;"),
        Form(1, "elect.sync _|%p8, -1;"),
        Form(0.5, "elect.sync _|%p8, -1; @%p8 st.shared.u32 [<slot>], <value>;"),
    )),
    "cluster barrier": Family(3, 0.1, (
        Form(3, "barrier.cluster.arrive; barrier.cluster.wait;"),
        Form(1, "barrier.cluster.arrive.release; barrier.cluster.wait.acquire;"),
        Form(1, "barrier.cluster.arrive.relaxed;"),
        Form(1, "barrier.cluster.arrive.release;"),
        Form(1, "barrier.cluster.wait.acquire;"),
        Form(1, "barrier.cluster.wait;"),
    )),
    "shared memory of another CTA": Family(4, 0.35, (
        Form(1, "st.shared::cluster.u32 [%peer], <value>;"),
        Form(1, "ld.shared::cluster.u32 <value>, [%peer];"),
        Form(1, "ld.relaxed.cluster.shared::cluster.u32 <result>, [%peer];"),
        Form(0.5, "st.release.cluster.shared::cluster.u32 [%peer], <value>;"),
        Form(1, "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%peer], <value>, [%peerbars];"),
        Form(0.3, f"st.async.{_REMOTE}.b64 [%peer8], <wide>, [%peerbars];"),
        Form(0.3, f"st.async.{_REMOTE}.v4.b32 [%peer16], <four>, [%peerbars];"),
        Form(1, "atom.acq_rel.cluster.shared::cluster.<operation> <result>, [%peer], <value>;"),
        Form(1, f"red.async.relaxed.cluster.{_REMOTE}.<bulk_operation> [%peer], <value>, [%peerbars];"),
        Form(0.5, "mapa.shared::cluster.u32 %y, %own, <rank>; ld.shared::cluster.u32 <value>, [%y];"),
        Form(0.3, "mapa.shared::cluster.u32 %peer, %own, <rank>; mapa.shared::cluster.u32 %peerbars, %bars, <rank>;"),
        Form(0.3, "getctarank.shared::cluster.u32 <value>, %peer;"),
    )),
    "arithmetic": Family(3, 0.35, (
        Form(1, "add.u32 <value>, <value>, <value>;"),
        Form(1, "mov.u32 <value>, <value>;"),
        Form(1, "and.b32 <value>, <value>, 15;"),
        Form(1, "selp.u32 <value>, <value>, <value>, <truth>;"),
        Form(1, "setp.lt.u32 <written_truth>, <value>, <value>;"),
        Form(0.5, "add.u64 <wide>, <wide>, <wide>;"),
        Form(0.3, "cvt.u64.u32 <wide>, <value>;"),
        Form(0.3, "nanosleep.u32 64;"),
    )),
}  # fmt: skip
