"""Ordinary loads and stores of threads through the layout that the software believes in."""

from __future__ import annotations

import numpy as np

from smemsim.base.errors import InputError
from smemsim.core.finding import Fix, Path
from smemsim.core.spec.swizzles import MODES
from smemsim.core.tables import mistake
from smemsim.diagnosis.report import share_rows
from smemsim.diagnosis.scenario import ThreadsStep
from smemsim.diagnosis.scenario_machine import (
    NAMES,
    Counts,
    Issue,
    Machine,
    Rerun,
    SharedBuffer,
    SharedLayout,
    finding,
    no_rerun,
    swizzle_changes,
)
from smemsim.diagnosis.tensors import GlobalTensor

__all__ = ["refused_for_its_swizzle", "threads_step"]


def refused_for_its_swizzle(machine: Machine, buffer: str) -> list[Path]:
    """Maps that would have filled the buffer, refused only because their box is wider than their swizzle."""
    why = machine.failed.get(buffer)
    if why is None or why.path.table != "map":
        return []
    return [why.path] if {f.code for f in machine.findings if f.path == why.path} == {"T202"} else []


def threads_step(machine: Machine, number: int, step: ThreadsStep, *, hardware: set[str], rerun: Rerun = no_rerun) -> None:
    """Write a tile into a buffer, or read it and compare; `hardware` are the buffers that
    TMA or the tensor core touch.
    """
    where, title = Path.of("step", number), f"step[{number}] (threads)"
    buffer, tensor = machine.buffers[step.buffer], machine.tensors[step.tensor]
    layout = buffer.layout
    if layout is None:
        raise mistake(where, f"buffer.{buffer.name} has no layout: needs what the software believes it is")
    if layout.first_alias():
        return  # said of the buffer
    base = buffer.at(step.stage or 0)
    if not phase(machine, where, title, buffer, base) and buffer.name in hardware:
        shifted(machine, title, buffer, base)
    mn, k_byte, wanted = tile(layout, tensor, step)
    addresses = layout.addresses(base, mn, k_byte)
    if addresses.max(initial=0) >= machine.memory.size or addresses.min(initial=0) < 0:
        machine.say(
            finding(
                "A107",
                where,
                title,
                f"the threads reach {int(addresses.max()):#x}, past the end of the shared window",
                "a smaller layout, or a lower address",
            )
        )
        return
    machine.inside(where, title, buffer, [addresses.reshape(-1)])
    if not step.reads:
        machine.write(addresses, Issue(number, 0, buffer.name, f"threads, through the layout of {buffer.name}", wanted.reshape(-1)))
        return
    machine.touch(addresses)
    read = machine.memory.source(addresses)
    wrong = (read != wanted) & (wanted >= 0)
    if wrong.any():
        mismatch(machine, number, buffer, base, tensor, (mn, k_byte, wanted), wrong, rerun)


