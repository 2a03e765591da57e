"""Programs: PTX linked and executed by warps in vectorised steps over the machine's memories, and observers that get
the events.

The path of a launch through the package:

1. `engine.device` reads the PTX (`smemsim.core.ptx`), packs the arguments (`engine.arrays`) and makes an
`engine.launch.Launch`.

2. `lower` makes a program of an entry. It inlines calls or keeps routines (`lower.inline`), fuses products as ptxas
does, and places variables. Then every instruction becomes a step, and steps become blocks (`lower.program`).
`isa.registry` has the builder that makes the steps of an instruction. The builders are in the families `alu`,
`memory`, `copies`, `barriers`, `matrix`, `tcgen05` and `threads` of `isa`.

3. `engine.grid` runs clusters in waves. An `engine.wave.Wave` is what instructions see of the threads that run
together. Its parts are the grid, memories, registers, positions and progress. A family keeps its own state in a
`slots.Slot`. The scheduler (`engine.scheduler`) picks the block that runs next and finds endless loops. Blocks are
executed by `engine.blocks`. Threads that wait for each other are reported by `engine.hangs`. Parts of a grid run in
other processes (`procs`).

4. Steps report events to observers (`events`), and end the kernel through `engine.traps` and `isa.asynchronous.stop`.
   The sanitizer is one observer. Everything that a launch leaves besides memory is `Launch.result`
   (`engine.launch_result.LaunchResult`). A `Run` is made of it by `smemsim.diagnosis`.
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
