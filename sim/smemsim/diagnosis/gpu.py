"""`Gpu`: run a kernel's PTX without a GPU, and report what is wrong with it.

>>> import numpy as np
>>> gpu = Gpu("sm_90a")
>>> a = gpu.array(np.arange(4, dtype=np.float32))
>>> a.numpy()
array([0., 1., 2., 3.], dtype=float32)
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import itertools
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from smemsim.base.arguments import SAMPLE, flag, in_grid, shown, whole
from smemsim.base.budget import ask
from smemsim.base.errors import InputError, SmemsimError, Unmodelled
from smemsim.base.files import source_folders
from smemsim.base.floating_point import in_default_state
from smemsim.base.members import OwnMembers
from smemsim.core.machine.global_memory import Region
from smemsim.core.ptx.demangle import shorter_name
from smemsim.core.ptx.module import Instruction, Module
from smemsim.core.spec.alternatives import assuming
from smemsim.core.spec.assumptions import in_force
from smemsim.core.spec.findings import Severity
from smemsim.diagnosis.again import MemoryCopy
from smemsim.diagnosis.operands.recorded import Reads
from smemsim.diagnosis.progress import Progress
from smemsim.diagnosis.run import Run
from smemsim.run.counters import Counting
from smemsim.run.engine.device import Device, relinked
from smemsim.run.engine.grid import in_front, requests
from smemsim.run.engine.launch import EVERY, LIMIT, Launch, LaunchConfig, LinkedKernel, RunOptions, check_given
from smemsim.run.engine.register_pool import leave_rooms
from smemsim.run.engine.sampling import Sample, sample_of
from smemsim.run.engine.schedule import seeds_of
from smemsim.run.engine.traps import region_name
from smemsim.run.events import Observer
from smemsim.run.lower.program import link, module_of
from smemsim.run.pipeline import PipelineRecorder
from smemsim.run.procs.shards import execute_spread, shared_out
from smemsim.run.sanitizer import stored

__all__ = ["Gpu"]


EVERY_ANSWER = ("never", "one", "always")  # what cancel = "all" tries
GRANTED = {"one": "one request is granted", "always": "every request is granted"}

MOST_CTAS = 1 << 40  # of a grid that is run as a whole
IN_FLIGHT = frozenset(
    ("X003", "X004", "X005", "X007", "X012")
)  # findings of asynchronous operations that the usual order completes at once
ASYNCHRONOUS = frozenset(("cp", "mbarrier", "tcgen05", "wgmma"))
MOST_COPIED = 1 << 24  # bytes of global memory that are kept for a second run
MOST_COPIED_OF_OTHERS = 1 << 22  # ... of a kernel without asynchronous operations
LONGEST = 5.0  # seconds of a launch that is run a second time
LONGEST_LATER = 10.0  # ... of the second run


@in_default_state
class Gpu(Device, metaclass=OwnMembers):
    """A simulated GPU of an architecture ("sm_90a", "sm_100a", "sm_103a") with its global memory.

    >>> import smemsim
    >>> import numpy as np
    >>> gpu = smemsim.Gpu("sm_90a")
    >>> out = gpu.array(np.zeros(4, np.uint32))
    >>> ptx = '''.version 8.0
    ... .target sm_90a
    ... .address_size 64
    ... .visible .entry k(.param .u64 to) { .reg .b64 %d; ld.param.u64 %d, [to]; st.global.u32 [%d], 7; ret; }'''
    >>> gpu.launch(ptx, block=1, args=[out]).findings, out.numpy()[:1].tolist()
    ([], [7])
    """

    def __init__(self, arch: str = "sm_90a") -> None:
        super().__init__(arch)
        self._compared: set[str] = set()  # kernels that have run under the latest order too

    def __repr__(self) -> str:
        return f"Gpu({self.arch!r})"

    def launch(
        self,
        ptx: str | Module | LinkedKernel,
        entry: str | None = None,
        *,
        grid: Any = (1, 1, 1),
        block: Any = None,
        cluster: Any = None,
        shared_bytes: int = 0,
        args: Sequence[Any] = (),
        sanitize: bool = True,
        watch_global: bool = True,
        limit: int = LIMIT,
        limit_seconds: float | None = None,
        ctas: Iterable[int | str] | str | None = None,
        progress: bool = True,
        name: str = "ptx",
        workers: int | None = None,
        client: Any = None,
        sources: Iterable[str | os.PathLike[str]] = (),
        cancel: str = "resident",
        cooperative: bool = False,
        schedule: int | str | None = None,
        assume: str | None = None,
        after: Run | None = None,
        multiprocessors: int | None = None,
        overrun: int = 0,
        observers: Sequence[Observer] = (),
        counters: bool | Mapping[str, Any] = False,
        pipeline: bool | Mapping[str, Any] = False,
        outputs: Iterable[Any] | None = None,
        try_fixes: bool = False,
    ) -> Run:
        """Execute an entry of a PTX text over a grid of CTAs, and check what it does.

        The kernel and its arguments:

        - Text: `ptx`, and `entry`, the name of the kernel if there are several.
        - Sizes: `grid`, `block` and `cluster`, one to three numbers each. Dynamic shared memory of a CTA:
          `shared_bytes`.
        - Parameters: `args`, one for each: an array of `Gpu.array`, a TensorMap, a number, bytes, or None (0).
        - Cooperative launch: `cooperative`, for kernels that call grid.sync(). Its CTAs must fit on the card together.
        - Part of the grid: `ctas`, the CTAs to run, with their clusters: `range(0, 4)` for example. With "sample" the
          corners, the edges and an interior CTA run (`Run.sample`).
        - Names: `name` of the PTX in findings, and `sources`, folders of the source files that it names.

        Checks:

        - Sanitizer: with `sanitize=False` nothing is checked. With `watch_global=False` races in global memory are not.
        - Results: `outputs`, the arrays of `args` whose values count, if not all do. An uninitialised value in another
          array, such as a scratch buffer, is R507 only if a later launch or `numpy()` uses it.
        - Fixes: with `try_fixes` those that are changes of the PTX are executed, as `smemsim run` does.
        - Previous run: `after`, if this launch has programmatic stream serialization.
        - Assumption: `assume`, an alternative of a rule about Blackwell, "tcgen05.pair=b_interleaved" for example.
        - Accesses past an array: with `overrun=N` up to N bytes give X001, and the kernel continues.

        Records:

        - Counters: with `counters` the cost of each line is counted (`Run.counters`). With a table of bounds,
          `{"shared_wavefronts": 1024}` for example, higher counts are reported (P905).
        - Pipeline: with `pipeline` the stages that the loads of a cluster fill are recorded (`Run.pipeline`).
          `{"cta": 3}` takes the cluster of that CTA. `{"costs": {"load": 600}}` sets lengths that the picture assumes.
        - Observers: `observers`, objects of `smemsim.run.events.Observer`, with or without the sanitizer.

        Orders:

        - Schedule: `schedule`, a seed, "earliest" or "latest", for one order that the memory model allows. "all:N" runs
          all of these with N seeds, and the usual order, and compares the results (X030, `Run.schedules`).
        - Cancellation: `cancel`, the answers of `clusterlaunchcontrol.try_cancel`: "resident", "never", "one",
          "always". "all" compares them (X020).
        - Multiprocessors: `multiprocessors`, their number, if the card does not have the usual one.

        Time and processes:

        - Limits: `limit` blocks of instructions for a CTA (X006), and a twentieth of that in a loop without stores.
          After `limit_seconds` the launch ends, with `out_of_time` and without a finding.
        - Processes: `workers`, their number. Default: as many idle processors as save time. A Dask `distributed.Client`
          is `client`. Results and findings are the same.
        - Progress: with `progress=False` no bar is drawn, and no line is printed every 30 seconds. Ctrl-C keeps the
          results so far.

        Raises InputError for arguments that no launch could have. Raises Unmodelled with the lines of all instructions
        that are not modelled. Both come before anything runs.

        >>> import numpy as np
        >>> ptx = '''.version 8.0 .target sm_90a .address_size 64
        ... .visible .entry fill(.param .u64 to) { .reg .b32 %r<2>; .reg .b64 %rd<4>;
        ...   ld.param.u64 %rd1, [to]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2;
        ...   st.global.u32 [%rd3], %r1; ret; }'''
        >>> gpu = Gpu("sm_90a")
        >>> a = gpu.array(np.zeros(4, np.uint32))
        >>> gpu.launch(ptx, "fill", block=4, args=[a]).findings, a.numpy()
        ([], array([0, 1, 2, 3], dtype=uint32))
        """
        config = LaunchConfig(
            grid=grid,
            block=block,
            cluster=cluster,
            shared_bytes=shared_bytes,
            args=args,
            entry=entry,
            cooperative=cooperative,
            cancel=cancel,
        )
        options = RunOptions(
            sanitize=sanitize, watch_global=watch_global, ctas=ctas, limit=limit, limit_seconds=limit_seconds, workers=workers, client=client,
            progress=progress, sources=sources, name=name, schedule=schedule, assume=assume,
            after=None if after is None else _in_front(after), multiprocessors=multiprocessors,
            overrun=overrun, observers=observers, counters=counters, pipeline=pipeline,
            outputs=outputs,
        )  # fmt: skip
        return self.run_and_compare(ptx, config, options) if flag("try_fixes", try_fixes) else self.run(ptx, config, options)

    def run(self, ptx: str | Module | LinkedKernel, config: LaunchConfig, options: RunOptions | None = None) -> Run:
        """Run a kernel. `launch` explains the members of `config` and `options`."""
        options = RunOptions() if options is None else options
        check_given(config, options)
        if options.assume and options.assume != in_force():
            with assuming(options.assume):
                return self.run(relinked(ptx) if isinstance(ptx, LinkedKernel) else ptx, config, options)
        kernel = ptx if isinstance(ptx, LinkedKernel) else self.kernel(module_of(ptx, options.name), config.entry)
        if kernel.program.allocates and (config.cancel == EVERY or seeds_of(options.schedule) is not None):
            raise Unmodelled(
                f"{kernel.name} calls malloc or free: what several runs of it leave is not compared, since addresses depend on who comes first"
            )
        if config.cancel == EVERY:
            return self._with_every_answer(kernel, config, options)
        if seeds_of(options.schedule) is not None:
            return self._with_many_schedules(kernel, config, options)
        counting = Counting() if options.counters else None
        if counting is not None:
            options = dataclasses.replace(options, observers=(*options.observers, counting))
        stages = PipelineRecorder(options.pipeline.cta, options.pipeline.costs) if options.pipeline else None
        if stages is not None:
            options = dataclasses.replace(options, observers=(*options.observers, stages))
        launch = self.prepare(kernel, config, options)
        clusters, sample = _part_of(launch, options.ctas)
        _check_recorded(launch, clusters)
        if clusters is None and launch.ctas > MOST_CTAS:
            raise InputError(
                f"grid = {launch.grid}: {launch.ctas:,} CTAs would run for years; run a part of them, such as ctas=range(0, 4) (--ctas 0-3)"
            )
        count = launch.ctas if clusters is None else len(clusters) * launch.cluster_size
        launch.left_out = launch.ctas - count
        launch.result.operand_check = reads = Reads(launch.arch) if options.sanitize else None
        folders = source_folders(allowed=options.sources)
        launch.begin()
        interrupted = False
        stored.begins(launch, sanitizer=options.sanitize)
        with Progress(count, shorter_name(launch.program.name), quiet=not options.progress) as done:
            try:
                execute_spread(launch, clusters, sanitizer=options.sanitize, done=done)
            except KeyboardInterrupt:
                interrupted = True
        leave_rooms(launch)
        stored.ends(launch)
        if launch.history is not None:
            launch.history.ends()
        run = Run(
            launch,
            reads,
            name=options.name,
            ptx=kernel.text,
            seconds=done.seconds,
            done=done.done,
            interrupted=interrupted,
            folders=folders,
        )
        run.counting, run.stages, run.sample = counting, stages, sample
        return run

    def run_and_compare(self, ptx: str | Module | LinkedKernel, config: LaunchConfig, options: RunOptions) -> Run:
        """Like `run`. It also tries fixes. A launch with unfinished asynchronous operations runs once more with
        `schedule = "latest"`.

        The usual order completes asynchronous operations when they are issued, so results may be right in spite of such
        a finding. `Run.later` has the differences of the second run. It is left out if the arrays or the first run are
        large, and for a kernel that has had one.
        """
        check_given(config, options)
        kernel = ptx if isinstance(ptx, LinkedKernel) else self.kernel(module_of(ptx, options.name), config.entry)
        before = self._before(kernel, config, options)
        run = self.run(kernel, config, options)
        found = {f.code for f in run.launch.result.findings.values() if f.severity is Severity.WRONG} & IN_FLIGHT
        is_short = run.seconds < LONGEST and not run.interrupted and not run.out_of_time
        if before is not None and found and is_short and not run.launch.status:
            self._compared.add(kernel.name)
            run.later = self._later(kernel, config, options, run, before)
        if before is not None and is_short and not run.ok:
            self._compared.add(kernel.name)
            self._try_fixes(kernel, config, options, run, before)
            if run.stages is None and any(f.code == "X006" for f in run.launch.result.findings.values()):
                run.stages = self._stages_of_hang(kernel, config, options, before)
        return run

    def run_relaxed(self, ptx: str | Module | LinkedKernel, config: LaunchConfig, options: RunOptions, at: Sequence[str] = ()) -> Run:
        """Like `run`. Then it runs once more for each wait, with that wait weakened. P102 names the waits that were
        not needed in this launch.

        `at` names the waits: a line of the PTX, a source line, or the begin of an instruction's name. Default: all but
        those for mbarriers.

        The outputs are those of the first run. InputError without the sanitizer, which decides.
        """
        from smemsim.diagnosis.relax import WaitObserver, needless_waits

        check_given(config, options)
        if not options.sanitize:
            raise InputError("relax: the sanitizer decides whether a wait is needed; leave sanitize=False (--no-sanitize) out")
        before = MemoryCopy(self.memory)
        waits = WaitObserver()
        watched = dataclasses.replace(options, observers=(*options.observers, waits), pipeline=options.pipeline or True)
        run = self.run(ptx, config, watched)
        run.has_relaxed(*needless_waits(self, run, config, options, before, waits, at))
        return run

    def _try_fixes(self, kernel: LinkedKernel, config: LaunchConfig, options: RunOptions, run: Run, before: MemoryCopy) -> None:
        """Execute the fixes of the findings where they are changes of the PTX: each with the memory of before the
        launch. The run's results are left.
        """
        from smemsim.diagnosis.trials.trial import MOST_SECONDS, try_fixes

        def again(module: Module, seconds: float, observers: tuple[Observer, ...]) -> Run:
            changed = dataclasses.replace(kernel, program=link(module, kernel.name, kernel.program.arch))
            of_trial = dataclasses.replace(
                options, limit_seconds=seconds, progress=False, observers=observers, counters=False, pipeline=False, client=None,
                workers=1 if observers else options.workers,
            )  # fmt: skip
            with before.in_place():
                return self.run(changed, config, of_trial)

        run.has_tried(try_fixes(run, module_of(kernel.text), again, min(MOST_SECONDS, options.limit_seconds or MOST_SECONDS)))

    def _stages_of_hang(
        self, kernel: LinkedKernel, config: LaunchConfig, options: RunOptions, before: MemoryCopy
    ) -> PipelineRecorder | None:
        """The stages of a launch that never ends, which runs once more with the memory of before; None without a ring.
        The first run's results are left.
        """
        seconds = min(LONGEST_LATER, options.limit_seconds or LONGEST_LATER)
        asked = dataclasses.replace(
            options, sanitize=False, workers=1, limit_seconds=seconds, progress=False, observers=(), counters=False, pipeline=True
        )
        try:
            with before.in_place():
                again = self.run(kernel, config, asked)
        except SmemsimError:
            return None
        return again.stages if again.pipeline.rings and again.pipeline.lanes.stuck else None

    def _before(self, kernel: LinkedKernel, config: LaunchConfig, options: RunOptions) -> MemoryCopy | None:
        """A copy of global memory; None if no second run is made. Memory that the host may write meanwhile is not put
        back.
        """
        program = kernel.program
        is_plain = options.sanitize and options.schedule is None and options.client is None and options.after is None and not options.assume
        if not is_plain or config.cancel == EVERY or program.allocates or kernel.name in self._compared:
            return None
        regions = self.memory.filled()
        most = MOST_COPIED_OF_OTHERS if program.uses.isdisjoint(ASYNCHRONOUS) else MOST_COPIED
        if sum(len(region.data) for region in regions) > most or any(self.memory.is_hosts_too(region.words, 0) for region in regions):
            return None
        return MemoryCopy(self.memory)

    def _later(self, kernel: LinkedKernel, config: LaunchConfig, options: RunOptions, usual: Run, before: MemoryCopy) -> str:
        """The difference that the latest order makes, compared with the usual one, as a sentence. "" for none. The
        usual one's results stay in memory.
        """
        from smemsim.diagnosis.schedules import apart

        seconds = min(LONGEST_LATER, options.limit_seconds or LONGEST_LATER)
        latest = dataclasses.replace(
            options, schedule="latest", workers=1, limit_seconds=seconds, progress=False, observers=(), counters=False, pipeline=False
        )
        with before.in_place() as left:
            done = self.run(kernel, config, latest)
            regions = before.regions
            others: dict[int | str, dict[int, np.ndarray]] = {"latest": {region.begin: region.data.copy() for region in regions}}
        if done.interrupted or done.out_of_time:
            return ""
        if done.launch.status:
            return f"with --schedule latest (each operation completes as late as it may) the kernel ends with CUDA error {done.launch.status}; this run completed each operation at once"
        differing = [one for one in apart(usual.launch, left.by_address, others, regions, done.launch.result.summed) if not one.summed]
        if not differing:
            return ""
        return f"with --schedule latest (each operation completes as late as it may) {'; '.join(one.short for one in differing)}; this run completed each operation at once"

    def _with_every_answer(self, kernel: LinkedKernel, config: LaunchConfig, options: RunOptions) -> Run:
        """A run with every answer to requests for others' work; only one of a kernel that does not ask."""
        asking = requests(kernel.program)
        before = MemoryCopy(self.memory)
        first: dict[Region, bytes] = {}
        for answer in EVERY_ANSWER:
            before.put_back()
            run = self.run(kernel, dataclasses.replace(config, cancel=answer), options)
            left = {region: hashlib.sha256(region.data.tobytes()).digest() for region in before.regions}
            first = first or left
            if not run.ok or run.interrupted or not asking:
                return run
            if apart := [region for region, digest in left.items() if first[region] != digest]:
                tell_apart(run.launch, asking[0], answer, apart)
                return Run(run.launch, run.reads, name=run.name, ptx=kernel.text, seconds=run.seconds, done=run.ctas, folders=run.folders)
        return run

    def _with_many_schedules(self, kernel: LinkedKernel, config: LaunchConfig, options: RunOptions) -> Run:
        """The run in the usual order, with what other schedules do: each begins with the same memory, and the usual
        one's results are left.
        """
        from smemsim.diagnosis.schedules import Outcome, compared, race_of, schedules_of

        regions = self.memory.filled()
        ask("copies of global memory, to see what schedules change", 3 * sum(len(region.data) for region in regions))
        before = MemoryCopy(self.memory)
        usual = self.run(kernel, config, dataclasses.replace(options, schedule=None))
        left = MemoryCopy(self.memory)
        known = {race_of(f) for f in usual.findings}
        given = [] if usual.interrupted or usual.out_of_time else schedules_of(seeds_of(options.schedule) or 0)

        def run(schedule: int | str) -> Outcome:
            before.put_back()
            done = self.run(
                kernel, config, dataclasses.replace(options, schedule=schedule, workers=1, observers=(), counters=False, pipeline=False)
            )
            changed = {r.begin: r.data.copy() for r in before.regions if not np.array_equal(r.data, left.bytes[r])}
            # what a launch that traps leaves depends on when it does
            is_comparable = not done.launch.status and not usual.launch.status
            new = tuple(f for f in done.findings if race_of(f) not in known)
            return Outcome(
                schedule, done.interrupted, done.out_of_time, new, tuple(done.launch.result.summed), changed if is_comparable else None
            )

        outcomes = []
        with contextlib.closing(shared_out(given, run, self.memory, options.workers)) as found:
            for outcome in found:
                outcomes.append(outcome)
                if outcome.interrupted:
                    break
        left.put_back()
        usual.schedules = compared(usual.launch, left.by_address, before.regions, outcomes)
        return usual


