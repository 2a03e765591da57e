"""What this repository's own laws ask of `smemsim.testing.strategies`: words instead of descriptors, and operands of
any extent.
"""

import math

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from smemsim.core.spec.architectures import ARCHITECTURES
from smemsim.core.spec.formats import FORMATS
from smemsim.core.spec.smem_descriptor import layout_codes
from smemsim.core.spec.swizzles import MODES, Swizzle
from smemsim.core.spec.tensor_map import DATA_TYPES, SWIZZLES
from smemsim.testing.strategies import mutated_tensor_maps, operands, smem_descriptors, tiled_loads, words

__all__ = [
    "CHARACTERS",
    "CLASSIC",
    "ITEMSIZES",
    "ROW_BYTES",
    "box_chunks",
    "descriptors",
    "examples",
    "is_night",
    "mutated_arguments",
    "operands",
    "reads",
    "tiled_arguments",
    "words",
]

# One of each kind: Hypothesis makes a table of all there are, where none are named, which takes a second in a new
# checkout.
CHARACTERS = "0aZ_ -+.%/\\{\"'\0\n\x7f\x85\xa0\xdf\u0301\u0663\u2028\u20ac\ufeff\ufffd\U0001f600\U0010ffff"
CLASSIC = (Swizzle.NONE, Swizzle.B32, Swizzle.B64, Swizzle.B128)  # the modes of both generations
ITEMSIZES = {
    row.code.name: row.itemsize for row in DATA_TYPES.values() if row.itemsize and not row.to_tf32
}  # whole bytes that stay as they are
ROW_BYTES = {code.name: MODES[mode].width for code, mode in SWIZZLES.items() if mode in CLASSIC[1:]} | {"SWIZZLE_NONE": 256}


def is_night():
    """Is this the nightly run, of all cases and examples?"""
    return settings.get_current_profile_name() == "nightly"


def examples(count):
    """Settings of a property: `count` examples by night, and by day an eighth as many, but five; all else is the
    profile's (conftest).

    By day the examples are the same on every machine: what they find, they find the first time, and more of them find
    it again.
    """
    return settings(max_examples=count if is_night() else max(min(count, 5), -(-count // 8)), suppress_health_check=[HealthCheck.too_slow])


def descriptors(*, arch, swizzles=None, raw=None):
    """Raw descriptor words of an architecture, of valid layout codes (or those of `swizzles`), in relative LBO mode."""
    table = ARCHITECTURES[arch].smem_descriptor
    relative = {"lbo_mode": st.just(0)} if "lbo_mode" in table.fields else {}
    modes = swizzles or tuple(layout_codes(table).values())
    return smem_descriptors(arch=arch, legal="any", swizzles=modes, fields=relative | (raw or {})).map(lambda d: d.word)


@st.composite
def reads(draw, *, arch, swizzles=CLASSIC, raw=None, majors=("K", "MN"), dtypes=tuple(FORMATS), **options):
    """(word, operand): a descriptor and an operand that its rules cover."""
    swizzle = draw(st.sampled_from(swizzles))
    some = ("MN",) if swizzle is Swizzle.B128_ATOM_32B else majors
    word = draw(descriptors(arch=arch, swizzles=[swizzle], raw=raw))
    return word, draw(operands(swizzle=swizzle, majors=some, dtypes=dtypes, **options))


def tiled_arguments(*, is_store=False, data_types=tuple(ITEMSIZES), swizzles=tuple(ROW_BYTES), most_chunks=512):
    """(arguments of cuTensorMapEncodeTiled, coordinates, smem_address): legal, rows apart, box and tensor small, box
    over an edge.
    """
    return tiled_loads(arch="sm_90a", data_types=data_types, swizzles=swizzles, most_chunks=most_chunks, is_store=is_store)


def mutated_arguments():
    """Arguments of cuTensorMapEncodeTiled as integers (driver codes), one or two of them moved to an edge; some stay
    legal.
    """
    return mutated_tensor_maps(arch="sm_90a", calls="tiled")


def box_chunks(arguments):
    """16-byte chunks of the dense box."""
    outer = math.prod(-(-b // s) for b, s in zip(arguments["box_dim"][1:], arguments["element_strides"][1:], strict=True))
    return arguments["box_dim"][0] * ITEMSIZES[arguments["data_type"]] // 16 * outer
