"""The PTX instructions that the texture probe executes, each in a kernel of its own.

A sample is 16 words. First come four coordinates as the instruction has them (bits of f32 or s32). Then come the level
of detail, three words of dPdx, three of dPdy, an unused word, and four values for stores. A result is four words.
"""

from __future__ import annotations

__all__ = ["OPS", "kernel_of", "kernels"]


_COORDINATES = {
    "1d": "{%c0}", "2d": "{%c0,%c1}", "3d": "{%c0,%c1,%c2,%c2}", "a1d": "{%i0,%c1}", "a2d": "{%i0,%c1,%c2,%c2}", "cube": "{%c0,%c1,%c2,%c2}",
    "acube": "{%i0,%c1,%c2,%c3}",
}  # fmt: skip
_GRADIENTS = {
    "1d": "{%x0},{%y0}", "2d": "{%x0,%x1},{%y0,%y1}", "3d": "{%x0,%x1,%x2,%x2},{%y0,%y1,%y2,%y2}", "a1d": "{%x0},{%y0}", "a2d": "{%x0,%x1},{%y0,%y1}",
    "cube": "{%x0,%x1,%x2,%x2},{%y0,%y1,%y2,%y2}", "acube": "{%x0,%x1,%x2,%x2},{%y0,%y1,%y2,%y2}",
}  # fmt: skip
_RESULT = "{%0,%1,%2,%3}"
_CLAMPS = ("zero", "clamp", "trap")
_SURFACES = {"1d": "{%i0}", "2d": "{%i0,%i1}", "3d": "{%i0,%i1,%i2,%i2}", "a1d": "{%i0,%i1}", "a2d": "{%i0,%i1,%i2,%i2}"}
_SHORT_END = " cvt.u32.u16 %0,%h0; cvt.u32.u16 %1,%h1; cvt.u32.u16 %2,%h2; cvt.u32.u16 %3,%h3;"
_QUERIES = (
    "width", "height", "depth", "channel_data_type", "channel_order", "normalized_coords", "array_size", "num_mipmap_levels", "num_samples",
    "filter_mode", "addr_mode_0", "addr_mode_1", "addr_mode_2",
)  # fmt: skip


def _texture_ops() -> dict[str, str]:
    ops = {}
    for geometry, at in _COORDINATES.items():
        for kind in ("f32", "u32"):
            ops[f"tex.{geometry}.{kind}"] = f"tex.{geometry}.v4.{kind}.f32 {_RESULT},[%t,{at}];"
        ops[f"tex.level.{geometry}.f32"] = f"tex.level.{geometry}.v4.f32.f32 {_RESULT},[%t,{at}],%l;"
        ops[f"tex.grad.{geometry}.f32"] = f"tex.grad.{geometry}.v4.f32.f32 {_RESULT},[%t,{at}],{_GRADIENTS[geometry]};"
    ops["tex.2d.f16"] = f"tex.2d.v4.f16.f32 {{%h0,%h1,%h2,%h3}},[%t,{_COORDINATES['2d']}];" + _SHORT_END
    for geometry in ("1d", "2d", "3d", "a1d", "a2d"):
        at = _COORDINATES[geometry].replace("c", "i")
        for kind in ("f32", "u32"):
            ops[f"tex.{geometry}.{kind}.s32"] = f"tex.{geometry}.v4.{kind}.s32 {_RESULT},[%t,{at}];"
    ops["tex.level.2d.f32.s32"] = f"tex.level.2d.v4.f32.s32 {_RESULT},[%t,{{%i0,%i1}}],%L;"
    for component in "rgba":
        for kind in ("f32", "u32"):
            ops[f"tld4.{component}.2d.{kind}"] = f"tld4.{component}.2d.v4.{kind}.f32 {_RESULT},[%t,{{%c0,%c1}}];"
    for geometry in ("a2d", "cube", "acube"):
        ops[f"tld4.r.{geometry}.f32"] = f"tld4.r.{geometry}.v4.f32.f32 {_RESULT},[%t,{_COORDINATES[geometry]}];"
    for query in _QUERIES:
        ops[f"txq.{query}"] = f"txq.{query}.b32 %0,[%t];"
    for query in ("width", "height", "depth"):
        ops[f"txq.level.{query}"] = f"txq.level.{query}.b32 %0,[%t],%L;"
    return ops


