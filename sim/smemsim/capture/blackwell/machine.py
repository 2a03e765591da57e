"""The kernel that most suites run (machine.cu): the instructions it knows, its source, and one run of it."""

from __future__ import annotations

import json
import pathlib
import struct
from typing import Any

import numpy as np

from smemsim.capture.bench import KERNELS, RUNNERS, Bench, settings
from smemsim.capture.blackwell.contents import COLUMNS, LANES, WINDOW_BEGIN, WINDOW_END, shared_image, tensor_image
from smemsim.capture.blackwell.pages import compressed

HERE = pathlib.Path(__file__).resolve().parent
HEADER = "//FORMS\n"
MOST_STEPS, WAIT = 8, 1

# ------------------------------------------------------------------------------------------------------------ the forms

PLAIN_KINDS = ("f16", "tf32", "f8f6f4", "i8")
SCALED_KINDS = ("mxf8f6f4.block32", "mxf4.block32", "mxf4nvf4.block32", "mxf4nvf4.block16")
COPY_SHAPES = ("128x256b", "4x256b", "128x128b", "64x128b.warpx2::02_13", "64x128b.warpx2::01_23", "32x128b.warpx4")
DECOMPRESSIONS = ("", ".b8x16.b6x16_p32", ".b8x16.b4x16_p64")


def _mma(group: int, kind: str, *, a: str = "ss", sparse: bool = False, ws: bool = False, tail: str = "", between: str = "") -> str:
    """One tcgen05.mma as inline PTX (PTX ISA 9.1 §9.7.16.10.9)."""
    operands = ["[%0]", "%1" if a == "ss" else "[%1]", "%2"]
    inputs = ['"r"(base + s.d)', '"l"(s.a)' if a == "ss" else '"r"(base + (unsigned)s.a)', '"l"(s.b)', '"r"(s.idesc)', '"r"(s.enable_d)']

    def operand(constraint: str, value: str) -> str:
        inputs.append(f'"{constraint}"({value})')
        return f"%{len(inputs) - 1}"

    def address(field: str) -> str:
        return "[" + operand("r", f"base + s.{field}") + "]"

    if sparse:
        operands.append(address("meta"))
    operands.append("%3")
    if tail == "mask":
        operands.append("{" + ", ".join(operand("r", f"s.mask[{i}]") for i in range(4 * group)) + "}")
    if kind in SCALED_KINDS:
        operands += [address("scale_a"), address("scale_b")]
        name, block = kind.split(".")
        kind = f"{name}.block_scale.{block}"
    operands.append("p")
    if tail == "zero":
        operands.append(operand("l", "s.zero"))
    elif tail.startswith("scale"):
        operands.append(tail.removeprefix("scale"))
    name = f"tcgen05.mma{'.ws' if ws else ''}{'.sp' if sparse else ''}.cta_group::{group}.kind::{kind}{between}"
    text = f"{{ .reg .pred p; setp.ne.b32 p, %4, 0; {name} {', '.join(operands)}; }}"
    return f'asm volatile("{text}" ::{", ".join(inputs)} : "memory");'


def forms(group: int) -> dict[str, str]:
    """Every instruction the kernel of this cta_group can issue: its name here, and the code."""
    out: dict[str, str] = {}
    for kind in PLAIN_KINDS:
        for a in ("ss", "ts"):
            for sparse in (False, True):
                name = f"{kind}.{a}{'.sp' if sparse else ''}"
                out[name] = _mma(group, kind, a=a, sparse=sparse)
                if a == "ss":
                    out[f"{name}.mask"] = _mma(group, kind, a=a, sparse=sparse, tail="mask")
                if group == 1:
                    out[f"{name}.ws"] = _mma(group, kind, a=a, sparse=sparse, ws=True)
                    if a == "ss":
                        out[f"{name}.ws.zero"] = _mma(group, kind, a=a, sparse=sparse, ws=True, tail="zero")
        out[f"{kind}.ts.ashift"] = _mma(group, kind, a="ts", between=".ashift")
        for op in ("fill", "use", "lastuse"):
            out[f"{kind}.ss.{op}"] = _mma(group, kind, between=f".collector::a::{op}")
            if group == 1:
                out[f"{kind}.ss.ws.{op}"] = _mma(group, kind, ws=True, between=f".collector::b1::{op}")
    for kind in SCALED_KINDS:
        for a in ("ss", "ts"):
            for sparse in (False, True):
                out[f"{kind}.{a}{'.sp' if sparse else ''}"] = _mma(group, kind, a=a, sparse=sparse)
    for kind in ("f16", "tf32"):
        for scale in range(16):
            out[f"{kind}.ss.scale{scale}"] = _mma(group, kind, tail=f"scale{scale}")
    for shape in COPY_SHAPES:
        for decompression in DECOMPRESSIONS:
            text = f"tcgen05.cp.cta_group::{group}.{shape}{decompression} [%0], %1;"
            out[f"cp.{shape}{decompression}"] = f'asm volatile("{text}" ::"r"(base + s.d), "l"(s.a) : "memory");'
    out["shift"] = f'asm volatile("tcgen05.shift.cta_group::{group}.down [%0];" ::"r"(base + s.d) : "memory");'
    return out


