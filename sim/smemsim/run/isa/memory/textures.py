"""tex, tld4, txq, suld, sust, sured, suq (PTX ISA 9.1 §9.7.10, §9.7.11) of texture and surface objects: a handle of
64 bits names one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from smemsim.base.distinct import distinct
from smemsim.base.errors import HardwareTrap, InputError, Unmodelled
from smemsim.core.machine.texture import Surface, Texture
from smemsim.core.ptx.module import Address, Instruction, Operand, Pair, Register, Vector
from smemsim.core.spec.textures import QUERIES, SURFACE_QUERIES
from smemsim.core.spec.traps import ILLEGAL_ADDRESS, MISALIGNED_ADDRESS
from smemsim.run.engine.traps import thread_name
from smemsim.run.isa.modifiers import Modifiers, Operands
from smemsim.run.isa.registers import Read, bits_of
from smemsim.run.isa.registry import Plain, Step, implements, refuse, unmodelled

if TYPE_CHECKING:
    from smemsim.run.engine.wave import Wave
    from smemsim.run.lower.program import Linker


# Coordinates, and whether a layer precedes them.
GEOMETRIES = {
    "1d": (1, False),
    "2d": (2, False),
    "3d": (3, False),
    "a1d": (1, True),
    "a2d": (2, True),
    "cube": (3, False),
    "acube": (3, True),
}
_COUNTS = {"v2": 2, "v4": 4}

refuse("pointers to objects that are not handles", "istypep")


def _items(operand: Operand) -> tuple[Operand, ...]:
    return operand.items if isinstance(operand, Vector) else (operand,)


def _handle(i: Instruction, c: Linker, operand: Operand, count: int = 0) -> tuple[Read, tuple[Operand, ...]]:
    """The handles of the running threads, and so many coordinates (the layer is one of them): PTX fills them up to 1,
    2 or 4.
    """
    if not isinstance(operand, Address) or not isinstance(operand.base, Register):
        raise unmodelled(i, "a texture or surface that is no object: pass its handle (cudaTextureObject_t, cudaSurfaceObject_t)")
    if any(isinstance(item, Vector) for item in (operand.coordinates or ())[1:]):
        raise unmodelled(i, "a sampler beside the texture")
    coordinates = tuple(item for operand_ in operand.coordinates or () for item in _items(operand_))
    if len(coordinates) < count:
        raise InputError(f"has {len(coordinates)} coordinates, the geometry has {count}")
    return c.read(operand.base, "u64"), coordinates[:count]


def _each(x: Wave, i: Instruction, handles: Any, kind: type[Any], what: str) -> list[tuple[Any, np.ndarray]]:
    """(object, its threads among those that run) of every handle."""
    handles = np.broadcast_to(np.asarray(handles, np.uint64), (x.n,))
    found = []
    for handle in distinct(handles).tolist():
        known = x.launch.memory.objects.get(handle)
        if not isinstance(known, kind):
            raise Unmodelled(
                f"{i.name}: {handle:#x} is the handle of no {what} that is there, or its memory was given back; what a card does then is not known",
                line=i.line,
            )
        found.append((known, np.flatnonzero(handles == handle)))
    return found


def _all(x: Wave, reads: list[Read]) -> list[np.ndarray]:
    return [np.broadcast_to(np.asarray(read(x)), (x.n,)) for read in reads]


def _results(i: Instruction, c: Linker, operand: Operand, kind: str, count: int) -> Callable[[Wave, np.ndarray], None]:
    """The function that writes the columns of (n, 4) words into registers."""
    if isinstance(operand, Pair):
        raise unmodelled(i, "a predicate of residency, which sparse textures have")
    targets = _items(operand)
    if len(targets) != count:
        raise InputError(f"has {len(targets)} results, the modifiers say {count}")
    writers = [c.write(target, kind) for target in targets]
    dtype = {"f32": np.float32, "s32": np.int32, "u32": np.uint32}.get(kind)

    def write(x: Wave, words: np.ndarray) -> None:
        if dtype is None:
            with np.errstate(over="ignore", invalid="ignore"):
                halves = np.ascontiguousarray(words).view(np.float32).astype(np.float16).view(np.uint16)
            columns: np.ndarray = np.ascontiguousarray(halves).view(np.uint32) if kind == "f16x2" else halves
        else:
            columns = np.ascontiguousarray(words).view(dtype)
        for n, put in enumerate(writers):
            put(x, np.ascontiguousarray(columns[:, n]))

    return write


def _form(i: Instruction, words: Modifiers, known: tuple[str, ...] = tuple(GEOMETRIES)) -> tuple[str, int, str, str]:
    """(geometry, how many results, their type, the coordinates' type)."""
    geometry = words.one_of(known)
    if not geometry:
        raise unmodelled(i, "a geometry that objects do not have here")
    count = 4 if words.has("v4") else 2 if words.has("v2") else 1
    to, of = words.kinds(2)
    words.end()
    if to not in ("f32", "s32", "u32", "f16", "f16x2") or of not in ("f32", "s32"):
        raise unmodelled(i, f".{to}.{of}")
    return geometry, 2 if to == "f16x2" else count, to, of


@implements("tex")
def build_tex(i: Instruction, c: Linker) -> Step:
    """`tex{.base | .level | .grad}.geom.v4.type.type d, [object, {coordinates}]{, lod | , {dPdx}, {dPdy}}`."""
    words, operands = Modifiers(i), Operands(i)
    how = words.one_of(("base", "level", "grad"))
    geometry, count, to, of = _form(i, words)
    dimensions, has_layer = GEOMETRIES[geometry]
    target = operands.next("a result")
    write = _results(i, c, target, to, count)
    handle, given = _handle(i, c, operands.next("an object"), dimensions + has_layer)
    layer = c.read(given[0], "u32") if has_layer else None
    reads = [c.read(item, of) for item in given[has_layer:]]
    lod = c.read(operands.next("a level"), of) if how == "level" else None
    for _ in range(2 if how == "grad" else 0):
        for item in _items(operands.next("derivatives")):
            c.read(item, "f32")
    operands.end()

    def look(x: Wave) -> None:
        places = _all(x, reads)
        layers, levels = (None if read is None else _all(x, [read])[0] for read in (layer, lod))
        out = np.zeros((x.n, 4), np.uint32)
        for texture, part in _each(x, i, handle(x), Texture, "texture"):
            plane = None if layers is None else layers[part].astype(np.int64)
            kind = np.int64 if of == "s32" else np.float64
            at, level = [place[part].astype(kind) for place in places], None if levels is None else levels[part].astype(kind)
            try:
                if of == "s32":
                    out[part] = texture.load(at, plane, level)
                elif how == "grad":
                    out[part] = texture.grad(geometry, at, plane)
                else:
                    out[part] = texture.sample(geometry, at, plane, level)
            except Unmodelled as e:
                raise unmodelled(i, str(e)) from None
        write(x, out)

    return look


@implements("tld4")
def build_tld4(i: Instruction, c: Linker) -> Step:
    """`tld4.comp.2d.v4.type.f32 d, [object, {x, y}]`: one channel of four texels."""
    words, operands = Modifiers(i), Operands(i)
    component = words.need("r", "g", "b", "a")
    geometry, count, to, _ = _form(i, words, ("2d", "a2d"))
    write = _results(i, c, operands.next("a result"), to, count)
    dimensions, has_layer = GEOMETRIES[geometry]
    handle, given = _handle(i, c, operands.next("an object"), dimensions + has_layer)
    operands.end()
    layer = c.read(given[0], "u32") if has_layer else None
    reads = [c.read(item, "f32") for item in given[has_layer:]]

    def look(x: Wave) -> None:
        places = _all(x, reads)
        layers = None if layer is None else _all(x, [layer])[0]
        out = np.zeros((x.n, 4), np.uint32)
        for texture, part in _each(x, i, handle(x), Texture, "texture"):
            plane = None if layers is None else layers[part].astype(np.int64)
            try:
                out[part] = texture.four(geometry, [place[part].astype(np.float64) for place in places], plane, "rgba".index(component))
            except Unmodelled as e:
                raise unmodelled(i, str(e)) from None
        write(x, out)

    return look


def _query(i: Instruction, c: Linker, kind: type[Any], what: str, known: tuple[str, ...]) -> Plain:
    words, operands = Modifiers(i), Operands(i)
    has_level = words.has("level")
    asked = words.one_of(known)
    if not asked:
        raise unmodelled(i, f"of {'.'.join(i.modifiers)}, which a card's driver does not load (seen on an H100)")
    words.need("b32")
    words.end()
    write = c.write(operands.next("a result"), "b32")
    handle, _ = _handle(i, c, operands.next("an object"))
    level = c.read(operands.next("a level"), "u32") if has_level else None
    operands.end()

    def ask(x: Wave) -> None:
        levels = None if level is None else _all(x, [level])[0]
        out = np.zeros(x.n, np.uint32)
        for found, part in _each(x, i, handle(x), kind, what):
            out[part] = found.asked(asked, None if levels is None else levels[part].astype(np.int64))
        write(x, out)

    return ask


@implements("txq")
def build_txq(i: Instruction, c: Linker) -> Step:
    """`txq{.level}.query.b32 d, [object]{, lod}`."""
    return _query(i, c, Texture, "texture", QUERIES)


@implements("suq")
def build_suq(i: Instruction, c: Linker) -> Step:
    """`suq.query.b32 d, [object]`."""
    return _query(i, c, Surface, "surface", SURFACE_QUERIES)


# ---- Surfaces


def _surface(i: Instruction, c: Linker, words: Modifiers, operand: Operand) -> tuple[Callable[[Wave, int], Any], str]:
    """The function that finds the places of a surface instruction, and its clamp mode. For each surface it finds the
    threads, the bytes of each, and which are inside.

    The size of an access that is 0 is that of an element, which coordinates count then.
    """
    geometry = words.need(*(g for g in GEOMETRIES if "cube" not in g))
    clamp = words.need("trap", "clamp", "zero")
    dimensions, has_layer = GEOMETRIES[geometry]
    handle, given = _handle(i, c, operand, dimensions + has_layer)
    reads = [c.read(item, "s32") for item in given]

    def find(x: Wave, size: int) -> list[tuple[Surface, np.ndarray, np.ndarray, np.ndarray]]:
        places = _all(x, reads)
        out = []
        for surface, part in _each(x, i, handle(x), Surface, "surface"):
            own = [place[part].astype(np.int64) for place in places]
            layer, bytes_ = own.pop(0) if has_layer else None, size or surface.image.format.size
            if not size:
                own[0] *= bytes_
            try:
                at, inside = surface.places(geometry, own, layer, bytes_, clamp)
            except Unmodelled as e:
                raise unmodelled(i, str(e)) from None
            beyond = ~inside
            if clamp == "trap" and beyond.any():
                n = np.flatnonzero(beyond)[0]
                _beyond(x, i, int(part[n]), [int(place[part][n]) for place in places])
            if (own[0] % bytes_).any():
                n = np.flatnonzero(own[0] % bytes_)[0]
                _misaligned(x, i, int(part[n]), int(own[0][n]), bytes_)
            out.append((surface, part, at, inside))
        return out

    return find, clamp


def _beyond(x: Wave, i: Instruction, n: int, at: list[int]) -> NoReturn:
    """An access outside of a surface ends the kernel (.trap): X001."""
    message = f"{i.name} of {thread_name(x, int(x.threads[n]))}: ({', '.join(map(str, at))}) is outside the surface"
    x.launch.find("X001", i, message, "guard the access; of suld.b, sust.b and sured.b x counts bytes")
    raise HardwareTrap(message, cuda_error=ILLEGAL_ADDRESS)


def _misaligned(x: Wave, i: Instruction, n: int, at: int, size: int) -> NoReturn:
    """An x that is no multiple of the access ends the kernel: X002."""
    message = f"{i.name} of {thread_name(x, int(x.threads[n]))}: x = {at} is no multiple of {size}, the bytes of the access"
    x.launch.find("X002", i, message, "of suld.b, sust.b and sured.b x counts bytes: multiply the column by the size of an element")
    raise HardwareTrap(message, cuda_error=MISALIGNED_ADDRESS)


def _elements(i: Instruction, words: Modifiers) -> tuple[str, int]:
    count = next((n for word, n in _COUNTS.items() if words.has(word)), 1)
    kind = words.need("b8", "b16", "b32", "b64")
    return kind, count


_CACHES = ("ca", "cg", "cs", "cv", "wb", "wt")


@implements("suld")
def build_suld(i: Instruction, c: Linker) -> Step:
    """`suld.b.geom{.cop}{.vec}.type.clamp d, [object, {coordinates}]`: bytes, from a coordinate x in bytes on."""
    words, operands = Modifiers(i, "b"), Operands(i)
    words.one_of(_CACHES)
    target = operands.next("a result")
    find, _ = _surface(i, c, words, operands.next("an object"))
    kind, count = _elements(i, words)
    words.end()
    operands.end()
    targets = _items(target)
    if len(targets) != count:
        raise InputError(f"has {len(targets)} results, the modifiers say {count}")
    writers, width = [c.write(item, "b16" if kind == "b8" else kind) for item in targets], bits_of(kind) // 8

    def load(x: Wave) -> None:
        out = np.zeros((x.n, count), f"u{width}")
        for surface, part, at, inside in find(x, width * count):
            raw = surface.bytes[np.where(inside, at, 0)[:, None] + np.arange(width * count)]
            out[part] = np.where(inside[:, None], np.ascontiguousarray(raw).view(f"u{width}"), 0)
        for n, put in enumerate(writers):
            put(x, np.ascontiguousarray(out[:, n]).astype(np.uint16 if kind == "b8" else out.dtype))

    return load


@implements("sust")
def build_sust(i: Instruction, c: Linker) -> Step:
    """`sust.b.geom{.cop}{.vec}.type.clamp [object, {coordinates}], s`: bytes, from a coordinate x in bytes on;
    `sust.p`: an element of the format.
    """
    words, operands = Modifiers(i), Operands(i)
    is_formatted = words.need("b", "p") == "p"
    words.one_of(_CACHES)
    find, _ = _surface(i, c, words, operands.next("an object"))
    kind, count = _elements(i, words)
    words.end()
    sources = _items(operands.next("a source"))
    operands.end()
    if len(sources) != count:
        raise InputError(f"has {len(sources)} sources, the modifiers say {count}")
    if is_formatted and kind != "b32":
        raise unmodelled(i, f"formatted stores of .{kind}")
    reads, width = [c.read(item, "b16" if kind == "b8" else kind) for item in sources], bits_of(kind) // 8

    def store(x: Wave) -> None:
        values = np.stack([value.astype(f"u{width}") for value in _all(x, reads)], axis=1)
        for surface, part, at, inside in find(x, 0 if is_formatted else width * count):
            if is_formatted and count < surface.image.format.channels:
                raise unmodelled(i, f"a formatted store of {count} values into elements of {surface.image.format.channels}")
            raw = surface.elements(values[part]) if is_formatted else np.ascontiguousarray(values[part]).view(np.uint8)
            raw = raw.reshape(len(part), -1)
            surface.bytes[at[inside][:, None] + np.arange(raw.shape[1])] = raw[inside]
        x.progress.changes += 1

    return store


_REDUCE: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
}  # fmt: skip


