"""Does a tensor map describe the tensor it is meant to describe?"""

from __future__ import annotations

from collections.abc import Iterator

from smemsim.checking.report import CheckFinding
from smemsim.checking.simulate import Machine, finding
from smemsim.checking.tensors import Tensor
from smemsim.descriptors.tensor_map import TensorMap
from smemsim.errors import SmemsimError

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
    number = _odd_dimension(tm, tensor)
    if number is not None:
        yield _other_stride(machine, name, tm, number, tensor)
        return
    past = _past_end(tm, tensor)
    if past > 0:
        yield finding("T207", f"{where}.global_dim", title, f"reaches {past} bytes past the end of {tensor.name}: extents {tuple(tm.global_dim)}",
                      f"extents of {', '.join(f'{axis} {n}' for axis, (n, _) in axes.items())}", numbers={"past": past})  # fmt: skip


def _odd_dimension(tm: TensorMap, tensor: Tensor) -> int | None:
    """The first dimension whose stride is neither that of an axis, nor a multiple of it that stays within the axis."""
    axes = [(tensor.extent[axis], tensor.bit_stride(axis)) for axis in tensor.extent]
    for number, (count, stride) in enumerate(zip(tm.global_dim[1:], tm.global_strides, strict=False), 1):
        bits = 8 * stride
        if (
            count > 1
            and stride
            and not any(step and bits % step == 0 and (bits == step or (count - 1) * (bits // step) < n) for n, step in axes)
        ):
            return number
    return None


def _past_end(tm: TensorMap, tensor: Tensor) -> int:
    """Bytes by which the map goes on behind the tensor, 0 or less where it does not."""
    bits = tm.type_row.bits
    dims = zip(tm.global_dim, (bits // 8, *tm.global_strides), strict=False)
    end = tm.global_address + sum((n - 1) * stride for n, stride in dims) + -(-bits // 8)
    return end - tensor.end if bits >= 8 else 0


def _other_stride(machine: Machine, name: str, tm: TensorMap, number: int, tensor: Tensor) -> CheckFinding:
    """A stride that no axis has, and the one that makes the map the tensor's: that of an axis, or of a dimension that goes on where another ends."""
    where, stride = f"map.{name}", tm.global_strides[number - 1]
    dims = list(zip(tm.global_dim, (tm.type_row.bits / 8, *tm.global_strides), strict=False))
    steps = [tensor.bit_stride(axis) // 8 for axis in tensor.extent if axis != tensor.contiguous]
    counted = [step for step in steps if step == stride * dims[0][1]]  # elements instead of bytes
    old = list(tm.global_strides)
    for wanted in dict.fromkeys([*counted, *steps, *(int(n * step) for n, step in dims)]):
        new = [wanted if i == number - 1 else x for i, x in enumerate(old)]
        if wanted != stride and new.count(wanted) == 1 and _describes(machine, name, new, tensor):
            break
    else:
        new, wanted = [], 0
    listed = ", ".join(f"{axis} {tensor.bit_stride(axis) / 8:g}" for axis in tensor.extent)
    why = f": {stride} elements of {dims[0][1]:g} B, and the driver counts bytes" if wanted in counted else ""
    return finding("T207", f"{where}.global_strides", f"map {name}",
                   f"global_strides[{number - 1}] = {stride} B, the step of dimension {number}; {tensor.name} has {listed}",
                   f"global_strides[{number - 1}] = {wanted}{why}" if new else "the tensor's byte strides",
                   numbers={"stride": stride}, fix=(f"{where}.global_strides", old, new) if new else None)  # fmt: skip


def _describes(machine: Machine, name: str, strides: list[int], tensor: Tensor) -> bool:
    """Is the map with other strides one of the tensor?"""
    raw = machine.raw_maps[name]
    if "raw" in raw:
        return False
    try:
        other = machine.map_of(raw, global_strides=strides)
    except SmemsimError:
        return False
    return _odd_dimension(other, tensor) is None and _past_end(other, tensor) <= 0
