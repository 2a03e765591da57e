"""The probes of single memory accesses: one PTX kernel for each form of an access, one warp, the addresses from
a table in the parameters.

Nothing else of such a kernel touches shared, global or local memory, so that every wavefront and sector
that Nsight Compute counts belongs to the access. The store at the end has a predicate that never holds;
it keeps what was loaded alive.
"""

from __future__ import annotations

import dataclasses

__all__ = ["FORMS", "TABLE_BYTES", "WINDOW", "Form", "text"]

WINDOW = 16384  # bytes of shared memory that addresses come from, and of the global array
TABLE_BYTES = 288  # 32 shared offsets, 32 global offsets, the mask of active lanes, 7 further words
_REGISTER = {8: "%h", 16: "%h", 32: "%r", 64: "%d"}
_CLUSTERED = "mapa.shared::cluster.u32 %far, %sa, 1;\n"


@dataclasses.dataclass(frozen=True)
class Form:
    """One way to access memory: `family` is the rule that counts it, `size` the bytes of a lane, `drawn` which
    addresses vary (s shared, g global).
    """

    name: str
    family: str
    size: int
    drawn: str
    body: str
    cases: int = 24
    ctas: int = 1
    threads: int = 32
    has_map: bool = False


def _vector(names: list[str]) -> str:
    return names[0] if len(names) == 1 else "{" + ", ".join(names) + "}"


def _fold(names: list[str], bits: int) -> str:
    """Every loaded register goes into the accumulator."""
    out = ""
    for name in names:
        if bits <= 16:
            out += f"cvt.u32.u16 %t, {name}; xor.b32 %acc, %acc, %t;\n"
        elif bits == 32:
            out += f"xor.b32 %acc, %acc, {name};\n"
        else:
            out += f"cvt.u32.u64 %t, {name}; xor.b32 %acc, %acc, %t; shr.u64 {name}, {name}, 32; cvt.u32.u64 %t, {name}; xor.b32 %acc, %acc, %t;\n"
    return out


def _zero(names: list[str], bits: int) -> str:
    return "".join(f"mov.b{max(bits, 16)} {name}, 0;\n" for name in names)


def _load(what: str, bits: int, count: int, address: str) -> str:
    names = [f"{_REGISTER[bits]}{20 + k}" for k in range(count)]
    vector = f".v{count}" if count > 1 else ""
    return _zero(names, bits) + f"@%p {what}{vector}.b{bits} {_vector(names)}, [{address}];\n" + _fold(names, bits)


def _store(what: str, bits: int, count: int, address: str) -> str:
    value = {8: "%h1", 16: "%h1", 32: "%lane", 64: "%d1"}[bits]
    vector = f".v{count}" if count > 1 else ""
    return f"@%p {what}{vector}.b{bits} [{address}], {_vector([value] * count)};\n"


_WIDTHS = ((8, 1), (16, 1), (32, 1), (64, 1), (8, 2), (8, 4), (16, 2), (16, 4), (32, 2), (32, 4), (64, 2))


def _plain(
    space: str, address: str, drawn: str, widths: tuple[tuple[int, int], ...], cases: int, family: str = "", ctas: int = 1, head: str = ""
) -> list[Form]:
    out = []
    for bits, count in widths:
        vector = f".v{count}" if count > 1 else ""
        size = bits * count // 8
        most = 2 * cases if size >= 8 and drawn == "s" and ctas == 1 else cases
        out.append(
            Form(f"ld.{space}{vector}.b{bits}", family or "ld", size, drawn, head + _load(f"ld.{space}", bits, count, address), most, ctas)
        )
        out.append(
            Form(
                f"st.{space}{vector}.b{bits}", family or "st", size, drawn, head + _store(f"st.{space}", bits, count, address), cases, ctas
            )
        )
    return out


