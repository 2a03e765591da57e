"""A kernel that only moves tensors: PTX text, so that recording needs no compiler. It fills shared memory, loads, waits, stores, and dumps."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["BARRIER_BYTES", "FILL", "KERNEL_NAME", "MOST_STEPS", "load_kernel"]

FILL = 0xA5  # what shared memory holds before the first load
KERNEL_NAME = "smemsim_load_kernel"
BARRIER_BYTES = 16  # behind the dump: the mbarrier, and what keeps its neighbours apart
MOST_STEPS = 16  # the parameters of a kernel take 4 KiB
PATIENCE = 20_000_000  # cycles; a load takes some thousand

PTX_VERSIONS = {"sm_90a": "8.0", "sm_100a": "8.6", "sm_103a": "8.8"}  # the first that has the target: PTX ISA, release notes

HEAD = """.version {version}
.target {arch}
.address_size 64

.extern .shared .align 1024 .b8 window[];

.visible .entry {name}(
    .param .u64 dump, .param .u64 completed, .param .u32 begin, .param .u32 bytes, .param .u32 barrier, .param .u32 expect{parameters})
{{
    .reg .pred %p<4>;
    .reg .b32 %r<16>;
    .reg .b32 %c<5>;
    .reg .b16 %h<4>;
    .reg .b64 %d<12>;
    ld.param.u64 %d0, [dump];
    ld.param.u64 %d1, [completed];
    ld.param.u32 %r0, [begin];
    ld.param.u32 %r1, [bytes];
    ld.param.u32 %r2, [barrier];
    ld.param.u32 %r3, [expect];
    cvta.to.global.u64 %d0, %d0;
    cvta.to.global.u64 %d1, %d1;
    mov.u32 %r4, %tid.x;
    mov.u32 %r5, %ntid.x;
    shl.b32 %r6, %r4, 2;
    shl.b32 %r7, %r5, 2;
    mov.u32 %r8, {fill:#010x};
    mov.u32 %r9, %r6;
fill:
    setp.ge.u32 %p0, %r9, %r1;
    @%p0 bra filled;
    add.u32 %r10, %r0, %r9;
    st.shared.u32 [%r10], %r8;
    add.u32 %r9, %r9, %r7;
    bra fill;
filled:
    setp.ne.u32 %p1, %r4, 0;
    @%p1 bra ready;
    mbarrier.init.shared::cta.b64 [%r2], 1;
    fence.mbarrier_init.release.cluster;
ready:
    fence.proxy.async.shared::cta;
    bar.sync 0;
    @%p1 bra moved;
    mbarrier.arrive.expect_tx.shared::cta.b64 %d2, [%r2], %r3;
"""
WAIT = """    mov.u64 %d3, %clock64;
wait:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0;
    @%p2 bra arrived;
    mov.u64 %d4, %clock64;
    sub.u64 %d4, %d4, %d3;
    setp.lt.u64 %p3, %d4, {patience};
    @%p3 bra wait;
    bra moved;
arrived:
    mov.u32 %r11, 1;
    st.global.u32 [%d1], %r11;
"""
TAIL = """moved:
    bar.sync 0;
    mov.u32 %r9, %r6;
copy:
    setp.ge.u32 %p0, %r9, %r1;
    @%p0 bra copied;
    add.u32 %r10, %r0, %r9;
    ld.shared.u32 %r12, [%r10];
    cvt.u64.u32 %d5, %r9;
    add.u64 %d6, %d0, %d5;
    st.global.u32 [%d6], %r12;
    add.u32 %r9, %r9, %r7;
    bra copy;
copied:
    ret;
}
"""


def load_kernel(arch: str, maps: int, steps: Sequence[tuple[str, str, int, int]]) -> str:
    """The PTX text of a kernel with `maps` tensor maps that makes `steps`: ("load" or "store", mode, rank, number of the map).

    Parameters: dump, a word that becomes 1 when the loads have arrived, first shared address of the dump, its bytes, the barrier's address, the
    bytes it expects; the maps by value; of every step its shared address, its coordinates, and the im2col offsets of loads, 32 bits each. All
    loads come before the first store.

    >>> [line.strip() for line in load_kernel("sm_90a", 1, [("load", "tile", 2, 0)]).splitlines() if "bulk" in line]
    ['cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r13], [%d7, {%c0, %c1}], [%r2];']
    """
    parameters = "".join(f",\n    .param .align 64 .b8 map{i}[128]" for i in range(maps))
    body, waited = "", False
    for number, (what, mode, rank, of) in enumerate(steps):
        offsets = rank - 2 if mode == "im2col" else 0
        names = [f"step{number}_{i}" for i in range(1 + rank + offsets)]
        parameters += "".join(f",\n    .param .u32 {name}" for name in names)
        registers = ["%r13", *(f"%c{i}" for i in range(rank))]
        if what == "store" and not waited:
            body, waited = body + WAIT.format(patience=PATIENCE), True
        body += "".join(f"    ld.param.u32 {register}, [{name}];\n" for register, name in zip(registers, names, strict=False))
        for i in range(offsets):
            body += f"    ld.param.u32 %r14, [{names[1 + rank + i]}];\n    cvt.u16.u32 %h{i}, %r14;\n"
        body += f"    mov.b64 %d7, map{of};\n    cvta.param.u64 %d7, %d7;\n"
        place = f"[%d7, {{{', '.join(registers[1:])}}}]"
        if what == "store":
            body += f"    cp.async.bulk.tensor.{rank}d.global.shared::cta.{mode}.bulk_group {place}, [%r13];\n"
            body += "    cp.async.bulk.commit_group;\n    cp.async.bulk.wait_group 0;\n"
        else:
            also = f", {{{', '.join(f'%h{i}' for i in range(offsets))}}}" if offsets else ""
            body += f"    cp.async.bulk.tensor.{rank}d.shared::cluster.global.{mode}.mbarrier::complete_tx::bytes [%r13], {place}, [%r2]{also};\n"
    if not waited:
        body += WAIT.format(patience=PATIENCE)
    head = HEAD.format(version=PTX_VERSIONS[arch], arch=arch, name=KERNEL_NAME, parameters=parameters, fill=FILL * 0x01010101)
    return head + body + TAIL