def tell_apart(launch: Launch, i: Instruction, answer: str, apart: Sequence[Region]) -> None:
    """X020: with another answer to requests for others' work, other bytes are left in these arrays; a remark where
    floats are added atomically.
    """
    body = launch.program.inlined.body
    sums = any(
        ("add" in i.modifiers and i.op in ("atom", "red", "cp")) and any(m.lstrip("b").startswith("f") for m in i.modifiers) for i in body
    )
    is_unread = not any("query_cancel" in i.modifiers for i in body)
    names = ", ".join(dict.fromkeys(region_name(launch, region.begin, region.begin + len(region.data)) for region in apart))
    launch.find(
        "X020", i,
        ("the kernel ignores the response of try_cancel: " * is_unread) + f"{names} differs between --cancel {answer} ({GRANTED[answer]}) and --cancel {EVERY_ANSWER[0]} (no request granted)",
        ("read the response: " * is_unread) + "if query_cancel.is_canceled, do the work of the cluster whose first CTA is query_cancel.get_first_ctaid; if not, stop requesting",
        why="a granted request cancels a cluster that has not begun, and the CTA that asked must do its work; on a card, timing decides which requests are granted" + "; sums of floats in another order differ too" * sums,
        milder=Severity.LUCK if sums else None,
    )  # fmt: skip