def missing() -> tuple[str, ...]:
    """The kinds that the target lacks (PTX ISA 9.1 §9.7.16.10.9.1, target ISA notes)."""
    return ("i8",) if settings.arch == "sm_103a" else ()


OPS = list(forms(1))  # a form's number is its place here, also in the kernel of pairs, which lacks some


def _wgmma(dtype: str, n: int, major_a: int, major_b: int) -> str:
    """The wgmma that stands for M = 64 of `f16.ss` or `f8f6f4.ss`. Rows lie as in the layout of M = 64: lane = row % 16
    + row / 16 * 32.
    """
    count = n // 2
    d = ", ".join(f"%{i}" for i in range(count))
    tail = f", {major_a}, {major_b}" if dtype in ("bf16", "f16") else ""
    k = 16 if tail else 32
    name = f"wgmma.mma_async.sync.aligned.m64n{n}k{k}.f32.{dtype}.{dtype}"
    outputs = ", ".join(f'"+f"(d[{i}])' for i in range(count))
    return f"""
    if (s.op == {OPS.index("f16.ss" if tail else "f8f6f4.ss")} && type == {1 if dtype == "bf16" else 0} && n == {n} && majors == {major_a | major_b << 1}) {{
        float d[{count}];
        for (int i = 0; i < {count}; i++) d[i] = 0;
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        asm volatile("{{ .reg .pred p; setp.ne.b32 p, 0, 0; {name} {{{d}}}, %{count}, %{count + 1}, p, 1, 1{tail}; }}"
            : {outputs} : "l"(s.a), "l"(s.b));
        asm volatile("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;" ::: "memory");
        for (int i = 0; i < {count}; i++) {{
            int lane = 32 * (t / 32) + t % 32 / 4 + 8 * ((i >> 1) & 1), column = 2 * (t % 4) + (i & 1) + 8 * (i >> 2);
            memory.array[lane * COLUMNS + s.d + column] = __float_as_uint(d[i]);
        }}
        return true;
    }}"""


HOPPER_N = (16, 32, 64, 128)


def _hopper() -> str:
    bf16 = [_wgmma("bf16", n, a, b) for n in HOPPER_N for a in (0, 1) for b in (0, 1)]
    e4m3 = [_wgmma("e4m3", n, 0, 0) for n in (32, 64)]
    return (
        "__device__ bool wgmma_step(const Step &s, const TensorMemory &memory) {\n"
        "    const unsigned t = threadIdx.x, type = s.idesc >> 7 & 7, n = (s.idesc >> 17 & 63) * 8, majors = s.idesc >> 15 & 3;"
        + "".join(bf16 + e4m3)
        + "\n    return false;\n}\n"
    )


def source(group: int) -> str:
    """The CUDA source of the kernel for one cta_group; both keep the other kernel's name out."""
    table = {name: code for name, code in forms(group).items() if not (name.startswith("i8") and "i8" in missing())}
    cases = "".join(f"    case {OPS.index(name)}: {code} break;  // {name}\n" for name, code in table.items())
    issue = f"template <int GROUP> __device__ void issue(const Step &s, unsigned base) {{\n    switch (s.op) {{\n{cases}    }}\n}}\n"
    body = (HERE / "machine.cu").read_text()
    kernels = body[body.index('extern "C"') :].splitlines()
    body = body[: body.index('extern "C"')] + kernels[group - 1] + "\n"
    return header() + body.replace(HEADER, f"#if TCGEN05\n{issue}#else\n{_hopper()}#endif\n")


