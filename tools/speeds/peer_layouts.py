"""The side of pycute, tensor-layouts and Triton, in an environment of their own: `python peer_layouts.py RESULTS.npz`.

All have the same tile, 128 x 64 bf16, K-major, 128B swizzle, as element offsets; their layouts are made beforehand. The
first line of the output has the versions by form, or why a form is not there. Then a line "form, count" on stdin is
answered by the seconds of that many.
"""

from __future__ import annotations

import importlib.metadata
import json
import sys
import time
from collections.abc import Callable

import numpy as np

ROWS, K = 128, 64
Form = Callable[[], object]


def layout_forms(layout: Callable[..., object]) -> dict[str, Form]:
    """A layout called for every element, and for all at once: it is arithmetic that arrays go through too, though
    nothing says so.
    """
    m, k = np.indices((ROWS, K))
    return {"one by one": lambda: [[layout(i, j) for j in range(K)] for i in range(ROWS)], "on numpy arrays": lambda: layout(m, k)}


def pycute_forms() -> dict[str, Form]:
    import pycute  # type: ignore[import-not-found]

    return layout_forms(pycute.ComposedLayout(pycute.Swizzle(3, 3, 3), 0, pycute.Layout((ROWS, K), (K, 1))))


def tensor_layouts_forms() -> dict[str, Form]:
    import tensor_layouts  # type: ignore[import-not-found]

    return layout_forms(tensor_layouts.compose(tensor_layouts.Swizzle(3, 3, 3), tensor_layouts.Layout((ROWS, K), (K, 1))))


def triton_forms() -> dict[str, Form]:
    from triton._C.libtriton import ir  # type: ignore[import-not-found]
    from triton._C.libtriton.gluon_ir import GluonOpBuilder  # type: ignore[import-not-found]
    from triton._C.libtriton.linear_layout import LinearLayout  # type: ignore[import-not-found]
    from triton.backends.compiler import GPUTarget  # type: ignore[import-not-found]
    from triton.compiler.compiler import make_backend  # type: ignore[import-not-found]
    from triton.experimental.gluon import language as gl  # type: ignore[import-not-found]

    context = ir.context()
    ir.load_dialects(context)
    make_backend(GPUTarget("cuda", 100, 32)).load_dialects(context)
    builder = GluonOpBuilder(context)
    bases = builder.to_linear_layout(gl.NVMMASharedLayout(128, 16, 2)._to_ir(builder), [ROWS, K]).offset_bases
    of_offset = LinearLayout.from_bases([("offset", [list(b) for b in bases])], ["m", "k"], [ROWS, K])
    inverse = of_offset.invert()

    def expanded() -> np.ndarray:
        places = np.zeros((1, 2), np.int64)
        for basis in bases:
            places = np.concatenate([places, places ^ np.array(basis, np.int64)])
        offsets = np.empty((ROWS, K), np.int64)
        offsets[places[:, 0], places[:, 1]] = np.arange(len(places))
        return offsets

    return {
        "invert().apply": lambda: [[inverse.apply({"m": i, "k": j})["offset"] for j in range(K)] for i in range(ROWS)],
        "bases, XORed by numpy": expanded,
    }


PEERS = (
    ("pycute", "nvidia-cutlass", pycute_forms),
    ("tensor-layouts", "tensor-layouts", tensor_layouts_forms),
    ("Triton", "triton", triton_forms),
)


def main(results: str) -> None:
    forms: dict[str, Form] = {}
    said: dict[str, str] = {}
    for name, package, make in PEERS:
        try:
            of = make()
        except Exception as e:  # whatever it is: the others can still run
            said[name] = f"{type(e).__name__}: {e}"
            continue
        said |= {f"{name} {form}": importlib.metadata.version(package) for form in of}
        forms |= {f"{name} {form}": call for form, call in of.items()}
    np.savez(results, **{name: np.asarray(call(), np.int64) for name, call in forms.items()})  # type: ignore[arg-type]
    print(json.dumps(said), flush=True)
    for line in sys.stdin:
        form, count = json.loads(line)
        begin = time.perf_counter()
        for _ in range(count):
            forms[form]()
        print(time.perf_counter() - begin, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
