"""The table of all calls: a call's name is a method, its answer an error code and results."""

from __future__ import annotations

import traceback
from typing import Any

from smemsim.base.errors import SmemsimError, Unmodelled
from smemsim.virtual.calls.card import CardCalls
from smemsim.virtual.calls.code import CodeCalls
from smemsim.virtual.calls.graphs import GraphCalls
from smemsim.virtual.calls.launches import LaunchCalls
from smemsim.virtual.calls.managed import ManagedCalls
from smemsim.virtual.calls.mappings import MappingCalls
from smemsim.virtual.calls.maps import MapCalls
from smemsim.virtual.calls.memory import MemoryCalls
from smemsim.virtual.calls.nodes import NodeCalls
from smemsim.virtual.calls.pools import PoolCalls
from smemsim.virtual.calls.products import ProductCalls
from smemsim.virtual.calls.streams import StreamCalls
from smemsim.virtual.calls.textures import TextureCalls
from smemsim.virtual.errors import INVALID_VALUE, LAUNCH_FAILED, NOT_SUPPORTED, CudaError
from smemsim.virtual.policy import FindingsError

__all__ = ["OUT_OF_MEMORY", "Calls"]


INTERNAL = 999
OUT_OF_MEMORY = "the memory of this machine is out: the device cannot go on"


class Calls(
    CardCalls,
    CodeCalls,
    LaunchCalls,
    MapCalls,
    MemoryCalls,
    PoolCalls,
    ProductCalls,
    ManagedCalls,
    MappingCalls,
    StreamCalls,
    GraphCalls,
    NodeCalls,
    TextureCalls,
):
    """One program's calls. Its methods are what `clib/` names; handles are numbers."""

    def answer(self, name: str, arguments: list[Any]) -> tuple[int, tuple[Any, ...]]:
        """(the error code, the results) of a call."""
        method = None if name.startswith("_") else getattr(self, name, None)
        if method is None:
            return NOT_SUPPORTED, ()
        try:
            with self.device.turn:
                results = method(*arguments)
        except CudaError as e:
            return e.code, ()
        except FindingsError:
            return LAUNCH_FAILED, ()
        except Unmodelled as e:
            self.device.code.refuse(f"not modelled: {e}")
            return NOT_SUPPORTED, ()
        except SmemsimError as e:
            self.device.tell(str(e))
            return INVALID_VALUE, ()
        except KeyboardInterrupt:
            self.device.error = self.device.error or LAUNCH_FAILED
            return LAUNCH_FAILED, ()
        except MemoryError as e:
            self.device.code.refuse(f"{OUT_OF_MEMORY}{f': {e}' if str(e) else ''}")
            return INTERNAL, ()
        except Exception as e:
            self.device.tell(f"internal error in {name}, please report it:\n{traceback.format_exc()}")
            self.device.code.note_refused(f"internal error in {name}: {type(e).__name__}: {e}")
            return INTERNAL, ()
        return 0, results if isinstance(results, tuple) else () if results is None else (results,)
