"""Programs: PTX linked and executed by warps in vectorised steps over the machine's memories, and observers that hear what happens.

How a launch goes through the package:

1. `engine.device` reads the PTX (`smemsim.core.ptx`), packs the arguments (`engine.arrays`) and makes an `engine.launch.Launch`.
2. `lower` makes a program of an entry: it inlines calls or keeps routines (`lower.inline`), fuses products as ptxas does, and places variables. Then
   every instruction becomes a step, and steps become blocks (`lower.program`). `isa.registry` says which builder makes the steps of an instruction. The
   builders stand in the families `alu`, `memory`, `copies`, `barriers`, `matrix`, `tcgen05` and `threads` of `isa`.
3. `engine.grid` runs clusters in waves. An `engine.wave.Wave` is what instructions see of the threads that run together. Its parts are the grid, memories,
   registers, positions and progress; a family keeps its own state in a `slots.Slot`. `engine.scheduler` picks the block that runs next and finds loops that
   never end, `engine.blocks` executes a block, `engine.hangs` reports who waits for whom. `procs` runs parts of a grid in other processes.
4. Steps report what happens to observers (`events`), and end the kernel through `engine.traps` and `isa.asynchronous.stop`. `sanitizer` is one observer.
   `Launch.result` (`engine.launch_result.LaunchResult`) is what a launch leaves besides memory; `smemsim.diagnosis` makes a `Run` of it.
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
