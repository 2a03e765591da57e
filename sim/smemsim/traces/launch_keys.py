"""The keys of launch files and what they say."""

from __future__ import annotations

__all__ = ["ARGUMENTS", "ARRAY_KEYS", "BESIDE", "KEYS"]

KEYS = {
    "schema": "smemsim.launch/1",
    "title": "free text",
    "ptx": "the PTX file, in the folder of this one or below; kernel.ptx if left out",
    "entry": "the kernel; may be left out where the PTX has only one",
    "arch": "sm_90a, sm_100a or sm_103a; else what .target says",
    "grid": "CTAs, one to three numbers",
    "block": "threads of a CTA, one to three numbers",
    "cluster": "CTAs of a cluster, one to three numbers",
    "shared_bytes": "dynamic shared memory",
    "limit": "blocks of instructions that CTAs may execute until the kernel counts as endless",
    "limit_seconds": "how long the kernel may run; it is ended then, without a finding",
    "cooperative": "true: a cooperative launch (of recorded launches)",
    "cancel": "how clusterlaunchcontrol.try_cancel is answered: resident, never, one, always, or all for each of them",
    "args": "a list: the parameters in their order",
    "arrays": "a list of arrays, or a table of them by name",
    "outputs": "the arrays that are printed; all that changed, if left out",
    "expected": 'what they must hold, by name: "file.npy" or "sha256:..."',
    "exact": "true: every bit counts, as with `--exact`",
    "why_not_exact": "free text",
    "rtol": "how far an element may be off, as a part of the expected number: |found - expected| <= atol + rtol * |expected|, as in numpy",
    "atol": "how far it may be off besides; where one of the two is given, the other is 0. Without both, rounding is told and no difference",
    "tolerance": "{relative, absolute}: older words for rtol and atol; where `exact` is true, every bit counts all the same",
    "name": "of a kept launch",
    "compiler": "of a kept launch",
}
ARRAY_KEYS = {
    "name": "how arguments and outputs call it",
    "dtype": "element type: f16 bf16 f32 f64 e4m3 e5m2 s8 u8 ... u64",
    "shape": "extents, the slowest first",
    "distribution": '"zeros", "bits", "floats", {fill = x}, {iota = [first, step]}, {integers = [low, high]}, {uniform = [low, high]}, '
    "{normal = [mean, deviation]}, {values = [...]}, {permutation = n}",
    "seed": "of what is drawn",
    "random": "a second distribution, for `--random`",
    "file": "instead of a distribution: an .npy file, in the folder of this one or below",
}
ARGUMENTS = {
    "array": "the address of an array",
    "map": "the 128 bytes of a tensor map: the arguments of the encode call by name, `global_address` an array",
    "maps": "the address of such maps, one behind the other in global memory",
    "value": "a number",
    "null": "true: a null pointer",
    "scratch": "the address of so many zeroed bytes",
    "bytes": "a structure, as hexadecimal digits",
}
BESIDE = {"array": {"offset": "bytes that are added to the address"}, "value": {"type": "its PTX type: u32, s64, f32 ..."}}
