"""What the card makes of every form of tests/support/instruction_forms.py: digests of the exact ones,
samples of the approximate ones.

    python tools/capture/arithmetic_forms.py OUT

writes OUT/h200_arithmetic.json and OUT/h200_approximate.npz, which belong in tests/data. Needs cuda-bindings;
the driver compiles the PTX.
"""

from __future__ import annotations

import hashlib
import json
import pathlib
import sys

import numpy as np
from cuda.bindings import driver as cu

from smemsim.capture.device import Buffer, CudaError, Device, check
from tests import instruction_forms as forms

EVERY = 8  # of the approximate results one in so many is kept


def results(card: Device, form: tuple, arrays: list[Buffer]) -> np.ndarray | None:
    """The result of one form, None where the driver's assembler refuses it."""
    try:
        module = card.load(forms.kernel([form]))
    except CudaError:
        return None
    out = card.array(np.zeros(forms.COUNT, np.uint64))
    card.launch(module.kernel("forms"), forms.COUNT // 256, 0, out, *arrays, threads=256)
    check(cu.cuModuleUnload(module.handle), "cuModuleUnload")
    return forms.cut(out.read(np.uint64), form[1])


def main(out: pathlib.Path) -> None:
    card = Device()
    arrays = {name: [card.array(words) for words in forms.inputs(name)] for name in forms.CLASSES}
    digests, samples = {}, {}
    for form in forms.EXACT:
        found = results(card, form, arrays[form[3]])
        if found is not None:
            digests[form[0]] = hashlib.sha256(found.tobytes()).hexdigest()[:16]
    for form in forms.APPROXIMATE:
        found = results(card, form, arrays[form[3]])
        if found is not None:
            samples[form[0]] = found[::EVERY]
    described = {"card": card.describe(), "forms": digests}
    (out / "h200_arithmetic.json").write_text(json.dumps(described, indent=0) + "\n")
    np.savez_compressed(out / "h200_approximate.npz", **samples)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
