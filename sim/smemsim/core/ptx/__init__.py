"""PTX as compilers write it: read into functions, registers, variables and instructions, each with its line."""

from smemsim.base.lazy_exports import door

__getattr__ = door(
    __name__,
    {
        "demangle": ("demangled", "readable", "shorter_name"),
        "module": (
            "Address",
            "Arguments",
            "Immediate",
            "Label",
            "Pair",
            "Register",
            "Sink",
            "Special",
            "Symbol",
            "Vector",
            "instruction_forms",
        ),
        "parser": ("read_module",),
    },
)