def _surface_ops() -> dict[str, str]:
    ops = {}
    for query in ("width", "height", "depth", "channel_data_type", "channel_order", "array_size", "memory_layout"):
        ops[f"suq.{query}"] = f"suq.{query}.b32 %0,[%t];"
    for clamp in _CLAMPS:
        for geometry, at in _SURFACES.items():
            ops[f"suld.{geometry}.b32.{clamp}"] = f"suld.b.{geometry}.b32.{clamp} %0,[%t,{at}];"
            ops[f"suld.{geometry}.v4.b32.{clamp}"] = f"suld.b.{geometry}.v4.b32.{clamp} {_RESULT},[%t,{at}];"
            ops[f"sust.{geometry}.b32.{clamp}"] = f"sust.b.{geometry}.b32.{clamp} [%t,{at}],%v0;"
            ops[f"sust.p.{geometry}.{clamp}"] = f"sust.p.{geometry}.v4.b32.{clamp} [%t,{at}],{{%v0,%v1,%v2,%v3}};"
        for kind in ("b8", "b16"):
            ops[f"suld.2d.{kind}.{clamp}"] = f"suld.b.2d.{kind}.{clamp} %h0,[%t,{{%i0,%i1}}];" + _SHORT_END
            ops[f"sust.2d.{kind}.{clamp}"] = f"cvt.u16.u32 %h0,%v0; sust.b.2d.{kind}.{clamp} [%t,{{%i0,%i1}}],%h0;"
        ops[f"suld.2d.v2.b32.{clamp}"] = f"suld.b.2d.v2.b32.{clamp} {{%0,%1}},[%t,{{%i0,%i1}}];"
        ops[f"sust.2d.v4.b32.{clamp}"] = f"sust.b.2d.v4.b32.{clamp} [%t,{{%i0,%i1}}],{{%v0,%v1,%v2,%v3}};"
        for do, kind in (("add", "u32"), ("min", "s32"), ("max", "u32"), ("and", "b32"), ("or", "b32")):
            ops[f"sured.b.{do}.2d.{kind}.{clamp}"] = f"sured.b.{do}.2d.{kind}.{clamp} [%t,{{%i0,%i1}}],%v0;"
        ops[f"sured.p.add.2d.b32.{clamp}"] = f"sured.p.add.2d.b32.{clamp} [%t,{{%i0,%i1}}],%v0;"
    return ops


OPS = _texture_ops() | _surface_ops()

_KERNEL = """.version 9.0
.target sm_90a
.address_size 64
.visible .entry probe(.param .u64 object, .param .u32 count, .param .u64 samples, .param .u64 results)
{
.reg .pred %p;
.reg .b32 %n<9>, %i<5>, %r<4>, %v<4>, %L;
.reg .f32 %c<4>, %x<3>, %y<3>, %l;
.reg .b16 %h<4>;
.reg .b64 %a<9>, %t;
mov.u32 %n0, %ctaid.x;
mov.u32 %n1, %ntid.x;
mov.u32 %n2, %tid.x;
mad.lo.u32 %n3, %n0, %n1, %n2;
ld.param.u32 %n4, [count];
setp.ge.u32 %p, %n3, %n4;
@%p bra end;
ld.param.u64 %t, [object];
ld.param.u64 %a0, [samples];
mul.wide.u32 %a1, %n3, 64;
add.s64 %a2, %a0, %a1;
ld.global.v4.u32 {%i0, %i1, %i2, %i3}, [%a2];
ld.global.v4.f32 {%c0, %c1, %c2, %c3}, [%a2];
ld.global.v4.f32 {%l, %x0, %x1, %x2}, [%a2+16];
ld.global.u32 %L, [%a2+16];
ld.global.v2.f32 {%y0, %y1}, [%a2+32];
ld.global.f32 %y2, [%a2+40];
ld.global.v4.u32 {%v0, %v1, %v2, %v3}, [%a2+48];
mov.u32 %r0, 0xdeadbeef;
mov.u32 %r1, 0xdeadbeef;
mov.u32 %r2, 0xdeadbeef;
mov.u32 %r3, 0xdeadbeef;
mov.u16 %h0, 0;
mov.u16 %h1, 0;
mov.u16 %h2, 0;
mov.u16 %h3, 0;
STATEMENT
ld.param.u64 %a3, [results];
mul.wide.u32 %a4, %n3, 16;
add.s64 %a5, %a3, %a4;
st.global.v4.u32 [%a5], {%r0, %r1, %r2, %r3};
end:
ret;
}
"""


def kernel_of(op: str) -> str:
    """The PTX of the kernel that executes an instruction for each sample."""
    text = OPS[op]
    for n in range(4):
        text = text.replace(f"%{n}", f"%r{n}")
    return _KERNEL.replace("STATEMENT", text)


def kernels() -> bytes:
    """All kernels, each ended by a zero byte, as the probe reads them."""
    return b"".join(kernel_of(op).encode() + b"\0" for op in OPS)
