"""Programs: PTX linked and executed by warps in vectorised steps over the machine's memories, and a watch on what they do to them.

How a launch goes through the package:

1. `device` reads the PTX (`smemsim.core.ptx`), packs the arguments (`arrays`) and makes a `launch.Launch`.
2. `linking` makes a program of an entry: calls inlined or kept as routines (`inline`), products fused as ptxas does (`fused`), variables placed; then
   every instruction becomes a step, and steps become blocks (`program`). Who makes a step of which instruction is told in `registry`; the builders stand
   in the families `alu`, `memory`, `copies`, `barriers`, `matrix`, `tcgen05` and `threads`.
3. `execute` runs clusters in waves: a `wave.Wave` holds the registers and the shared memory of all threads that run together. `running` picks the block
   that runs next and finds what never ends, `blocks` executes it, `hangs` tells who waits for whom. `spread` runs parts of a grid in other processes.
4. While it runs, the steps report what they read, write and order as `events` to observers, of which the sanitizer is one. They note their transfers and matrix
   instructions as `records`, and end the kernel through `traps` and `asynchronous.stop`. All findings are in `LaunchResult.findings`; `smemsim.diagnosis` makes a `Run` of them.
"""

from smemsim.base.lazy_exports import door

__getattr__ = door(
    __name__,
    {
        "async_ops": ("AsyncOp",),
        "events": ("EVENTS", "Access", "Observer"),
        "engine.records": ("Bulk", "Load", "Mma", "Store"),
        "engine.launch": ("Launch", "LaunchConfig", "RunOptions"),
        "engine.launch_result": ("LaunchResult",),
    },
)
