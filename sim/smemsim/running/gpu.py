"""`Gpu`: run a kernel's PTX without a GPU, and say what is wrong with it.

>>> import numpy as np
>>> gpu = Gpu("sm_90a")
>>> a = gpu.array(np.arange(4, dtype=np.float32))
>>> a.numpy()
array([0., 1., 2., 3.], dtype=float32)
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from smemsim.gpu.device import Device
from smemsim.gpu.spread import execute_spread
from smemsim.running.operand_reads import Reads
from smemsim.running.run import Run

__all__ = ["Gpu"]


class Gpu(Device):
    """A simulated GPU of an architecture ("sm_90a", "sm_100a", "sm_103a") with its global memory."""

    def launch(  # type: ignore[override]
        self,
        ptx: str,
        entry: str,
        *,
        grid: Any = (1, 1, 1),
        block: Any = (1, 1, 1),
        cluster: Any = (1, 1, 1),
        shared_bytes: int = 0,
        args: Sequence[Any] = (),
        sanitize: bool = True,
        name: str = "ptx",
        workers: int | None = None,
        client: Any = None,
    ) -> Run:
        """Run an entry of a PTX text over a grid; `args` in the order of its parameters.

        An array passes its address, a TensorMap its 128 bytes (build it with global_address=array.address), None a zero, numbers are converted
        to the parameter's type. `sanitize` False leaves the watch out. CTAs that do not depend on each other run on
        `workers` processes, or on the Dask cluster of a `distributed.Client`; without either on all processors where that saves time.

        Raises InputError for what no launch could be, Unmodelled with a line for every instruction that is not modelled, both before anything runs.

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
        began = time.perf_counter()
        launch = self.prepare(ptx, entry, grid=grid, block=block, cluster=cluster, shared_bytes=shared_bytes, args=args)
        reads = Reads(frozenset(range(min(2, launch.ctas)))) if sanitize else None
        launch.judge = reads
        execute_spread(launch, watch=sanitize, workers=workers, client=client)
        return Run(launch, reads, name=name, seconds=time.perf_counter() - began)