def _part_of(launch: Launch, ctas: Any) -> tuple[list[int] | None, Sample | None]:
    """(the clusters that hold some CTAs, by their numbers, or None for all; the sample among them). Numbers of CTAs are
    x + grid.x (y + grid.y z).
    """
    if ctas is None:
        return None, None
    wanted = f"numbers of CTAs, 0 to {launch.ctas - 1}, such as range(0, 4), or {SAMPLE!r}"
    given = (ctas,) if isinstance(ctas, str) else ctas
    if isinstance(given, bytes) or not isinstance(given, Iterable):
        raise InputError(f"ctas = {shown(ctas)}: needs {wanted}")
    try:
        taken = list(itertools.islice(given, launch.ctas + 2))
    except Exception as e:  # a 0-dimensional array, or another iterator
        raise InputError(f"ctas = {shown(ctas)}: needs {wanted} ({e})") from None
    named = {n for n in taken if isinstance(n, str)}
    numbers = {whole("ctas", n, minimum=0, wanted=wanted) for n in taken if not isinstance(n, str)}
    if named - {SAMPLE} or not taken:
        raise InputError(f"ctas = {shown(ctas)}: needs {wanted}")
    in_grid("ctas", max(numbers, default=0), launch.ctas)
    sample = sample_of(launch) if named else None
    if named and sample is None:
        return None, None
    return sorted(_clusters_of(launch, numbers).union(sample.clusters if sample is not None else ())), sample


def _check_recorded(launch: Launch, clusters: Sequence[int] | None) -> None:
    """InputError if the CTA whose pipeline is asked for is not in the grid, or does not run."""
    if not (recording := launch.options.pipeline) or recording.cta is None:
        return
    in_grid("pipeline.cta", recording.cta, launch.ctas)
    if clusters is not None and not _clusters_of(launch, [recording.cta]) <= set(clusters):
        raise InputError(f"pipeline.cta = {recording.cta}: this CTA is not among the ctas that run; needs one of them")


def _clusters_of(launch: Launch, numbers: Iterable[int]) -> set[int]:
    """The clusters of CTAs."""
    counts = [g // c for g, c in zip(launch.grid, launch.cluster, strict=True)]
    clusters = set()
    for n in numbers:
        at = (n % launch.grid[0], n // launch.grid[0] % launch.grid[1], n // (launch.grid[0] * launch.grid[1]))
        x, y, z = (a // c for a, c in zip(at, launch.cluster, strict=True))
        clusters.add(x + counts[0] * (y + counts[1] * z))
    return clusters


def _in_front(after: Any) -> Any:
    if not isinstance(after, Run):
        raise InputError(f"after = {shown(after)}: needs the Run of the launch in front")
    return in_front(after.launch) or None
