"""Textures and surfaces: kernels of one instruction over an array and an object, the words that it gives and the array
that it leaves.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from smemsim.core.machine.texture import Image, Sampler, Surface, Texture
from smemsim.core.spec.evidence import RULES
from smemsim.core.spec.textures import ADDRESS_MODES, CHANNEL_KINDS, CUBE, LAYERED, TextureFormat
from smemsim.evidence.kinds.common import Comparer
from smemsim.evidence.outcome import Case, Outcome, agree, differ
from smemsim.run.engine.device import Device
from smemsim.run.engine.grid import execute
from smemsim.run.engine.launch import LaunchConfig

__all__ = ["TextureSamples"]


LINEAR, PITCHED, ARRAY, MIPMAPPED = range(4)
HANDLE, THREADS = 1, 128


class TextureSamples(Comparer):
    """Runs the recorded kernel, and compares the outcome, the results and the array."""

    columns = {  # noqa: RUF012
        "op": 1, "program": 1, "resource": 1, "size": 2, "flags": 1, "levels": 1, "bits": 2, "kind": 1, "address": 2, "filter": 1, "read": 1,
        "srgb": 1, "normalized": 1, "border": 2, "mip_filter": 1, "bias": 1, "least": 1, "most": 1, "seamless": 1, "pitch": 1, "is_surface": 1, "status": 1,
        "data_start": 1, "samples_start": 1, "results_start": 1, "after_start": 1,
    }  # fmt: skip

    def case(self, index: int) -> Case:
        """The first of outcome, results and array that differs."""
        a = self.suite.arrays
        images, samples = self._images(index), self.suite.ragged("samples", index)
        form, op, is_surface = images[0].format, str(a["op"][index]), bool(a["is_surface"][index])
        rule = RULES[
            "surface.access" if is_surface else "texture.filter" if a["filter"][index] or a["mip_filter"][index] else "texture.read"
        ]
        status, results = self._run(
            index, Surface(images[0]) if is_surface else Texture(images[0], self._sampler(index), images[1:]), samples
        )

        def title() -> str:
            return f"{op} of {form.channels} x {form.bits} bits, {form.kind}, {tuple(a['size'][index].tolist())}"

        if status != int(a["status"][index]):
            said = (f"CUDA error {code}" if code else "it ends" for code in (int(a["status"][index]), status))
            return Case(title, Outcome(1, 1, "hardware: {} | model: {}".format(*said), (), rule, "outcome"))
        if status:
            return Case(title, agree(1))
        hardware = self.suite.ragged("results", index).reshape(-1, 4)

        def describe(at: tuple[int, ...]) -> str:
            given = " ".join(f"{int(x):#x}" for x in samples.reshape(-1, 16)[at[0], :5])
            return f"sample {at[0]} ({given}), word {at[1]}: hardware {int(hardware[at]):#010x} | model {int(results[at]):#010x}"

        outcome = differ(hardware, results, rule, "words", describe)
        if outcome.differing or not is_surface:
            return Case(title, outcome)
        after = self.suite.ragged("after", index)
        left = differ(
            after, images[0].data.reshape(-1), rule, "bytes of the array", lambda at: f"byte {at[0]}: {after[at]:#04x}", form.size
        )
        return Case(title, left if left.differing else agree(outcome.compared + left.compared))

    def _images(self, index: int) -> list[Image]:
        """The levels of the array, or the memory."""
        a = self.suite.arrays
        bits = [int(b) for b in a["bits"][index] if b]
        form = TextureFormat(CHANNEL_KINDS[int(a["kind"][index])], bits[0], len(bits))
        raw, (width, height, depth) = self.suite.ragged("data", index).copy(), (int(n) for n in a["size"][index])
        resource, flags, pitch = (int(a[name][index]) for name in ("resource", "flags", "pitch"))
        if resource == LINEAR:
            width = len(raw) // form.size
            return [Image(form, raw[: width * form.size].reshape(1, 1, -1), width, 1, is_memory=True)]
        if resource == PITCHED:
            return [Image(form, np.lib.stride_tricks.as_strided(raw, (1, height, width * form.size), (0, pitch, 1)), width, 2)]
        return Image.levels_of(
            form,
            raw,
            (width, height, depth),
            int(a["levels"][index]) if resource == MIPMAPPED else 1,
            is_layered=bool(flags & LAYERED),
            is_cube=bool(flags & CUBE),
        )

    def _sampler(self, index: int) -> Sampler:
        a: dict[str, Any] = {name: self.suite.arrays[name][index].tolist() for name in self.columns if not name.endswith("_start")}
        modes = [ADDRESS_MODES[mode] for mode in a["address"]]
        return Sampler(
            address=(modes[0], modes[1], modes[2]), is_linear=bool(a["filter"]), is_normalized=bool(a["normalized"]),
            gives_floats=bool(a["read"]) and CHANNEL_KINDS[a["kind"]] != "float", is_srgb=bool(a["srgb"]), is_seamless=bool(a["seamless"]),
            is_linear_between_levels=bool(a["mip_filter"]), bias=a["bias"], least_level=a["least"], most_level=a["most"], border=tuple(a["border"]),
        )  # fmt: skip

    def _run(self, index: int, made: Surface | Texture, samples: np.ndarray) -> tuple[int, np.ndarray]:
        """The CUDA error, and the words of every sample."""
        device, count = Device(self.suite.arch), len(samples) // 16
        device.memory.objects[HANDLE] = made
        given, results = device.array(samples), device.zeros((count, 4), np.uint32)
        ptx = str(self.suite.arrays["ptx"][int(self.suite.arrays["program"][index])])
        config = LaunchConfig(grid=-(-count // THREADS), block=THREADS, args=[HANDLE, count, given, results])
        launch = device.prepare(ptx, config)
        execute(launch, sanitizer=False)
        return launch.status, results.numpy()
