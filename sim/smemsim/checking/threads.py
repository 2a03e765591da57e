"""Ordinary loads and stores of threads through the layout that the software believes in."""

from __future__ import annotations

from typing import Any

import numpy as np

from smemsim.checking.buffers import Buffer, Layout, swizzle_changes
from smemsim.checking.report import share_of
from smemsim.checking.simulate import NAMES, Issue, Machine, Rerun, finding, no_rerun
from smemsim.checking.tensors import Tensor
from smemsim.errors import InputError
from smemsim.spec.swizzles import MODES

__all__ = ["refused_for_its_swizzle", "threads_step"]


def refused_for_its_swizzle(machine: Machine, buffer: str) -> list[str]:
    """Maps that would have filled the buffer, refused only because their box is wider than their swizzle."""
    because = machine.failed.get(buffer)
    if because is None or not because.where.startswith("map."):
        return []
    return [because.where] if {f.code for f in machine.findings if f.where == because.where} == {"T202"} else []


def threads_step(machine: Machine, number: int, step: dict[str, Any], *, hardware: set[str], rerun: Rerun = no_rerun) -> None:
    """Write a tile into a buffer, or read it and compare; `hardware` are the buffers that TMA or the tensor core touch."""
    where, title = f"step[{number}]", f"step {number + 1} (threads)"
    buffer, tensor = machine.buffers[step.get("to", step.get("from", ""))], machine.tensors[step["tensor"]]
    layout = buffer.layout
    if layout is None:
        raise InputError(f"{where}: buffer.{buffer.name} has no layout: needs what the software believes it is")
    alias = layout.first_alias()
    if alias:
        return  # said of the buffer
    base = buffer.at(step.get("stage", 0))
    if not phase(machine, where, title, buffer, base) and buffer.name in hardware:
        shifted(machine, title, buffer, base)
    mn, k_byte, wanted = tile(layout, tensor, step)
    addresses = layout.addresses(base, mn, k_byte)
    if addresses.max(initial=0) >= len(machine.source) or addresses.min(initial=0) < 0:
        machine.say(finding("A107", where, title, f"reaches {int(addresses.max()):#x}, past the shared window"))
        return
    machine.inside(where, title, buffer, [addresses.reshape(-1)])
    if not step.get("load"):
        machine.write(addresses, wanted, Issue(number, 0, buffer.name, f"threads, through the layout of {buffer.name}"))
        return
    machine.touch(addresses)
    read = machine.source[addresses]
    wrong = (read != wanted) & (wanted >= 0)
    if wrong.any():
        mismatch(machine, number, buffer, tensor, (mn, k_byte, wanted), wrong, rerun)


