"""Does a tensor map describe the tensor it is meant to describe?"""

from __future__ import annotations

from collections.abc import Iterator

from smemsim.checking.report import CheckFinding
from smemsim.checking.simulate import Machine, finding
from smemsim.checking.tensors import Tensor
from smemsim.descriptors.tensor_map import TensorMap

__all__ = ["map_findings"]


def map_findings(machine: Machine, name: str, tm: TensorMap, tensor: Tensor) -> Iterator[CheckFinding]:
    """Element width, contiguous axis, extents and strides; the first thing that differs."""
    where, title = f"map.{name}", f"map {name}"
    bits = tm.type_row.bits
    if bits != tensor.fmt.bits and not (tensor.fmt.bits < 8 and bits % 8 == 0):
        yield finding("T211", f"{where}.data_type", title, f"elements of {bits} bits; {tensor.name} has {tensor.fmt.name}, {tensor.fmt.bits} bits",
                      f"a data type of {tensor.fmt.bits} bits", numbers={"map": bits, "tensor": tensor.fmt.bits})  # fmt: skip
        return
    dims = list(zip(tm.global_dim, (bits // 8, *tm.global_strides), strict=False))
    axes = {axis: (tensor.extent[axis], tensor.bit_stride(axis)) for axis in tensor.extent}
    contiguous = tensor.contiguous
    exchanged = sorted(n for n, _ in dims) == sorted(n for n, _ in axes.values())
    if contiguous and exchanged and len(dims) == len(axes) and dims[0][0] != axes[contiguous][0]:
        other = next(axis for axis, (n, _) in axes.items() if n == dims[0][0])
        yield finding("T206", f"{where}.global_dim", title,
                      f"dimension 0 has {dims[0][0]} elements, as {other} has; {tensor.name} is contiguous along {contiguous} ({axes[contiguous][0]})",
                      f"dimension 0 is {contiguous}", numbers={"dimension": dims[0][0], "contiguous": axes[contiguous][0]})  # fmt: skip
        return
    if not tensor.address <= tm.global_address < tensor.end:
        yield finding("T207", f"{where}.global_address", title, f"begins at {tm.global_address:#x}; {tensor.name} has {tensor.address:#x} to {tensor.end - 1:#x}",
                      f"global_address = {tensor.address:#x}")  # fmt: skip
        return
    for number, (count, stride) in enumerate(dims[1:], 1):
        if (
            count > 1
            and stride
            and not any(
                step and 8 * stride % step == 0 and (8 * stride == step or (count - 1) * (8 * stride // step) < n)
                for n, step in axes.values()
            )
        ):
            yield _other_stride(tm, number, tensor, where, title)
            return
    end = tm.global_address + sum((n - 1) * stride for n, stride in dims) + -(-bits // 8)
    if bits >= 8 and end > tensor.end:
        yield finding("T207", f"{where}.global_dim", title, f"reaches {end - tensor.end} bytes past the end of {tensor.name}: extents {tuple(tm.global_dim)}",
                      f"extents of {', '.join(f'{axis} {n}' for axis, (n, _) in axes.items())}", numbers={"past": end - tensor.end})  # fmt: skip


def _other_stride(tm: TensorMap, number: int, tensor: Tensor, where: str, title: str) -> CheckFinding:
    """A stride that no axis has, and the one that was probably meant: of the axis with as many elements, or with this many elements instead of bytes."""
    stride, count, size = tm.global_strides[number - 1], tm.global_dim[number], tm.type_row.bits / 8
    steps = {axis: tensor.bit_stride(axis) // 8 for axis in tensor.extent if axis != tensor.contiguous}
    in_elements = [axis for axis, step in steps.items() if step == stride * size]
    alike = in_elements or [axis for axis in steps if tensor.extent[axis] == count] or (list(steps) if len(steps) == 1 else [])
    listed = ", ".join(f"{axis} {tensor.bit_stride(axis) / 8:g}" for axis in tensor.extent)
    why = f": {stride} elements of {size:g} B, and the driver counts bytes" if in_elements else ""
    old = list(tm.global_strides)
    new = [steps[alike[0]] if i == number - 1 else x for i, x in enumerate(old)] if alike else None
    return finding("T207", f"{where}.global_strides", title,
                   f"global_strides[{number - 1}] = {stride} B, the step of dimension {number}; {tensor.name} has {listed}",
                   f"global_strides[{number - 1}] = {steps[alike[0]]}{why}" if alike else "the tensor's byte strides",
                   numbers={"stride": stride}, fix=(f"{where}.global_strides", old, new) if new else None)  # fmt: skip
