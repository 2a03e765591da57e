"""The device of this process, and the doors that open when a library is imported.

A Python program has its device in its own process: torch's CPU memory is the device's memory, and nothing is copied.
There is one device for each process, made when it is first used; all doors share it. A child made by fork has the
parent's device as it was.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from smemsim.base.errors import InputError
from smemsim.core.spec.architectures import any_architecture
from smemsim.virtual.telling import RemoteWriter
from smemsim.virtual.turns import Turn, once

if TYPE_CHECKING:
    from smemsim.core.spec.cards import Card
    from smemsim.virtual.device import VirtualDevice
    from smemsim.virtual.policy import Policy
    from smemsim.virtual.telling import Teller

__all__ = ["DOORS", "card", "choose", "device", "has_device", "has_taint", "open_on_import", "tell_to", "worked"]


# A library, and the module whose `install` opens its door once it is imported; `before_import`, where there is one,
# comes before that.
DOORS = {
    "torch": "smemsim.virtual.torch", "triton": "smemsim.virtual.triton", "cutlass": "smemsim.virtual.cutedsl",
    "triton.profiler": "smemsim.virtual.proton", "torch._subclasses.fake_tensor": "smemsim.virtual.torch_fake",
    "tilelang.profiler.bench": "smemsim.virtual.benchmarks",
    "cupy": "smemsim.virtual.outside", **dict.fromkeys(("jax_plugins.xla_cuda12", "jax_plugins.xla_cuda13"), "smemsim.virtual.jax"),
    **{f"cuda.bindings.{name}": "smemsim.virtual.static_runtime" for name in (
        "_internal.runtime", "_internal.runtime_ptds", "_bindings.cyruntime", "_bindings.cyruntime_ptds",
    )},
    **{f"cuda.bindings.{name}": "smemsim.virtual.line_info" for name in ("_internal.nvrtc", "_internal.nvjitlink", "_bindings.cynvrtc")},
}  # fmt: skip
_chosen: dict[str, Any] = {}


def choose(arch: str | None = None, *, policy: Policy | None = None, **of_card: Any) -> str:
    """Choose the card of this process, "sm_100a" or "RTX 5090", and the policy; default: the environment. Returns the
    architecture.

    `of_card` are `multiprocessors`, `memory_bytes` and `card`. Raises InputError if no card is given, or if another
    one was chosen before.
    """
    from smemsim.core.spec.cards import card_named

    product = of_card.get("card") or (arch if arch and not arch.startswith("sm_") else None)
    if product:
        of_card["card"], arch = card_named(product).name, card_named(product).arch
    name = arch or _chosen.get("arch") or os.environ.get("SMEMSIM_ARCH")
    if not name:
        raise InputError(
            "no architecture is given; choose a card: install('sm_90a') (H200), 'sm_100a' (B200), 'sm_103a' (B300), 'RTX 5090' …, or SMEMSIM_ARCH"
        )
    name = any_architecture(name).name
    if _chosen.get("arch", name) != name:
        raise InputError(f"arch = {name}: this process has a device of {_chosen['arch']} already; start another process")
    _chosen["arch"] = name
    wanted = {key: value for key, value in {"policy": policy, **of_card}.items() if value is not None}
    if wanted.get("card") == _chosen.get("card"):
        wanted.pop("card", None)
    if has_device():
        if "policy" in wanted:
            device().policy = wanted.pop("policy")
        if wanted:
            raise InputError(f"{', '.join(wanted)}: the device of this process is in use already; choose before its first use")
    _chosen.update(wanted)
    return name


def card() -> Card:
    """The card of this process."""
    from smemsim.core.spec.cards import card_named

    arch = choose()
    return card_named(_product(arch) or arch)


def _product(arch: str) -> str | None:
    """The name of the product, if one was chosen, or if the environment names one of this architecture."""
    from smemsim.core.spec.cards import card_named

    name = _chosen.get("card") or os.environ.get("SMEMSIM_CARD")
    return name if name and card_named(name).arch == arch else None


def has_device() -> bool:
    """Was the device used yet?"""
    return device.cache_info().currsize > 0


def has_taint() -> bool:
    """Have kernels stored uninitialised values that nothing has overwritten?"""
    return has_device() and device().taint.memory is not None


def worked() -> None:
    """Something has worked on the device that is no launch: what was launched is over."""
    if has_device():
        device().nothing_in_front()


@once
def device() -> VirtualDevice:
    """The device of this process."""
    from smemsim.virtual.device import VirtualDevice

    arch = choose()
    numbers = {key: os.environ.get(f"SMEMSIM_{key.upper()}") for key in ("multiprocessors", "memory_bytes")}
    of_card: dict[str, Any] = {key: int(value) for key, value in numbers.items() if value and value.isdecimal() and len(value) <= 18}
    of_card["card"] = _product(arch)
    made = VirtualDevice(arch, **{**of_card, **{key: value for key, value in _chosen.items() if key != "arch"}})
    own = str(os.getpid())
    first = os.environ.get("SMEMSIM_FIRST") or own  # what this process starts inherits it
    os.environ["SMEMSIM_FIRST"] = first
    made.label = "" if first == own else f"{own}-"

    def in_child() -> None:
        # names of its files; the thread that had the turn is not there
        made.label, made.turn = f"{os.getpid()}-", Turn()

    os.register_at_fork(after_in_child=in_child)
    teller = _teller()
    if teller is not None:
        made.listeners.begins, made.listeners.ended, made.listeners.again = teller.begin, teller.end, teller.again
        made.code.refuses = teller.refuse
    elif not made.label and not os.environ.get("PYTEST_XDIST_WORKER") and (made.policy.record or made.policy.report):
        from smemsim.virtual.record import clear

        clear(made.policy)
    return made


def tell_to(teller: Teller) -> None:
    """Choose the receiver of this process's launch reports, instead of `smemsim exec`."""
    _chosen_teller.append(teller)


_chosen_teller: list[Teller] = []


def _teller() -> Teller | None:
    if _chosen_teller:
        return _chosen_teller[-1]
    name = os.environ.get("SMEMSIM_SOCKET")
    return RemoteWriter(name) if name else None


# ---- Doors that open when a library is imported


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the libraries of `DOORS` where they are, and opens their doors once they are imported."""

    def __init__(self, doors: Mapping[str, str]) -> None:
        self.doors = dict(doors)
        self._is_looking = False

    def find_spec(self, name: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        """The importlib hook. Programs also call it without importing."""
        if name not in self.doors or self._is_looking:
            return None
        self._is_looking = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._is_looking = False
        if spec is not None and spec.loader is not None:
            setattr(spec.loader, "exec_module", self._then(spec.loader.exec_module, name))  # noqa: B010  (of this loader alone)
        return spec

    def _then(self, execute: Callable[[Any], None], name: str) -> Callable[[Any], None]:
        def exec_module(module: Any) -> None:
            door = self.doors.pop(name, None)
            opening = importlib.import_module(door) if door is not None else None
            getattr(opening, "before_import", lambda: None)()
            execute(module)
            if opening is not None:
                opening.install()

        return exec_module


def open_on_import(doors: Mapping[str, str] = DOORS) -> None:
    """Open each door when its library is imported; now where it was already."""
    later = {}
    for name, door in doors.items():
        if name in sys.modules:
            importlib.import_module(door).install()
        else:
            later[name] = door
    sys.meta_path.insert(0, _Finder(later))