def header() -> str:
    return (HERE / "tcgen05.cuh").read_text().replace("#pragma once\n", "")


# -------------------------------------------------------------------------------------------------------------- one run

WINDOW = WINDOW_END - WINDOW_BEGIN


def step(op: str, **fields: Any) -> dict[str, Any]:
    return {"op": op, "flags": WAIT, **fields}


def packed_step(s: dict[str, Any]) -> bytes:
    mask = [*s.get("mask", []), *[0] * 8][:8]
    return struct.pack(
        "<4I2Q4I8IQ", OPS.index(s["op"]), s["flags"], s.get("d", 0), s.get("idesc", 0), s.get("a", 0), s.get("b", 0), s.get("meta", 0),
        s.get("scale_a", 0), s.get("scale_b", 0), s.get("enable_d", 0), *mask, s.get("zero", 0),
    )  # fmt: skip


class Store:
    """Device copies of contents, kept from case to case."""

    def __init__(self, bench: Bench) -> None:
        self.bench, self.kept = bench, {}
        self.out = bench.api.Buffer(2 * LANES * COLUMNS * 4)
        self.array = bench.api.Buffer(2 * LANES * COLUMNS * 4)
        self.case = bench.api.Buffer(4096)
        self.results = bench.api.Buffer(32)

    def tidy(self) -> None:
        """Before a pass: what is given away while addresses are being collected would be freed under it."""
        if len(self.kept) > 400:
            self.kept.clear()

    def address(self, space: str, recipe: Any) -> int:
        key = json.dumps([space, recipe])
        if key not in self.kept:
            self.kept[key] = self.bench.device.array(shared_image(recipe) if space == "shared" else tensor_image(recipe))
        return int(self.kept[key].address)


def store(bench: Bench) -> Store:
    if not hasattr(bench, "blackwell_store"):
        bench.blackwell_store = Store(bench)  # type: ignore[attr-defined]
    return bench.blackwell_store  # type: ignore[attr-defined,no-any-return]


def run_machine(bench: Bench, case: dict[str, Any]) -> dict[str, Any]:
    """Every pass of a case: `group`, `steps`, `columns` (first, count), `passes` [{shared: [recipe a CTA], tensor:
    [recipe a CTA]}, …].

    The answer's `words` are (pass, CTA, lane, column), compressed.
    """
    group, s = case["group"], store(bench)
    name = f"blackwell_machine_{group}"
    KERNELS.setdefault(name, lambda: source(group))
    first, count = case["columns"]
    out, completed, cycles = [], 1, 0
    for one in case["passes"]:
        s.tidy()
        steps = one.get("steps", case["steps"])
        shared = [s.address("shared", r) for r in one["shared"]] * 2
        tensor = [s.address("tensor", r) for r in one["tensor"]] * 2
        raw = struct.pack("<6Q4I", *shared[:2], *tensor[:2], s.out.address, s.array.address, first, count, len(steps), 0)
        s.case.write(np.frombuffer(raw + b"".join(packed_step(x) for x in steps), np.uint8))
        s.results.fill(0)
        bench.device.launch(bench.function(name, f"machine_{group}"), group, WINDOW, s.case, s.results)
        words = s.results.read(np.uint32).reshape(2, 4)[:group]
        begins = set((words[:, 1] & 0xFFFFFF).tolist())  # in a cluster, the byte above names the CTA
        if begins != {WINDOW_BEGIN}:
            raise RuntimeError(f"dynamic shared memory begins at {sorted(begins)}, the cases were drawn for {WINDOW_BEGIN}")
        completed &= int(words[:, 0].min())
        cycles = max(cycles, int(words[0, 3]))
        bases = words[:, 2].tolist()
        out.append(s.out.read(np.uint32)[: group * LANES * count].reshape(group, LANES, count))
    return {"words": compressed(np.array(out)), "completed": completed, "cycles": cycles, "tensor_base": bases}


RUNNERS["blackwell_machine"] = run_machine
