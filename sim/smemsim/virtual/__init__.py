"""The virtual GPU: a device in Python that unmodified programs use instead of a card, and the shims through which they
find it.

Only `VirtualDevice` has semantics. Shims only translate calls. The options are in `Policy`. Both are explained in
`docs/virtual.md`.
"""

from smemsim.base.lazy_exports import door

__getattr__ = door(  # used lazily: `smemsim exec` starts the program before it loads the simulator
    __name__,
    {
        "build": ("entry_points", "libraries"),
        "calls.table": ("Calls",),
        "code": ("Function", "Module"),
        "device": ("VirtualDevice",),
        "errors": ("CudaError",),
        "fatbin": ("Image", "NoCode", "at_address", "chosen", "images", "of_parts"),
        "graphs": ("Condition", "Graph", "GraphExec", "Node", "UserObject"),
        "host": ("Host",),
        "linker": ("linked",),
        "policy": ("FindingsError", "HookedLaunch", "Launched", "Policy", "card_of_environment", "checked_of", "hook", "summary_of"),
        "pools": ("Pool",),
        "record": ("write_index",),
        "sessions": ("Doors", "Sessions", "environment"),
        "streams": ("Event", "Stream"),
        "telling": ("Journal", "RemoteWriter", "Writer"),
    },
)
