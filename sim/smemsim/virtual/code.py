"""Code that a program has loaded: modules, their variables and their kernels, with the attributes that the driver
reports.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from smemsim.base.arguments import shown, suggestion
from smemsim.base.errors import SmemsimError, Unmodelled
from smemsim.core.ptx.demangle import shorter_name
from smemsim.core.spec.launches import DEFAULT_SHARED, LAUNCH_LIMITS
from smemsim.core.spec.targets import target_number
from smemsim.virtual.errors import INVALID_IMAGE, INVALID_VALUE, NOT_FOUND, NOT_PERMITTED, NOT_SUPPORTED, CudaError

if TYPE_CHECKING:
    from smemsim.core.ptx.module import Function as PtxFunction
    from smemsim.core.spec.cards import Card
    from smemsim.run.engine.launch import LinkedKernel
    from smemsim.virtual.machine import Machine, Parameter
    from smemsim.virtual.policy import Policy
    from smemsim.virtual.tile_host import HiddenParameters

__all__ = ["Function", "Module"]


# characters: PTX of several kernels, some of which a program may never launch, is linked at its load up to this size
LITTLE = 1 << 16
_DEBUG = (".loc", ".file", ".section", ".b8", ".b32", ".b64")
_FAMILIES = re.compile(r"\b(tcgen05\.\w+|wgmma\.mma_async|cp\.async\.bulk(?:\.tensor)?|mma\.sync|clusterlaunchcontrol)\b")
_KINDS = re.compile(r"\bmma(?:\.sp::ordered_metadata)?\.sync\.[\w.]*?\.(kind::\w+)")


class Device(Protocol):
    """The part of a device that loaded code needs."""

    card: Card
    policy: Policy
    tell: Callable[[str], None]

    @property
    def machine(self) -> Machine:
        """The machine that loads and executes it."""

    def check(self) -> None:
        """CudaError where the context is dead."""


class Function:
    """A kernel of a loaded module. `parameters` are its bytes in the parameter bank, in the order of the signature."""

    def __init__(self, module: Module, name: str) -> None:
        from smemsim.virtual.machine import parameters_of

        self.module, self.name = module, name
        self.source = module.source.functions[name]
        self.parameters: tuple[Parameter, ...] = parameters_of(self.source)
        self.most_dynamic: int | None = None  # what cudaFuncSetAttribute allows
        self.carveout, self.allows_large_clusters, self.policy_preference = -1, False, 0
        self.cluster_set = (0, 0, 0)
        self.parameter_names: tuple[str, ...] = ()  # of the source, if the host knows them
        self.counts_elements = False  # in tensor descriptors of the source
        self.configured: dict[Any, dict[str, Any]] = {}  # shapes of launches that were checked
        self._linked: tuple[tuple[LinkedKernel, tuple[str, ...], bool], LinkedKernel] | None = None

    @property
    def linked(self) -> LinkedKernel:
        """The program that can run. Raises InputError and Unmodelled as `Gpu.run` does."""
        kernel = self.module.kernel(self.name)
        of = (kernel, self.parameter_names, self.counts_elements)
        if self._linked is None or self._linked[0] != of:
            self._linked = of, kernel.called(self.parameter_names, counts_elements=self.counts_elements)
        return self._linked[1]

    def complete(self, given: tuple[bytes, ...]) -> tuple[bytes, ...]:
        """All parameters, of those that a program gives. Raises Unmodelled."""
        if len(given) == len(self.source.parameters):
            return given
        return self.module.hidden_parameters.make(self.name, self.source.parameters, given)

    @property
    def readable(self) -> str:
        """Its name without template arguments' details."""
        return shorter_name(self.name)

    @functools.cached_property
    def digest(self) -> str:
        """A digest of the code without its debugging information: equal for the same instructions, in any module."""
        return _digest(self.module.lines_of(self.source))

    @functools.cached_property
    def families(self) -> tuple[str, ...]:
        """Which instructions of Hopper and Blackwell it has, as "tcgen05.mma"."""
        text = "\n".join(self.module.lines_of(self.source))
        found, kinds = set(_FAMILIES.findall(text)), {f"mma.sync {kind}" for kind in _KINDS.findall(text)}
        has_plain = bool(re.search(r"\bmma(?:\.sp(?:::ordered_metadata)?)?\.sync\.(?![\w.]*\.kind::)", text))
        return tuple(sorted((found - {"mma.sync"} if kinds and not has_plain else found) | kinds))

    @property
    def directives(self) -> Mapping[str, tuple[int, ...]]:
        """Its performance directives, such as {"maxntid": (128,)}."""
        return self.source.directives

    @property
    def cluster(self) -> tuple[int, int, int]:
        """What `.reqnctapercluster` says; zeros without it."""
        from smemsim.run.engine.launch import three

        wanted = self.directives.get("reqnctapercluster")
        return three("reqnctapercluster", wanted) if wanted else self.cluster_set

    @property
    def most_threads(self) -> int:
        """Threads that a CTA may have."""
        most = self.directives.get("reqntid") or self.directives.get("maxntid")
        return min(math.prod(most), LAUNCH_LIMITS.threads) if most else LAUNCH_LIMITS.threads

    @property
    def registers(self) -> int:
        """Registers of a thread, as far as directives say: what ptxas would give it is not known."""
        if most := self.directives.get("maxnreg"):
            return most[0]
        return min(255, 65536 // self.most_threads // 8 * 8)

    @property
    def static_shared(self) -> int:
        """Bytes of shared memory that it declares."""
        return self.module.kernel(self.name).static_shared_bytes

    @property
    def dynamic_limit(self) -> int:
        """Bytes of dynamic shared memory that it may be launched with."""
        return max(0, DEFAULT_SHARED - self.static_shared) if self.most_dynamic is None else self.most_dynamic

    def attribute(self, number: int) -> int:
        """An attribute by its number in CUfunction_attribute. Decisions of ptxas are reported as the directives leave
        them.
        """
        self.module.device.check()
        named = self.module.device.card.named
        version = named("compute_capability_major") * 10 + named("compute_capability_minor")
        known: dict[int, Callable[[], int]] = {
            0: lambda: min(
                math.prod(self.directives.get("maxntid", (LAUNCH_LIMITS.threads,))), LAUNCH_LIMITS.threads
            ),  # .reqntid does not count (H200)
            1: lambda: self.static_shared,
            2: lambda: sum(v.size for v in self.module.source.variables.values() if v.space == "const"),
            3: lambda: self.module.kernel(self.name).local_bytes,
            4: lambda: self.registers,
            5: lambda: target_number(self.module.source.own_target),  # what it was compiled for: CUB chooses by it
            6: lambda: version,
            7: lambda: 0,
            8: lambda: self.dynamic_limit,
            9: lambda: self.carveout,
            10: lambda: int("explicitcluster" in self.directives),
            **{11 + n: lambda n=n: self.cluster[n] for n in range(3)},  # type: ignore[misc]
            14: lambda: int(self.allows_large_clusters),
            15: lambda: self.policy_preference,
        }
        if number not in known:
            raise CudaError(INVALID_VALUE, f"function attribute {number}: there is no such attribute")
        try:
            return known[number]()
        except CudaError:
            raise
        except SmemsimError as e:
            self.module.device.tell(f"{self.readable}: {e}")
            raise CudaError(NOT_SUPPORTED if isinstance(e, Unmodelled) else INVALID_IMAGE, str(e)) from None

    def set_attribute(self, number: int, value: int) -> None:
        """Set an attribute: dynamic shared memory, carveout, cluster dimensions, clusters of more than eight CTAs."""
        self.module.device.check()
        if number == 8:
            most = self.module.device.card.named("max_shared_memory_per_block_optin") - self.static_shared
            if not 0 <= value <= most:
                raise CudaError(INVALID_VALUE, f"{value} bytes of dynamic shared memory: {self.readable} can have {most} at most")
            self.most_dynamic = value
        elif number == 9:
            self.carveout = value
        elif number in (11, 12, 13):
            if "reqnctapercluster" in self.directives:
                raise CudaError(NOT_PERMITTED, f"{self.readable} is compiled for a cluster (.reqnctapercluster): no call changes it")
            self.cluster_set = tuple(value if n == number - 11 else old for n, old in enumerate(self.cluster_set))  # type: ignore[assignment]
        elif number == 14:
            self.allows_large_clusters = bool(value)
        elif number == 15:
            self.policy_preference = value
        else:
            raise CudaError(INVALID_VALUE, f"function attribute {number} cannot be set")


def _digest(lines: Iterable[str]) -> str:
    code = "\n".join(text for line in lines if (text := line.partition("//")[0].strip()) and not text.startswith(_DEBUG))
    return hashlib.sha256(code.encode()).hexdigest()[:16]


class Module:
    """Loaded code: its kernels and variables. `why` is the reason for the choice among several pieces of code."""

    def __init__(self, device: Device, ptx: str, why: str, managed: Iterable[str] = (), *, cubin: bytes = b"") -> None:
        self.device, self.ptx, self.why, self._cubin = device, ptx, why, cubin
        self.loaded = device.machine.load(ptx, managed)
        self.source = self.loaded.module
        self._functions: dict[str, Function] = {}

    def check(self) -> None:
        """Raises InputError for instructions that no driver loads, where looking costs little; what is not modelled
        waits for a launch.
        """
        if len(self.names) > 1 and len(self.ptx) > LITTLE:
            return
        for name in self.names:
            with contextlib.suppress(Unmodelled):
                self.kernel(name)

    @functools.cached_property
    def hidden_parameters(self) -> HiddenParameters:
        """The source of parameters that no program passes. Raises Unmodelled."""
        if not self.device.policy.host_code:
            raise Unmodelled("it has hidden parameters, and the policy is to run no code for the host that makes them (--no-host-code)")
        from smemsim.virtual.tile_host import HiddenParameters

        return HiddenParameters(self._cubin)

    @functools.cached_property
    def digest(self) -> str:
        """A digest of the code without its debugging information: equal for the same instructions."""
        return _digest(self.ptx.splitlines())

    def lines_of(self, function: PtxFunction) -> list[str]:
        """The text of a kernel: all of a module that has no other, else what stands from its line to that of the next
        function.
        """
        lines = self.ptx.splitlines()
        if len(self.names) == 1:
            return lines
        behind = (f.line for f in self.source.functions.values() if f.line > function.line)
        return lines[function.line - 1 : min(behind, default=len(lines) + 1) - 1]

    @property
    def names(self) -> list[str]:
        """The names of its kernels."""
        return [f.name for f in self.source.entries]

    @property
    def variables(self) -> dict[str, tuple[int, int]]:
        """(address, bytes) of its variables by name."""
        return {name: self.loaded.variable(name) for name in self.loaded.addresses}

    def function(self, name: str) -> Function:
        """A kernel by its name in the PTX. CudaError 500 lists the kernels."""
        if name not in self._functions:
            if name not in self.names:
                raise CudaError(NOT_FOUND, f"there is no kernel {shown(name)}{suggestion(name, self.names)}")
            self._functions[name] = Function(self, name)
        return self._functions[name]

    def variable(self, name: str) -> tuple[int, int]:
        """(address, bytes) of a variable. CudaError 500 where there is none of this name."""
        if name not in self.loaded.addresses:
            raise CudaError(NOT_FOUND, f"there is no variable {shown(name)}{suggestion(name, self.loaded.addresses)}")
        return self.loaded.variable(name)

    def kernel(self, name: str) -> LinkedKernel:
        """A kernel that can run. Raises InputError and Unmodelled as `Gpu.run` does."""
        return self.loaded.kernel(name)