def _matrices() -> list[Form]:
    out = []
    for count in (1, 2, 4):
        names = [f"%r{20 + k}" for k in range(count)]
        for trans in ("", ".trans"):
            head = f"m8n8.x{count}{trans}.shared.b16"
            out.append(
                Form(
                    f"ldmatrix.{head}",
                    "ldmatrix",
                    16,
                    "s",
                    _zero(names, 32) + f"ldmatrix.sync.aligned.{head} {{{', '.join(names)}}}, [%sa];\n" + _fold(names, 32),
                )
            )
            out.append(
                Form(f"stmatrix.{head}", "stmatrix", 16, "s", f"stmatrix.sync.aligned.{head} [%sa], {{{', '.join(['%lane'] * count)}}};\n")
            )
    return out


_ATOMICS = (
    ("add.u32", 32, "%r"), ("inc.u32", 32, "%r"), ("dec.u32", 32, "%r"), ("min.u32", 32, "%r"), ("max.s32", 32, "%r"), ("and.b32", 32, "%r"),
    ("or.b32", 32, "%r"), ("xor.b32", 32, "%r"), ("exch.b32", 32, "%r"), ("add.f32", 32, "%f"), ("add.u64", 64, "%d"), ("max.u64", 64, "%d"),
    ("and.b64", 64, "%d"), ("exch.b64", 64, "%d"), ("add.f64", 64, "%x"), ("add.noftz.f16x2", 32, "%r"),
)  # fmt: skip
_LOOPS = (
    "add.f32",
    "add.u64",
    "max.u64",
    "and.b64",
    "add.f64",
    "add.noftz.f16x2",
)  # of shared memory ptxas makes these of loads and compare-and-swap
_ATOM_VALUE = {"%r": "%lane", "%d": "%d1", "%f": "%f1", "%x": "%x1"}
_ATOM_FOLD = {
    "%r": "xor.b32 %acc, %acc, %r20;\n", "%d": _fold(["%d20"], 64), "%f": "mov.b32 %r20, %f20; xor.b32 %acc, %acc, %r20;\n",
    "%x": "mov.b64 %d20, %x20;\n" + _fold(["%d20"], 64),
}  # fmt: skip
_ATOM_ZERO = {
    "%r": "mov.b32 %r20, 0;\n",
    "%d": "mov.b64 %d20, 0;\n",
    "%f": "mov.f32 %f20, 0f00000000;\n",
    "%x": "mov.f64 %x20, 0d0000000000000000;\n",
}


