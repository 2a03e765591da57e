"""The launches of a device: refusals of the driver, the policy, the run, and its report."""

from __future__ import annotations

import dataclasses
import math
import struct
import sys
import time
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from smemsim.base.errors import InputError, SmemsimError, Unmodelled
from smemsim.base.terminal import PREFIXED
from smemsim.core.finding import PTX_LINE, Finding
from smemsim.core.picture.message import coloured, plain, wants_colour
from smemsim.core.spec.cards import HEAP_LIMIT
from smemsim.core.spec.launches import LAUNCH_LIMITS
from smemsim.core.spec.traps import TIMEOUT
from smemsim.virtual.clusters import check_size, chosen, given_cluster, required
from smemsim.virtual.errors import (
    COOPERATIVE_TOO_LARGE,
    INVALID_VALUE,
    LAUNCH_FAILED,
    NOT_SUPPORTED,
    CudaError,
)
from smemsim.virtual.graphs import Condition, Node
from smemsim.virtual.policy import FindingsError, HookedLaunch, Launched, hook_failed, hooks_of

if TYPE_CHECKING:
    import re

    import numpy as np

    from smemsim.core.machine.stored_taint import StoredTaint
    from smemsim.core.spec.cards import Card
    from smemsim.diagnosis.run import Run
    from smemsim.virtual.attributes import CardAttributes
    from smemsim.virtual.code import Function
    from smemsim.virtual.host import Host
    from smemsim.virtual.machine import Machine
    from smemsim.virtual.memory import Allocation, DeviceMemory
    from smemsim.virtual.occupancy import Occupancy
    from smemsim.virtual.policy import Hook, Policy
    from smemsim.virtual.record import Recorder
    from smemsim.virtual.streams import Stream, StreamOrder

__all__ = ["Launcher", "Listeners"]


MOST_CONFIGURED = 256  # shapes of launches that a kernel remembers
LAST_PAGES = 3  # launches of a kernel without findings that get a page


class Device(Protocol):
    """The parts of the device that launching needs."""

    card: Card
    policy: Policy
    label: str
    memory: DeviceMemory
    host: Host
    occupancy: Occupancy
    launches: list[Launched]
    conditions: dict[int, Condition]
    order: StreamOrder
    tell: Callable[[str], None]

    @property
    def arch(self) -> str:
        """Its architecture."""

    @property
    def multiprocessors(self) -> int:
        """How many it has."""

    @property
    def attributes(self) -> CardAttributes:
        """The card's attributes and limits."""

    @property
    def listeners(self) -> Listeners:
        """The functions that are called about launches."""

    @property
    def machine(self) -> Machine:
        """The machine that executes."""

    @property
    def has_garbage(self) -> bool:
        """Is there garbage in memory that is allocated?"""

    def view(self, address: int, size: int) -> np.ndarray:
        """The bytes there."""

    def check(self) -> None:
        """CudaError where the context is dead."""

    def fail(self, code: int) -> None:
        """The context is dead from now on."""

    def mirror(self, *, to_device: bool) -> None:
        """Copy registered memory of another process."""

    def asked_for(self, address: int) -> Allocation | None:
        """The allocation that holds an address."""


@dataclasses.dataclass(eq=False)
class Listeners:
    """Functions that a device calls. Each launch is passed to `begins` at its start and to `ended` at its end. A launch
    whose findings change by later launches is passed to `again`. The function `ask_host` is called with an address that
    may be the host's. It binds that memory if the card may use it.
    """

    begins: Callable[[Launched], None] = lambda about: None
    ended: Callable[[Launched], None] = lambda about: None
    again: Callable[[Launched], None] = lambda about: None
    ask_host: Callable[[int], None] | None = None


