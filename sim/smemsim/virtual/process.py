"""The device of this process, and the doors that open when a library is imported.

A Python program has its device in its own process: torch's CPU memory is the device's memory, and nothing is copied. There is one device for each
process, made when it is first used; all doors share it. A child made by fork has the parent's device as it was.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import socket
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from smemsim.errors import InputError
from smemsim.spec.architectures import architecture

if TYPE_CHECKING:
    from smemsim.spec.cards import Card
    from smemsim.virtual.device import VirtualDevice
    from smemsim.virtual.policy import Launched, Policy

__all__ = ["DOORS", "SOCKET_ENDING", "card", "choose", "device", "has_device", "open_on_import", "worked"]


# A library, and the module whose `install` opens its door once it is imported; `before_import`, where there is one, comes before that.
DOORS = {
    "torch": "smemsim.virtual.torch", "triton": "smemsim.virtual.triton", "cutlass": "smemsim.virtual.cutedsl",
    "triton.profiler": "smemsim.virtual.proton", "torch._subclasses.fake_tensor": "smemsim.virtual.torch_fake",
    "tilelang.profiler.bench": "smemsim.virtual.benchmarks",
    **dict.fromkeys(("cupy", "jax_plugins.xla_cuda12", "jax_plugins.xla_cuda13"), "smemsim.virtual.outside"),
    **{f"cuda.bindings.{name}": "smemsim.virtual.static_runtime" for name in (
        "_internal.runtime", "_internal.runtime_ptds", "_bindings.cyruntime", "_bindings.cyruntime_ptds",
    )},
}  # fmt: skip
SOCKET_ENDING = "-launches"  # of the socket on which `smemsim exec` is told what was launched
_chosen: dict[str, Any] = {}


def choose(arch: str | None = None, *, policy: Policy | None = None, **of_card: Any) -> str:
    """Say which card this process has, "sm_100a", and how findings are treated; else as the environment says. The architecture.

    `of_card` are `multiprocessors` and `memory_bytes`. Raises InputError where nothing says which card, or where it is another one already.
    """
    name = arch or _chosen.get("arch") or os.environ.get("SMEMSIM_ARCH")
    if not name:
        raise InputError(
            "no architecture is given; choose a card: install('sm_90a') (H200), 'sm_100a' (B200), 'sm_103a' (B300), or SMEMSIM_ARCH"
        )
    name = architecture(name).name
    if _chosen.get("arch", name) != name:
        raise InputError(f"arch = {name}: this process has a device of {_chosen['arch']} already; start another process")
    _chosen["arch"] = name
    wanted = {key: value for key, value in {"policy": policy, **of_card}.items() if value is not None}
    if has_device():
        if "policy" in wanted:
            device().policy = wanted.pop("policy")
        if wanted:
            raise InputError(f"{', '.join(wanted)}: the device of this process is in use already; choose before its first use")
    _chosen.update(wanted)
    return name


def card() -> Card:
    """The card of this process."""
    from smemsim.spec.cards import card_of

    return card_of(choose())


def has_device() -> bool:
    """Was the device used yet?"""
    return device.cache_info().currsize > 0


def worked() -> None:
    """Something has worked on the device that is no launch: what was launched is over."""
    if has_device():
        device().nothing_in_front()


@functools.cache
def device() -> VirtualDevice:
    """The device of this process."""
    from smemsim.virtual.device import VirtualDevice

    arch = choose()
    numbers = {key: os.environ.get(f"SMEMSIM_{key.upper()}") for key in ("multiprocessors", "memory_bytes")}
    of_card = {key: int(value) for key, value in numbers.items() if value and value.isdigit()}
    made = VirtualDevice(arch, **{**of_card, **{key: value for key, value in _chosen.items() if key != "arch"}})
    own = str(os.getpid())
    first = os.environ.get("SMEMSIM_FIRST") or own  # what this process starts inherits it
    os.environ["SMEMSIM_FIRST"] = first
    made.label = "" if first == own else f"{own}-"
    name = os.environ.get("SMEMSIM_SOCKET")
    if name:
        teller = _Teller(name)
        teller.open()
        made.begins, made.ended, made.refuses = teller.begin, teller.tell, teller.refuse
    elif not made.label and not os.environ.get("PYTEST_XDIST_WORKER") and (made.policy.record or made.policy.report):
        from smemsim.virtual.record import clear

        clear(made.policy)
    return made


class _Teller:
    """Tells `smemsim exec`, under which this process runs, of each launch."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._channel: socket.socket | None = None
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        """A child has a channel of its own."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def open(self) -> None:
        """Tell that this process has a device."""
        self._send(b"")

    def tell(self, launched: Launched) -> None:
        """Tell of a launch that is over."""
        from smemsim.virtual.policy import line_of

        self._send(line_of(launched))

    def begin(self, launched: Launched) -> None:
        """Tell of a launch that begins."""
        from smemsim.virtual.policy import line_of_begun

        self._send(line_of_begun(launched))

    def refuse(self, why: str) -> None:
        """Tell of code that is not simulated."""
        from smemsim.virtual.policy import line_of_refused

        self._send(line_of_refused(why))

    def _send(self, line: bytes) -> None:
        with contextlib.suppress(OSError):
            if self._channel is None:
                self._channel = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                self._channel.connect(f"\0{self.name}{SOCKET_ENDING}")
            self._channel.sendall(line)


# ---- Doors that open when a library is imported


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the libraries of `DOORS` where they are, and opens their doors once they are imported."""

    def __init__(self, doors: Mapping[str, str]) -> None:
        self.doors = dict(doors)
        self._is_looking = False

    def find_spec(self, name: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        """See importlib. Programs ask without importing, too."""
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