@implements("sured")
def build_sured(i: Instruction, c: Linker) -> Step:
    """`sured.b.op.geom.type.clamp [object, {coordinates}], s`: threads one after the other; of `sured.p` coordinates
    count elements.
    """
    words, operands = Modifiers(i), Operands(i)
    is_formatted = words.need("b", "p") == "p"
    do = words.need(*_REDUCE)
    find, _ = _surface(i, c, words, operands.next("an object"))
    kind = words.need("u32", "s32", "b32", "u64", "s64")
    words.end()
    if is_formatted and (do, kind) != ("add", "b32"):
        raise unmodelled(i, f"formatted reductions .{do}.{kind}")
    read, dtype = c.read(operands.next("a source"), kind), np.dtype(f"{'i' if kind[0] == 's' else 'u'}{bits_of(kind) // 8}")
    operands.end()

    def reduce(x: Wave) -> None:
        (values,) = _all(x, [read])
        for surface, part, at, inside in find(x, 0 if is_formatted else dtype.itemsize):
            if surface.image.format.size != dtype.itemsize and is_formatted:
                raise unmodelled(i, f"formatted reductions of elements of {surface.image.format.size} bytes")
            for n in np.flatnonzero(inside).tolist():
                place = surface.bytes[at[n] : at[n] + dtype.itemsize]
                with np.errstate(over="ignore"):
                    place[:] = np.array([_REDUCE[do](place.view(dtype)[0], values[part[n]].astype(dtype))], dtype).view(np.uint8)
        x.progress.changes += 1

    return reduce