class Launcher:
    """The launcher of a device's kernels, by the device's policy and within its limits."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.hooks: list[tuple[re.Pattern[str], Hook]] = hooks_of(device.policy.hooks)
        self._began: float | None = None  # when the first launch was asked for
        self._is_over = ""  # why nothing runs any more
        self._told_of_ctas = False
        self._sampled: set[tuple[str, tuple[int, ...]]] = set()  # kernels and grids whose CTAs were reported
        self._has_no_room = False  # for what is kept of launches
        self._remarked: set[str] = set()  # remarks on broken rules that were printed
        # by their findings: launches that have stored uninitialised values which are not used yet
        self._open: dict[int, tuple[Launched, Run]] = {}
        self._told: dict[int, list[str]] = {}  # of these launches, what has been printed
        self.again: list[Launched] = []  # launches that were reported again (`report_again`)
        self._pages: dict[str, int] = {}  # launches of a kernel so far
        self._last: dict[tuple[str, tuple[int, ...]], Launched] = {}  # of a kernel with a grid
        self.in_front: dict[
            Stream | None, Any
        ] = {}  # what the last launch of a stream has done, while the next one may begin before its end

    @property
    def has_let_next_begin(self) -> bool:
        """Has a launch that may still run executed griddepcontrol.launch_dependents?"""
        return any(history.releases_dependents for done in self.in_front.values() for history in done)

    def ask(self, function: Function, grid: Any, block: Any, cluster: Any, shared_bytes: int) -> None:
        """A launch is asked for: it is counted where the program's use of the device is over."""
        if self._is_over:
            self._refuse(self._asked(function, grid, block, cluster, shared_bytes))

    def node(
        self, function: Function, grid: Any, block: Any, arguments: bytes | Sequence[bytes], *, cluster: Any = None, shared_bytes: int = 0,
        cooperative: bool = False, dependent: bool = False, stream: Stream | None = None,
    ) -> Node:  # fmt: skip
        """A launch that has not run, for a graph; arguments as for `launch`."""
        self.device.check()
        key = (grid, block, cluster, shared_bytes, function.dynamic_limit, function.allows_large_clusters, function.cluster_set)
        is_kept = not cooperative and _is_plain(key)  # of cooperative ones, the number of multiprocessors counts too
        config = function.configured.get(key) if is_kept else None
        if config is None:
            config = self._configured(function, grid, block, cluster, shared_bytes, cooperative)
            if is_kept and len(function.configured) < MOST_CONFIGURED:
                function.configured[key] = config
        given: tuple[bytes, ...] = (
            tuple(arguments[p.offset : p.offset + p.size] for p in function.parameters)
            if isinstance(arguments, bytes)
            else tuple(arguments)
        )
        if [len(a) for a in given] != [p.size for p in function.parameters]:
            wanted = ", ".join(str(p.size) for p in function.parameters)
            raise CudaError(INVALID_VALUE, f"{function.readable} has parameters of {wanted or 'no'} bytes, not {[len(a) for a in given]}")
        info = {"function": function, "config": config, "arguments": given}

        # in a graph, after a copy or another node that is not a kernel, it starts when that is complete
        def run() -> Run | None:
            is_early = dependent and all(before.kind == "kernel" for before in node.after)
            return self._run_behind(function, config, given, stream, dependent=is_early)

        node = Node("kernel", run, info)
        return node

    def _configured(self, f: Function, grid: Any, block: Any, cluster: Any, shared_bytes: int, cooperative: bool) -> dict[str, Any]:
        """The shape of a launch, checked like the driver does. CudaError names the first broken limit."""
        self.device.check()
        required(f)
        threads = _block(f, block)
        given = given_cluster(cluster)
        shape = _grid(f, grid)
        own = chosen(f, given)
        check_size(f, own or (1, 1, 1), shape)
        if cooperative and math.prod(shape) > self._at_once(f, math.prod(threads), shared_bytes, own):
            raise CudaError(COOPERATIVE_TOO_LARGE, f"grid = {shape}: not all CTAs are on the card at once, as a cooperative launch needs")
        if shared_bytes > f.dynamic_limit:
            raise CudaError(
                INVALID_VALUE,
                f"{shared_bytes} bytes of dynamic shared memory: {f.readable} may have {f.dynamic_limit}; cudaFuncSetAttribute allows more",
            )
        told = {"cooperative": True} if cooperative else {}
        return {"grid": shape, "block": threads, "cluster": own, "shared_bytes": shared_bytes, **told}

    def _at_once(self, f: Function, threads: int, shared_bytes: int, cluster: tuple[int, ...] | None) -> int:
        """CTAs of a launch that the card holds at once."""
        if cluster is None:
            return self.device.multiprocessors * self.device.occupancy.blocks_per_multiprocessor(f, threads, shared_bytes)
        size = math.prod(cluster)
        return size * self.device.occupancy.clusters_at_once(f, threads, shared_bytes, size)

    def _run_behind(
        self, f: Function, config: dict[str, Any], arguments: tuple[bytes, ...], stream: Stream | None, *, dependent: bool
    ) -> Run | None:
        """Execute a launch of a stream now, concurrent with earlier launches if it is `dependent`."""
        from smemsim.run.engine.grid import in_front

        after = self.in_front.pop(stream, None)
        if not dependent:
            after = None  # its tables are free before the launch makes its own
        run = self._run(f, config, arguments, after)
        if run is not None and (done := in_front(run.launch)):
            self.in_front[stream] = done
        return run

    def _run(self, f: Function, config: dict[str, Any], arguments: tuple[bytes, ...], after: Any) -> Run | None:
        """Execute a launch now."""
        self.device.check()
        about = Launched(
            len(self.device.launches) + 1, f.readable, f.name, config["grid"], config["block"], config["cluster"] or (1, 1, 1), config["shared_bytes"],
            ptx=f.digest, families=f.families, is_beside=self.device.order.is_beside,
        )  # fmt: skip
        if self._began is None:
            self._began = time.monotonic()
        if self._is_out(about):
            return None
        self.device.launches.append(about)
        self.device.listeners.begins(about)
        try:
            return self._execute(f, config, arguments, about, after)
        finally:
            about.is_like(self._last.get(key := (f.name, about.grid), about))
            self._last[key] = about
            self.device.listeners.ended(about)

    def _execute(self, f: Function, config: dict[str, Any], arguments: tuple[bytes, ...], about: Launched, after: Any) -> Run | None:
        self.device.host.materialize()
        self.device.mirror(to_device=True)
        self._look_up(arguments)
        begin = time.perf_counter()
        from smemsim.run.engine.launch import LIMIT

        try:
            if self._hooked(f, config, arguments):
                self.device.machine.forget_garbage()
                about.seconds = time.perf_counter() - begin
                self.device.mirror(to_device=False)
                return self._done(about, None, "run by a hook")
            self.device.machine.set_heap(self.device.attributes.limits[HEAP_LIMIT], is_littered=self.device.has_garbage)
            recorder = self._recorder(f, config, arguments := f.complete(arguments), about.number)
            run, error = self.device.machine.run(
                f.linked, arguments, config, sanitize=self.device.policy.is_watched(f.name), watch_global=self.device.policy.watch_global,
                limit=self.device.policy.limit or LIMIT,
                limit_seconds=self._seconds_of_a_launch(), ctas=self._ctas(config), progress=not self.device.policy.quiet, name=f"{f.readable}{PTX_LINE}",
                workers=self.device.policy.workers, cancel=self.device.policy.cancel, schedule=self.device.policy.schedule, assume=self.device.policy.assume,
                after=after, multiprocessors=self.device.multiprocessors, overrun=self.device.policy.overrun or 0, counters=self.device.policy.counters,
                pipeline=self.device.policy.pipeline, sources=self.device.policy.sources,
            )  # fmt: skip
        except SmemsimError as e:
            self.device.machine.forget_garbage()
            about.seconds = time.perf_counter() - begin
            about.refused, about.error = str(e), NOT_SUPPORTED if isinstance(e, Unmodelled) else LAUNCH_FAILED
            self._done(about, None, f"not run: {'not modelled: ' if isinstance(e, Unmodelled) else ''}{e}")
            raise CudaError(about.error, str(e)) from None
        about.seconds = time.perf_counter() - begin
        self.device.mirror(to_device=False)
        if run.out_of_time:
            self.device.machine.forget_garbage()
        self._tell_host(run)
        about.error, about.is_fine, about.run = error, self.device.policy.is_fine(run), _without_time(run)
        if recorder is not None:
            self._keep(recorder.write, run)
        about.named = () if about.is_fine else self._named_in(run)
        self._keep(self._page, about, run)
        about.has_no_files = self._has_no_room
        self._done(about, run, "")
        self._keep_open(about, run)
        self.report_again()
        if run.interrupted:
            raise KeyboardInterrupt
        if error:
            self.device.fail(error)
        if (
            about.is_fine or self.device.policy.on_finding != "raise" or (error and run.asserted)
        ):  # an assertion is printed like a card does
            return run
        if not error:
            about.error = LAUNCH_FAILED
            self.device.fail(LAUNCH_FAILED)
        if self.device.host.shares_memory:
            raise FindingsError(run)
        return run

    @property
    def _taint(self) -> StoredTaint:
        return self.device.machine.memory.taint

    def _keep_open(self, about: Launched, run: Run) -> None:
        """Keep a launch if it has stored uninitialised values that are not used yet."""
        findings, taint = run.launch.result.findings, self._taint
        taint.due = [doubt for doubt in taint.due or () if doubt.findings is not findings]
        open_ = {id(doubt.findings) for doubt in (*taint.doubts, *taint.due)}
        self._open = {key: held for key, held in self._open.items() if key in open_}
        self._told = {key: texts for key, texts in self._told.items() if key in open_}
        if id(findings) in open_:
            self._open[id(findings)], self._told[id(findings)] = (about, run), [] if about.is_fine else self._texts(run)

    @staticmethod
    def _texts(run: Run) -> list[str]:
        return [text for _, text in run.entries()]

    def report_again(self) -> None:
        """Report earlier launches again whose stored values are used now: their remarks are findings. If the host has
        only copied such values, the remarks say so. Raises as a launch with findings does.
        """
        due, self._taint.due = self._taint.due or [], []
        used = {id(doubt.findings) for doubt in due if doubt.is_used}
        again = [self._open[key] for key in dict.fromkeys(id(doubt.findings) for doubt in due) if key in self._open]
        for about, run in again:
            about.run, about.is_fine, about.named = _without_time(run), self.device.policy.is_fine(run), self._named_in(run)
            if about.page:
                self._keep(self._page_again, about, run)
            if (key := id(run.launch.result.findings)) in used:
                before, self._told[key] = self._told[key], self._texts(run)
                new = {n for n, (f, text) in enumerate(run.entries()) if text not in before and str(f) not in self._remarked}
                if new:
                    self._done(about, run, "", then="; a value that it stored is used now", only=new)
                self.again.append(about)
            elif self.device.policy.remarks:
                self._done(about, run, "", then="; the host has copied a value that it stored")
            self.device.listeners.again(about)
        if any(not about.is_fine for about, _ in again) and self.device.policy.on_finding == "raise":
            self.device.fail(LAUNCH_FAILED)
            if self.device.host.shares_memory:
                raise FindingsError(again[0][1])
            self.device.check()

    def _page_again(self, about: Launched, run: Run) -> None:
        from smemsim.virtual import record

        assert self.device.policy.report is not None
        about.page = record.write_page(self.device.policy.report, f"{self.device.label}{about.number:04}", run, about.named)

    def _keep(self, write: Callable[..., None], *what: Any) -> None:
        """Write the record of a launch. If that fails (the disk is full), it is reported once, and the program
        continues.
        """
        try:
            write(*what)
        except InputError as e:
            self._has_no_room = True
            self.device.tell(f"{e}; no launch is kept from here on")

    def _tell_host(self, run: Run) -> None:
        """The text that the kernel has printed, and its values of conditional handles (cudaGraphSetConditional)."""
        for text, is_error in (("".join(run.launch.result.output), False), (run.asserted, True)):
            if text:
                self.device.host.write(text, is_error=is_error)
        for handle, value in run.launch.result.conditions.items():
            if handle not in self.device.conditions:
                self.device.tell(
                    f"cudaGraphSetConditional: {handle:#x} is no conditional handle (cudaGraphConditionalHandleCreate); nothing is set"
                )
            else:
                self.device.conditions[handle].value = value

    def _look_up(self, arguments: tuple[bytes, ...]) -> None:
        """Ask for what lies where a word of the arguments points: a pointer, a member of a structure, the first word of
        a tensor map.
        """
        if self.device.listeners.ask_host is not None:
            for raw in arguments:
                for (word,) in struct.iter_unpack("<Q", raw[: len(raw) // 8 * 8]):
                    self.device.asked_for(word)

    def _recorder(self, f: Function, config: dict[str, Any], arguments: tuple[bytes, ...], number: int) -> Recorder | None:
        if self.device.policy.record is None or self._has_no_room:
            return None
        from smemsim.virtual.record import Recorder

        return Recorder(self.device, f, config, arguments, number)

    def _ctas(self, config: dict[str, Any]) -> list[int | str] | None:
        """The CTAs of the policy that this grid has; its first one, and a word about it, if it has none of them."""
        if self.device.policy.ctas is None:
            return None
        count = math.prod(config["grid"])
        found = [n for n in self.device.policy.ctas if isinstance(n, str) or n < count]
        if not found and not self._told_of_ctas:
            self._told_of_ctas = True
            self.device.tell(
                f"--ctas {self.device.policy.ctas[0]}: a grid of {count} CTA{'s' * (count != 1)} has none of these; CTA 0 of such grids is run"
            )
        return found or [0]

    def _seconds_left(self) -> float | None:
        """The remaining time of the program on the device; None without a limit."""
        total = self.device.policy.total_seconds
        if total is None or self._began is None:
            return total
        return max(0.0, total - (time.monotonic() - self._began))

    def _seconds_of_a_launch(self) -> float | None:
        """How long a launch may run that begins now."""
        limits = [seconds for seconds in (self.device.policy.limit_seconds, self._seconds_left()) if seconds is not None]
        return max(min(limits), 0.001) if limits else None

    def _is_out(self, about: Launched) -> bool:
        """Is the limit on launches or on the program's seconds reached? Then nothing runs
        any more, and calls time out.
        """
        policy = self.device.policy
        if policy.limit_launches is not None and len(self.device.launches) >= policy.limit_launches:
            reason = f"the limit of {policy.limit_launches} launches is reached (--limit-launches)"
        elif policy.total_seconds is not None and not self._seconds_left():
            reason = f"the limit of {policy.total_seconds:g} s is reached (--total-seconds)"
        else:
            return False
        if not self._is_over:
            self._is_over = reason
            self.device.tell(
                f"{reason}: {about.name} and all later launches are not run; the program gets CUDA error 702 (launch timed out)"
            )
        self._refuse(about)
        self.device.fail(TIMEOUT)
        return True

    def _asked(self, f: Function, grid: Any, block: Any, cluster: Any, shared_bytes: int) -> Launched:
        """A launch as it was asked for, whatever it is."""
        shapes = (_some(grid), _some(block), _some(cluster) if cluster is not None else (1, 1, 1))
        return Launched(len(self.device.launches) + 1, f.readable, f.name, *shapes, shared_bytes, ptx=f.digest)

    def _refuse(self, about: Launched) -> None:
        """Count a launch that is not run because the program's use of the device is over."""
        about.refused, about.error, about.said = self._is_over, TIMEOUT, f"{about.name}: not run: {self._is_over}"
        self.device.launches.append(about)
        self.device.listeners.ended(about)

    def _hooked(self, f: Function, config: dict[str, Any], arguments: tuple[bytes, ...]) -> bool:
        for pattern, function in self.hooks:
            if pattern.search(f.name) or pattern.search(f.readable):
                try:
                    return function(HookedLaunch(f.readable, config["grid"], config["block"], arguments, self.device.view)) is not False
                except Exception as e:
                    raise hook_failed(f"the hook {function.__name__}", e) from None
        return False

    def _done(self, about: Launched, run: Run | None, instead: str, then: str = "", only: Collection[int] | None = None) -> Run | None:
        """Report a launch on stderr, as the policy has it. `only`: the entries to print of a second report."""
        shape = f"{math.prod(about.grid)} CTA{'s' * (math.prod(about.grid) != 1)}"
        about.said = (
            run.verdict(strict=self.device.policy.strict) + then
            if run is not None
            else f"{about.name}: {shape} in {about.seconds:.1f} s, {instead}"
        )
        if run is not None and (run.counting is not None or run.stages is not None):
            counted = [] if run.counting is None else [run.counters.text()]
            rings = [] if run.stages is None else run.pipeline.summary()
            about.costs = "\n".join([*(str(f) for f in run.remarks if f.code in COST_NOTES), *counted, *rings])
        is_told = run is not None and not about.is_fine and self.device.policy.on_finding != "collect"
        if not self.device.policy.quiet or is_told:
            left = self._seconds_left()
            self.device.tell(about.told if left is None else f"{about.told}; {left:.0f} s left of {self.device.policy.total_seconds:g}")
        if run is not None:
            self._tell_of_part(about, run, is_told=is_told)
        if run is not None and is_told:
            is_coloured, before = wants_colour(sys.stderr), len(PREFIXED)
            if only is None:
                said = run.details(colour=is_coloured, before=before)
            else:
                said = "\n".join(text for n, (_, text) in enumerate(run.entries(colour=is_coloured, before=before)) if n in only)
            self.device.tell("\n".join((said, *about.named)))
            return run
        if about.costs and not self.device.policy.quiet:
            self.device.tell(about.costs)
        if run is not None and about.is_fine and (self.device.policy.remarks or not about.costs or self.device.policy.quiet):
            new = {str(f): f for f in self._remarks(about, run) if str(f) not in self._remarked}
            self._remarked.update(new)
            styled = coloured if wants_colour(sys.stderr) else plain
            for f in new.values():
                self.device.tell(
                    "\n".join((styled(f.printed.lines(before=len(PREFIXED))), *(f"      {line}" for line in f.printed.excerpt())))
                )
        return run

    def _tell_of_part(self, about: Launched, run: Run, *, is_told: bool) -> None:
        """Which CTAs of a grid have run, once for each kernel and grid, and always what one waits for that was left
        out.
        """
        key = (about.kernel, about.grid)
        is_new = run.sample is not None and key not in self._sampled and not self.device.policy.quiet
        if is_told or not (is_new or run.held_up):
            return  # the details have it
        self._sampled.add(key)
        told = [run.sample.text()] if run.sample is not None and is_new else []
        self.device.tell("\n".join([*told, f"held up: {run.held_up}"] if run.held_up else told))

    def _remarks(self, about: Launched, run: Run) -> list[Finding]:
        """The remarks of a launch without findings that are printed."""
        if not self.device.policy.remarks:
            return run.broken
        return [f for f in run.remarks if f.code not in COST_NOTES or not about.costs or self.device.policy.quiet]

    def _named_in(self, run: Run) -> list[str]:
        """A line for each allocation that findings name: its size, and its requester."""
        found = [self.device.memory.at(address) for f in run.findings for address in f.arrays]
        return [a.told() for a in dict.fromkeys(found) if a is not None and a.name]

    def _page(self, about: Launched, run: Run) -> None:
        """A page for a launch, with `report`: for every one with findings, and for the first ones of each kernel."""
        if self.device.policy.report is None or self._has_no_room:
            return
        self._pages[about.kernel] = seen = self._pages.get(about.kernel, 0) + 1
        if about.is_fine and not run.remarks and seen > LAST_PAGES:
            return
        from smemsim.virtual import record

        about.page = record.write_page(self.device.policy.report, f"{self.device.label}{about.number:04}", run, about.named)


COST_NOTES = ("P902", "P903", "P904", "P101", "P103")


def _without_time(run: Run) -> dict[str, Any]:
    return {key: value for key, value in run.as_dict().items() if key != "seconds"}


def _is_plain(key: tuple[Any, ...]) -> bool:
    """Is it made of whole numbers and tuples of them?"""
    return all(type(part) in (int, bool, type(None)) or (type(part) is tuple and all(type(n) is int for n in part)) for part in key)


def _block(f: Function, block: Any) -> tuple[int, int, int]:
    """The block of a launch. One thread stands for what .reqntid says (measured on an H200;
    cuTile relies on it too).
    """
    found = _dimensions("block", block, LAUNCH_LIMITS.block)
    required = f.directives.get("reqntid")
    if required and found == (1, 1, 1):
        x, y, z = (*required, 1, 1)[:3]
        found = x, y, z
    threads = math.prod(found)
    if threads > LAUNCH_LIMITS.threads:
        raise CudaError(INVALID_VALUE, f"block = {found}: {threads} threads; a CTA has at most {LAUNCH_LIMITS.threads}")
    if threads > f.most_threads:
        raise CudaError(INVALID_VALUE, f"block = {found}: {f.readable} is compiled for at most {f.most_threads} threads")
    if required and found != (*required, 1, 1)[:3]:
        raise CudaError(INVALID_VALUE, f"block = {found}: {f.readable} is compiled for {(*required, 1, 1)[:3]} (.reqntid)")
    return found


def _grid(f: Function, grid: Any) -> tuple[int, int, int]:
    """CTAs of a launch: for some kernels clusters are counted (.blocksareclusters)."""
    found = _dimensions("grid", grid, LAUNCH_LIMITS.grid)
    if "blocksareclusters" in f.directives:
        x, y, z = (n * c for n, c in zip(found, f.cluster, strict=True))
        return x, y, z
    return found


def _dimensions(name: str, given: Any, most: tuple[int, int, int]) -> tuple[int, int, int]:
    """Three numbers within their limits."""
    from smemsim.run.engine.launch import three

    try:
        found = three(name, given)
    except InputError as e:
        raise CudaError(INVALID_VALUE, str(e)) from None
    if any(n > limit for n, limit in zip(found, most, strict=True)):
        raise CudaError(INVALID_VALUE, f"{name} = {found}: at most {most}")
    return found


def _some(shape: Any) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else tuple(shape)