def tile(layout: Layout, tensor: Tensor, step: dict[str, Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(mn, k) of every byte as the layout counts them, and the global byte that belongs there."""
    axes = step["axes"]
    if any(axis not in tensor.extent for axis in axes):
        raise InputError(f"axes = {axes}: needs two axes of {tensor.name} ({', '.join(tensor.extent)})")
    contiguous = {axes[0]: "mn", axes[1]: "k"}.get(step["contiguous"], step["contiguous"]) if axes[0] != axes[1] else step["contiguous"]
    if contiguous not in ("mn", "k"):
        raise InputError(
            f"contiguous = {step['contiguous']!r}: needs 'k' or 'mn', the axis of the layout that counts bytes, or one of axes = {axes}"
        )
    lines, bytes_ = layout.extents()
    mn, k = np.meshgrid(np.arange(lines), np.arange(bytes_), indexing="ij")
    at = step.get("at", [0, 0])
    bits = tensor.fmt.bits
    along_k = contiguous == "k"
    byte = k if along_k else mn
    element, rest = byte * 8 // bits, np.where(bits >= 8, byte % max(bits // 8, 1), 0)
    rows, columns = (at[0] + mn, at[1] + element) if along_k else (at[0] + element, at[1] + k)
    wanted = tensor.byte_addresses((axes[0], axes[1]), rows, columns)
    return mn, k, np.where(wanted >= 0, wanted + rest, wanted)


def phase(machine: Machine, where: str, title: str, buffer: Buffer, base: int) -> bool:
    """Software XORs offsets, hardware XORs addresses: the base must not be inside a period."""
    layout = buffer.layout
    if layout is None or layout.on_addresses or not layout.mode.mask or base % layout.mode.period == 0:
        return False
    period = layout.mode.period
    good = -(-base // period) * period
    machine.say(finding("A105", where, title,
                        f"{buffer.name} is at {base:#x} = {base % period} mod {period}: the layout XORs offsets (phase 0), the hardware XORs addresses "
                        f"(phase {base % period // 128}); next good base {good:#x}",
                        f"{buffer.name} at {good:#x}", numbers={"base": base, "period": period, "phase": base % period // 128},
                        fix=(f"buffer.{buffer.name}.address", base, good)))  # fmt: skip
    return True


def shifted(machine: Machine, title: str, buffer: Buffer, base: int) -> None:
    """The base happens to be good, and its declared alignment does not promise that."""
    layout, align = buffer.layout, buffer.declared_align
    if layout is None or layout.on_addresses or not layout.mode.mask or align is None or align % layout.mode.period == 0:
        return
    machine.say(finding("A106", f"buffer.{buffer.name}.declared_align", title,
                        f"{buffer.name} is at {base:#x}, a multiple of {layout.mode.period}; its declared alignment of {align} B does not guarantee that",
                        f"declared_align = {layout.mode.period}"))  # fmt: skip


def mismatch(
    machine: Machine, number: int, buffer: Buffer, tensor: Tensor, tile_: tuple[np.ndarray, ...], wrong: np.ndarray, rerun: Rerun
) -> None:
    """Threads read other bytes than they mean to: for want of the right swizzle?"""
    where, title = f"step[{number}]", f"step {number + 1} (threads)"
    mn, k_byte, wanted = tile_
    layout = buffer.layout
    assert layout is not None
    if any(f.code == "A105" and f.where == where for f in machine.findings):
        return
    at = tuple(int(x[0]) for x in np.nonzero(wrong))
    read = int(machine.source[layout.addresses(buffer.address, mn[at], k_byte[at])])
    share = share_of(int(wrong.sum()), wrong.size, "bytes")
    first = f"first: ({int(mn[at])}, {int(k_byte[at])}) reads {tensor.named(read) if read >= 0 else NAMES[read]}, meant {tensor.named(int(wanted[at]))}"
    counts: dict[str, Any] = {"wrong": int(wrong.sum()), "of": wrong.size}
    for target in refused_for_its_swizzle(machine, buffer.name):
        again = rerun({f"{target}.swizzle": str(layout.mode.swizzle)})
        if again is not None and (again.source_at(layout.addresses(buffer.at(), mn, k_byte)) == wanted).all():
            now = machine.raw_maps[target.partition(".")[2]].get("swizzle", "none")
            machine.findings[:] = [f for f in machine.findings if f.where != target]
            machine.say(finding("R501", where, title, f"{target} has swizzle {now}, for which its box is too wide; the layout has {layout.mode.swizzle}",
                                f"{target}.swizzle = {layout.mode.swizzle}", fix=(f"{target}.swizzle", now, str(layout.mode.swizzle)), **counts))  # fmt: skip
            return
    if buffer.name in machine.failed:
        machine.say(finding("R508", where, title, f"{share}; {first}", because=machine.failed[buffer.name].code, **counts))
        return
    for mode in MODES.values():
        other = Layout(mode, True, layout.mn, layout.k)
        if mode.swizzle is not layout.mode.swizzle and (machine.source_at(other.addresses(buffer.at(), mn, k_byte)) == wanted).all():
            path, values = swizzle_changes(buffer)
            new, now = (
                values.get(str(mode.swizzle), str(mode.swizzle)),
                buffer.raw_layout if isinstance(buffer.raw_layout, str) else str(layout.mode.swizzle),
            )
            machine.say(finding("R501", where, title, f"{share}; the bytes were written with swizzle {mode.swizzle}, the layout has {layout.mode.swizzle}; {first}",
                                f"{path} = {new}", fix=(path, now, new), **counts))  # fmt: skip
            return
    code = "R507" if read < 0 else "R508"
    machine.say(finding(code, where, title, f"{share}; {first}", **counts))