def _atomics(space: str, address: str, drawn: str, cases: int, *, ctas: int = 1, family: str = "", head: str = "") -> list[Form]:
    out = []
    for op, bits, r in _ATOMICS:
        if ctas > 1 and op not in ("add.u32", "exch.b32", "max.u64", "add.u64"):
            continue
        size, value = bits // 8, _ATOM_VALUE[r]
        is_loop = space == "shared" and op in _LOOPS
        family_, cases_ = ("cas_loop", 3) if is_loop else (family, cases)
        body = head + _ATOM_ZERO[r] + f"@%p atom.{space}.{op} {r}20, [{address}], {value};\n" + _ATOM_FOLD[r]
        out.append(Form(f"atom.{space}.{op}", family_ or "atom", size, drawn, body, cases_, ctas))
        if not op.startswith("exch"):
            out.append(
                Form(
                    f"red.{space}.{op}", family_ or "red", size, drawn, head + f"@%p red.{space}.{op} [{address}], {value};\n", cases_, ctas
                )
            )
    if ctas > 1:
        return out
    for bits, r in ((32, "%r"), (64, "%d")):
        value = _ATOM_VALUE[r]
        body = _ATOM_ZERO[r] + f"@%p atom.{space}.cas.b{bits} {r}20, [{address}], {value}, 7;\n" + _ATOM_FOLD[r]
        out.append(Form(f"atom.{space}.cas.b{bits}", "atom", bits // 8, drawn, body, cases))
    wide = "{ .reg .b128 %w, %v, %u; mov.b128 %w, {%d1, %d1}; mov.b128 %v, {%d1, %d1};\n"
    for op, rest in (("exch", ""), ("cas", ", %w")):
        body = (
            f"{wide}mov.b64 %d20, 0; mov.b64 %d21, 0; mov.b128 %u, {{%d20, %d21}};\n@%p atom.{space}.{op}.b128 %u, [{address}], %v{rest};\n"
        )
        body += "mov.b128 {%d20, %d21}, %u; }\n" + _fold(["%d20", "%d21"], 64)
        out.append(Form(f"atom.{space}.{op}.b128", "atom", 16, drawn, body, cases))
    out.append(Form(f"red.{space}.add.u32.one", "red", 4, drawn, f"@%p red.{space}.add.u32 [{address}], 1;\n", cases))
    out.append(
        Form(
            f"atom.{space}.add.u32.one",
            "atom",
            4,
            drawn,
            f"mov.b32 %r20, 0;\n@%p atom.{space}.add.u32 %r20, [{address}], 1;\n" + _ATOM_FOLD["%r"],
            cases,
        )
    )
    return out


def _copies() -> list[Form]:
    out = []
    for how, size, cases in (("ca", 4, 80), ("ca", 8, 80), ("ca", 16, 80), ("cg", 16, 96)):
        out.append(
            Form(
                f"cp.async.{how}.{size}",
                "cp.async",
                size,
                "sg",
                f"@%p cp.async.{how}.shared.global [%sa], [%ga], {size};\ncp.async.wait_all;\n",
                cases,
            )
        )
    out.append(
        Form(
            "cp.async.cg.16.zfill",
            "cp.async",
            16,
            "sg",
            "and.b32 %t, %lane, 1; shl.b32 %t, %t, 4;\n@%p cp.async.cg.shared.global [%sa], [%ga], 16, %t;\ncp.async.wait_all;\n",
            24,
        )
    )
    return out


_BARRIER = "setp.eq.u32 %q, %lane, 0;\n@%q mbarrier.init.shared.b64 [%bar], 32;\nbar.warp.sync -1;\n"


def _wait(label: str) -> str:
    return f"W_{label}: mbarrier.try_wait.parity.shared.b64 %q, [%bar], 0;\n@!%q bra W_{label};\n"


def _barriers() -> list[Form]:
    arrive = "mbarrier.arrive.shared.b64 %d20, [%bar];\n"
    return [
        Form("nothing", "none", 0, "", "", 2),
        Form("mbarrier.init", "mbarrier", 8, "", "setp.eq.u32 %q, %lane, 0;\n@%q mbarrier.init.shared.b64 [%bar], 32;\n", 2),
        Form("mbarrier.arrive", "mbarrier", 8, "", _BARRIER + arrive + _fold(["%d20"], 64), 2),
        Form("mbarrier.test_wait", "mbarrier", 8, "", _BARRIER + arrive + "mbarrier.test_wait.shared.b64 %q, [%bar], %d20;\nselp.b32 %t, 1, 0, %q; xor.b32 %acc, %acc, %t;\n", 2),
    ]  # fmt: skip


def _bulk() -> list[Form]:
    """Bulk copies and tensor loads: `extra` words of the table are the size, then what the map says."""
    start = "setp.eq.u32 %q, %lane, 0;\n@%q mbarrier.init.shared.b64 [%bar], 1;\nbar.warp.sync -1;\n@%q mbarrier.arrive.expect_tx.shared.b64 %d20, [%bar], %extra;\n"
    out = [
        Form("cp.async.bulk.shared.global", "bulk", 0, "", start + "@%q cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%sa], [%g], %extra, [%bar];\n" + _wait("b"), 12),
        Form("cp.async.bulk.global.shared", "bulk", 0, "", "setp.eq.u32 %q, %lane, 0;\n@%q cp.async.bulk.global.shared::cta.bulk_group [%g], [%sa], %extra;\n@%q cp.async.bulk.commit_group;\n@%q cp.async.bulk.wait_group 0;\n", 12),
        Form("cp.async.bulk.tensor.2d.load", "tensor", 0, "", start + "@%q cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%sa], [map, {0, 0}], [%bar];\n" + _wait("t"), 40, has_map=True),
        Form("cp.async.bulk.tensor.2d.store", "tensor", 0, "", "setp.eq.u32 %q, %lane, 0;\n@%q cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [map, {0, 0}], [%sa];\n@%q cp.async.bulk.commit_group;\n@%q cp.async.bulk.wait_group 0;\n", 40, has_map=True),
    ]  # fmt: skip
    return [dataclasses.replace(f, body=f.body.replace("[map,", "[%map,")) for f in out]


def _remote() -> list[Form]:
    """The other CTA's shared memory, by CTA 0 alone; the copies that an mbarrier counts."""
    widths = ((32, 1), (64, 1), (32, 4), (8, 1))
    out = _plain("shared::cluster", "%far", "s", widths, 16, "remote", 2, _CLUSTERED)
    out += _atomics("shared::cluster", "%far", "s", 12, ctas=2, family="remote", head=_CLUSTERED)
    own = "mapa.shared::cluster.u32 %far, %sa, 0;\n"
    out += [
        dataclasses.replace(f, name=f.name + ".own") for f in _plain("shared::cluster", "%far", "s", ((32, 1), (32, 4)), 12, "own", 2, own)
    ]
    for bits, count in ((32, 1), (64, 1), (32, 4)):
        vector = f".v{count}" if count > 1 else ""
        value = _vector([{32: "%lane", 64: "%d1"}[bits]] * count)
        body = _CLUSTERED + "mapa.shared::cluster.u32 %r22, %bar, 1;\n"
        body += f"@%p st.async.weak.shared::cluster.mbarrier::complete_tx::bytes{vector}.b{bits} [%far], {value}, [%r22];\n"
        out.append(Form(f"st.async{vector}.b{bits}", "st.async", bits * count // 8, "s", body, 12, 2))
    return out


_MMA = (  # name, PTX type words, bytes of an element of A and B, K
    ("bf16", "f32.bf16.bf16", 2, 16), ("tf32", "f32.tf32.tf32", 4, 8), ("e4m3", "f32.e4m3.e4m3", 1, 32), ("s8", "s32.s8.s8", 1, 32),
)  # fmt: skip


def _wgmma() -> list[Form]:
    out = []
    for name, types, _, k in _MMA:
        for n in (8, 64, 96, 256):
            for source in ("shared", "registers"):
                count = n // 2
                prefix = "%a" if name == "s8" else "%b"
                regs = f".reg .b32 %a<{count}>;\n.reg .f32 %b<{count}>;\n"
                zero = "".join(
                    f"mov.{'b32' if name == 's8' else 'f32'} {prefix}{j}, {'0' if name == 's8' else '0f00000000'};\n" for j in range(count)
                )
                a = "%d30" if source == "shared" else "{%lane, %lane, %lane, %lane}"
                tail = (
                    "1"
                    if name == "s8"
                    else ("1, 1, 1" if name in ("tf32", "e4m3") else ("1, 1, 1, 0, 0" if source == "shared" else "1, 1, 1, 0"))
                )
                regs_list = ", ".join(f"{prefix}{j}" for j in range(count))
                body = (
                    "{"
                    + regs
                    + zero
                    + "ld.param.u64 %d30, [table+264];\nld.param.u64 %d31, [table+272];\nshr.b32 %t, %sa, 4; cvt.u64.u32 %d2, %t; add.u64 %d30, %d30, %d2; add.u64 %d31, %d31, %d2;\nwgmma.fence.sync.aligned;\n"
                )
                body += f"wgmma.mma_async.sync.aligned.m64n{n}k{k}.{types} {{{regs_list}}}, {a}, %d31, {tail};\n"
                body += "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n"
                body += "".join(f"{'mov.b32 %t, ' + prefix + str(j)}; xor.b32 %acc, %acc, %t;\n" for j in range(count)) + "}\n"
                out.append(Form(f"wgmma.m64n{n}k{k}.{name}.{source}", "wgmma", 0, "d", body, 6, threads=128))
    return out


def _all() -> tuple[Form, ...]:
    shared, world = _WIDTHS, _WIDTHS
    out = _plain("shared", "%sa", "s", shared, 30) + _matrices() + _atomics("shared", "%sa", "s", 20)
    out += _plain("global", "%ga", "g", world, 16) + _atomics("global", "%ga", "g", 14)
    out += [
        Form(f"ld.global.nc.v{n}.b32" if n > 1 else "ld.global.nc.b32", "ld", 4 * n, "g", _load("ld.global.nc", 32, n, "%ga"), 12)
        for n in (1, 4)
    ]
    for count, what in ((2, "f32"), (4, "f32"), (2, "f16"), (8, "f16")):
        value = {"f32": "%f1", "f16": "%h1"}[what]
        size = count * (4 if what == "f32" else 2)
        noftz = ".noftz" if what == "f16" else ""
        out.append(
            Form(
                f"red.global.v{count}.{what}.add",
                "red",
                size,
                "g",
                f"@%p red.global.add{noftz}.v{count}.{what} [%ga], {_vector([value] * count)};\n",
                14,
            )
        )
    local = [
        Form(f"local.v{n}.b{b}", "local", n * b // 8, "l", _store("st.local", b, n, "%la") + _load("ld.local", b, n, "%la"), 8)
        for b, n in ((8, 1), (32, 1), (64, 1), (32, 4))
    ]
    return (*out, *local, *_copies(), *_barriers(), *_bulk(), *_remote(), *_wgmma())


FORMS: tuple[Form, ...] = _all()


_REGISTERS = """.reg .pred %p, %q; .reg .b16 %h<40>; .reg .b32 %r<40>; .reg .b64 %d<40>; .reg .f32 %f<30>; .reg .f64 %x<30>;
.reg .b32 %lane, %mask, %t, %acc, %sa, %far, %bar, %lo, %extra; .reg .b64 %ga, %la, %g, %row, %lb, %map, %table;
"""
_VALUES = "cvt.u64.u32 %d1, %lane; cvt.u16.u32 %h1, %lane; cvt.rn.f32.u32 %f1, %lane; cvt.rn.f64.u32 %x1, %lane;\n"
_ONLY_FIRST = "mov.u32 %t, %cluster_ctarank; setp.eq.u32 %q, %t, 0; and.pred %p, %p, %q;\n"
_MEET = "barrier.cluster.arrive;\nbarrier.cluster.wait;\n"
_ONE = "setp.eq.u32 %q, %lane, 0;\n@%q mbarrier.init.shared.b64 [%bar], 1;\n"


def _directives(form: Form) -> str:
    return f".reqntid {form.threads}, 1, 1{' .explicitcluster .reqnctapercluster 2, 1, 1' if form.ctas > 1 else ''}"


def _arrays(number: int, form: Form) -> str:
    stack = f".local .align 16 .b8 stack_{number}[1024];\n" if form.drawn == "l" else ""
    return f"{_REGISTERS}.shared .align 1024 .b8 window_{number}[{WINDOW}]; .shared .align 8 .b64 barrier_{number};\n{stack}"


def text(number: int, form: Form) -> str:
    """The kernel of one form with one access, `c_NUMBER`; its table is a parameter."""
    after = _MEET if form.ctas > 1 else ""
    local = f"mov.u64 %lb, stack_{number}; cvt.u64.u32 %la, %sa; add.u64 %la, %la, %lb;\n" if form.drawn == "l" else ""
    return f"""
// {form.name}
.visible .entry c_{number}(.param .align 8 .b8 table[{TABLE_BYTES}], .param .u64 memory{", .param .align 64 .b8 map[128]" if form.has_map else ""})
{_directives(form)} {{
{_arrays(number, form)}
mov.u32 %lane, %tid.x; and.b32 %lane, %lane, 31; mov.b64 %row, table; mul.wide.u32 %d2, %lane, 4; add.u64 %row, %row, %d2;
ld.param.u32 %sa, [%row]; ld.param.u32 %lo, [%row+128]; ld.param.u32 %mask, [table+256]; ld.param.u32 %extra, [table+260];
ld.param.u64 %g, [memory]; cvt.u64.u32 %ga, %lo; add.u64 %ga, %ga, %g;
{local}mov.u32 %t, window_{number}; add.u32 %sa, %sa, %t; mov.u32 %bar, barrier_{number};
{"mov.b64 %map, map; cvta.param.u64 %map, %map;" if form.has_map else ""}
shr.u32 %t, %mask, %lane; and.b32 %t, %t, 1; setp.ne.u32 %p, %t, 0;
{_ONLY_FIRST if form.ctas > 1 else ""}{_VALUES}mov.u32 %acc, 0;
{_ONE if form.family == "st.async" else ""}{after}{form.body}
{after}setp.eq.u32 %q, %acc, 0x9e3779b9;
@%q st.global.u32 [%g], %acc;
ret;
}}
"""


def unrolled(number: int, form: Form, count: int) -> str:
    """The kernel of one form with `count` accesses one after the other, `u_NUMBER`; their tables lie in global memory.
    The line of each access ends with `// case K`.
    """
    head = f"""
// {form.name}
.visible .entry u_{number}(.param .u64 tables, .param .u64 memory)
{_directives(form)} {{
{_arrays(number, form)}
mov.u32 %lane, %tid.x; and.b32 %lane, %lane, 31; mul.wide.u32 %d2, %lane, 4; ld.param.u64 %table, [tables]; ld.param.u64 %g, [memory];
mov.u32 %bar, barrier_{number}; mov.u32 %acc, 0;
{_VALUES}{_ONE if form.family == "st.async" else ""}{_MEET if form.ctas > 1 else ""}"""
    parts = [head]
    for k in range(count):
        body, base = form.body, k * TABLE_BYTES
        body = body.replace("ld.param.u64 %d30, [table+264]", f"ld.global.u64 %d30, [%table+{base + 264}]").replace(
            "ld.param.u64 %d31, [table+272]", f"ld.global.u64 %d31, [%table+{base + 272}]"
        )
        lines = body.splitlines()
        main = next(n for n, line in enumerate(lines) if line.startswith(("@%p ", "ldmatrix", "stmatrix", "wgmma.mma_async")))
        lines[main] += f" // case {k}"
        parts.append(
            f"""add.u64 %row, %table, {base}; ld.global.u32 %mask, [%row+256]; mul.wide.u32 %d2, %lane, 4; add.u64 %row, %row, %d2;
ld.global.u32 %sa, [%row]; ld.global.u32 %lo, [%row+128]; cvt.u64.u32 %ga, %lo; add.u64 %ga, %ga, %g;
mov.u32 %t, window_{number}; add.u32 %sa, %sa, %t;
shr.u32 %t, %mask, %lane; and.b32 %t, %t, 1; setp.ne.u32 %p, %t, 0;
{_ONLY_FIRST if form.ctas > 1 else ""}"""
            + "\n".join(lines)
            + "\n"
        )
    parts.append(f"""{_MEET if form.ctas > 1 else ""}setp.eq.u32 %q, %acc, 0x9e3779b9;
@%q st.global.u32 [%g], %acc;
ret;
}}
""")
    return "".join(parts)
