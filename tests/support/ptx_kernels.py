"""Small PTX kernels for the tests of the executor."""

from __future__ import annotations

__all__ = ["dump", "kernel", "wait"]


def kernel(body: str, *parameters: str, shared: int = 0, arch: str = "sm_90a", name: str = "k") -> str:
    """A module with one entry. Parameters are written as in PTX, without .param; shared memory is `smem`."""
    listed = ", ".join(f".param {p}" for p in parameters)
    memory = f".shared .align 1024 .b8 smem[{shared}];" if shared else ""
    return f"""
.version 8.8
.target {arch}
.address_size 64
.visible .entry {name}({listed})
{{
    .reg .b16 %h<8>;
    .reg .b32 %r<200>;
    .reg .b64 %rd<40>;
    .reg .f64 %fd<40>;
    .reg .pred %p<8>;
    {memory}
{body}
    ret;
}}
"""


def wait(barrier: str, parity: int = 0, label: str = "WAIT") -> str:
    """Wait for a phase of the mbarrier whose shared address is in a register."""
    return f"""
{label}:
    mbarrier.try_wait.parity.shared::cta.b64 %p7, [{barrier}], {parity};
    @!%p7 bra {label};
"""


def dump(pointer: str, size: int, threads: int = 32) -> str:
    """All threads of a CTA copy `size` bytes of smem to the array at a 64-bit register, CTA after CTA."""
    return f"""
    bar.sync 0;
    mov.u32 %r190, %tid.x;
    mov.u32 %r191, smem;
    mov.u32 %r192, %ctaid.x;
    mul.lo.u32 %r192, %r192, {size};
    shl.b32 %r190, %r190, 2;
DUMP:
    add.u32 %r193, %r191, %r190;
    ld.shared.b32 %r194, [%r193];
    add.u32 %r195, %r192, %r190;
    mul.wide.u32 %rd39, %r195, 1;
    add.u64 %rd39, %rd39, {pointer};
    st.global.b32 [%rd39], %r194;
    add.u32 %r190, %r190, {4 * threads};
    setp.lt.u32 %p6, %r190, {size};
    @%p6 bra DUMP;
"""