def tile(layout: SharedLayout, tensor: GlobalTensor, step: ThreadsStep) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(mn, k) of every byte as the layout counts them, and the global byte that belongs there."""
    axes, contiguous = step.axes, step.contiguous
    if any(axis not in tensor.extent for axis in axes):
        raise InputError(f"axes = {list(axes)}: needs two axes of {tensor.name} ({', '.join(tensor.extent)})")
    if axes[0] != axes[1]:
        contiguous = {axes[0]: "mn", axes[1]: "k"}.get(contiguous, contiguous)
    if contiguous not in ("mn", "k"):
        raise InputError(
            f"contiguous = {step.contiguous!r}: needs 'k' or 'mn', the axis of the layout that counts bytes, or one of axes = {list(axes)}"
        )
    lines, bytes_ = layout.extents()
    mn, k = np.meshgrid(np.arange(lines), np.arange(bytes_), indexing="ij")
    at = step.at or (0, 0)
    bits = tensor.fmt.bits
    along_k = contiguous == "k"
    byte = k if along_k else mn
    element, rest = byte * 8 // bits, np.where(bits >= 8, byte % max(bits // 8, 1), 0)
    rows, columns = (at[0] + mn, at[1] + element) if along_k else (at[0] + element, at[1] + k)
    wanted = tensor.byte_addresses(axes, rows, columns)
    return mn, k, np.where(wanted >= 0, wanted + rest, wanted)


def phase(machine: Machine, where: Path, title: str, buffer: SharedBuffer, base: int) -> bool:
    """Software XORs offsets, hardware XORs addresses: the base must not be inside a period."""
    layout = buffer.layout
    if layout is None or layout.on_addresses or not layout.mode.mask or base % layout.mode.period == 0:
        return False
    period = layout.mode.period
    good = -(-base // period) * period
    machine.say(finding("A105", where, title,
                        f"{buffer.name} is at {base:#x}, {base % period} B past a multiple of {period} B",
                        f"place {buffer.name} at {good:#x}",
                        why=f"the layout XORs offsets from the start of {buffer.name}, but TMA and the tensor core XOR addresses: their patterns are {base % period} B apart", numbers={"base": base, "period": period, "phase": base % period // 128},
                        changes=(Fix(Path.of("buffer", buffer.name, "address"), base, good),)))  # fmt: skip
    return True


def shifted(machine: Machine, title: str, buffer: SharedBuffer, base: int) -> None:
    """The base happens to be good, and its declared alignment does not promise that."""
    layout, align = buffer.layout, buffer.declared_align
    if layout is None or layout.on_addresses or not layout.mode.mask or align is None or align % layout.mode.period == 0:
        return
    machine.say(finding("A106", Path.of("buffer", buffer.name, "declared_align"), title,
                        f"{buffer.name} is at {base:#x}, a multiple of {layout.mode.period} B, but its declared alignment is {align} B",
                        f"declared_align = {layout.mode.period}",
                        why=f"the swizzle pattern begins at a multiple of {layout.mode.period} B; another build may place the buffer elsewhere"))  # fmt: skip


def mismatch(
    machine: Machine,
    number: int,
    buffer: SharedBuffer,
    base: int,
    tensor: GlobalTensor,
    tile_: tuple[np.ndarray, ...],
    wrong: np.ndarray,
    rerun: Rerun,
) -> None:
    """Threads read other bytes than they mean to: for want of the right swizzle?"""
    where, title = Path.of("step", number), f"step[{number}] (threads)"
    mn, k_byte, wanted = tile_
    layout = buffer.layout
    assert layout is not None
    if any(f.code == "A105" and f.path == where for f in machine.findings):
        return
    at = tuple(int(x[0]) for x in np.nonzero(wrong))
    read = int(machine.memory.source(layout.addresses(base, mn[at], k_byte[at])))
    first = f"({int(mn[at])}, {int(k_byte[at])}): reads {tensor.named(read) if read >= 0 else NAMES[read]}, needs {tensor.named(int(wanted[at]))}"
    share = share_rows(int(wrong.sum()), wrong.size, "bytes", first)
    counts: Counts = {"wrong": int(wrong.sum()), "of": wrong.size}
    for target in refused_for_its_swizzle(machine, buffer.name):
        again = rerun({target / "swizzle": str(layout.mode.swizzle)})
        if again is not None and (again.memory.source(layout.addresses(base, mn, k_byte)) == wanted).all():
            now = machine.arguments[target.name].swizzle_given
            machine.findings[:] = [f for f in machine.findings if f.path != target]
            machine.say(finding("R501", where, title, f"{target} has swizzle {now}; the layout of {buffer.name} has {layout.mode.swizzle}", why=f"the box is too wide for swizzle {now}", repair=
                                f"{target}.swizzle = {layout.mode.swizzle}", changes=(Fix(target / "swizzle", now, str(layout.mode.swizzle)),), **counts))  # fmt: skip
            return
    if buffer.name in machine.failed:
        machine.say(
            finding(
                "R508",
                where,
                title,
                "the threads read other bytes than intended",
                cause=machine.failed[buffer.name],
                halves=share,
                **counts,
            )
        )
        return
    for mode in MODES.values():
        other = SharedLayout(mode, True, layout.mn, layout.k)
        if mode.swizzle is not layout.mode.swizzle and (machine.memory.source(other.addresses(base, mn, k_byte)) == wanted).all():
            path, values = swizzle_changes(buffer)
            new, now = (
                values.get(str(mode.swizzle), str(mode.swizzle)),
                str(layout.mode.swizzle) if buffer.cute is None else buffer.cute,
            )
            machine.say(finding("R501", where, title, f"the bytes were written with swizzle {mode.swizzle}; the layout of {buffer.name} has {layout.mode.swizzle}", halves=share, tried=True, repair=
                                f"{path} = {new}", changes=(Fix(path, now, new),), **counts))  # fmt: skip
            return
    code = "R507" if read < 0 else "R508"
    machine.say(
        finding(
            code,
            where,
            title,
            "the threads read uninitialised bytes" if read < 0 else "the threads read other bytes than intended",
            halves=share,
            **counts,
        )
    )
