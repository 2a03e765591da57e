"""Code in programs: PTX text, fat binaries, cubins; and the PTX among them that runs on an architecture.

A fat binary is a header and entries, each for one architecture, PTX or machine code, compressed or not (lz4, zstd).
Machine code is not executed. Only the PTX is used that ptxas keeps in it with `-lineinfo`, in the ELF section
`.nv_debug_ptx_txt`. The layout was read from the output of nvcc 11 to 13; it is undocumented.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import importlib
import re
import struct
from collections.abc import Iterator, Sequence

from smemsim.base.budget import ask
from smemsim.base.errors import InputError
from smemsim.core.spec.architectures import MACHINES
from smemsim.core.spec.targets import family_of, how_it_runs, target_number
from smemsim.virtual.line_tables import with_locations
from smemsim.virtual.linker import linked

__all__ = [
    "HOST_SECTION",
    "Image",
    "NoCode",
    "at_address",
    "chosen",
    "images",
    "of_parts",
    "passed_over",
    "registers_of",
    "sections",
    "size_of",
]


FATBIN_MAGIC, WRAPPER_MAGIC, ELF_MAGIC = 0xBA55ED50, 0x466243B1, b"\x7fELF"
PTX_KIND, CUBIN_KIND = 1, 2
LZ4_FLAG, ZSTD_FLAG, HOST_FLAG = 0x2000, 0x8000, 0x1000
_FEATURES = {0x100000: "a", 0x200000: "f"}  # flags of an entry (compiled: nvcc 13.0)
_IN_CUBIN = "PTX in a cubin"
_TEXT_SECTION, HOST_SECTION = ".nv_debug_ptx_txt", ".nv.host"
_NO_BITS = 8  # a section without bytes in the file
# of all entries unpacked, and of one: the largest PTX file that smemsim reads
MOST_BYTES, MOST_ENTRY = 1 << 30, 1 << 28
MOST_HEAD = 1 << 20  # characters in which .target is looked for: it is the second directive of PTX
_ENTRY = struct.Struct("<HHIQIIHHIQQQQ")
_TARGET = re.compile(r"^[ \t]*\.target\s+(?:\w+\s*,\s*)*?((?:sm|compute)_\d+[af]?)", re.MULTILINE)
_ADD = "compile with -gencode arch=compute_{0},code=compute_{0}, with -lineinfo, or hand PTX over"


_REASONS = {"exact": "", "family": " (of the card's family)", "older": " (older: every later card runs it)"}


class NoCode(InputError):
    """No code of a program can run on an architecture. The message lists the code, and what to add."""


@dataclasses.dataclass(frozen=True)
class Image:
    """One piece of code: PTX text, and where it was; `ptx` is "" for machine code without any."""

    target: str  # "sm_90a"
    ptx: str
    origin: str  # "PTX", "PTX in a cubin", "machine code"
    cubin: bytes = b""  # the cubin, if it has code for the host, too


def size_of(head: bytes) -> int:
    """Bytes of a fat binary or an ELF file, from its first 64 bytes; 0 for text, which ends with a zero byte."""
    if head[:4] == struct.pack("<I", FATBIN_MAGIC):
        _, _, header, size = struct.unpack_from("<IHHQ", head)
        return int(header + size)
    if head[:4] == ELF_MAGIC:
        sections, entry, count = struct.unpack_from("<Q", head, 40)[0], *struct.unpack_from("<HH", head, 58)
        return int(sections + entry * count)
    return 0


def at_address(address: int) -> bytes:
    """The code at an address of this process: a fat binary, a cubin, or text that a zero byte ends. InputError if its
    header claims bytes that are not there.
    """
    text = ctypes.string_at(address)
    if text[:4] not in (struct.pack("<I", FATBIN_MAGIC), ELF_MAGIC):
        return text
    size = size_of(_own_memory(address, 64))
    if size > MOST_BYTES or len(code := _own_memory(address, size)) < size:
        raise InputError(f"code at {address:#x}: its header says {size} bytes, which are not there: it is damaged")
    return code


def _own_memory(address: int, size: int) -> bytes:
    """Bytes of this process, as many as it can read from there on. A wrong size ends the read; through a pointer it
    would end the process.
    """
    if size > MOST_BYTES:
        return b""
    try:
        with open("/proc/self/mem", "rb", buffering=0) as memory:
            memory.seek(address)
            return memory.read(size)
    except OSError:
        return b""


def images(code: bytes) -> list[Image]:
    """All code in an image that a program passes: PTX text, a fat binary, a cubin. InputError for other and for damaged
    images.
    """
    try:
        if code[:4] == struct.pack("<I", FATBIN_MAGIC):
            return list(_of_fatbin(code))
        if code[:4] == ELF_MAGIC:
            return list(_of_elf(code))
    except struct.error:
        raise InputError(
            f"code of {len(code)} bytes that begins with {code[:8].hex()}: its header goes beyond its end: it is damaged"
        ) from None
    try:
        text = code.split(b"\0", 1)[0].decode()
    except UnicodeDecodeError:
        raise NoCode(f"code of {len(code)} bytes that begins with {code[:8].hex()}: no PTX, no fat binary and no cubin") from None
    return [Image(_target_of(text), text, "PTX")]


def chosen(found: Sequence[Image], arch: str) -> tuple[Image, str]:
    """(the PTX that runs on an architecture, why this one). The own architecture first, its family, then the newest
    older one. Raises NoCode.

    >>> old, new = (Image(t, f".target {t}", "PTX") for t in ("sm_80", "sm_90a"))
    >>> chosen([old, new], "sm_90a")[1]
    'PTX for sm_90a, of sm_80, sm_90a'
    >>> chosen([old], "sm_90a")[1]
    'PTX for sm_80 (older: every later card runs it)'
    """
    having = [image for image in found if image.ptx and how_it_runs(image.target, arch)]
    if not having:
        raise NoCode(_why_not(found, arch))
    best = max(  # the text in a cubin lacks the lines of the source
        having, key=lambda image: (image.target == arch, image.target.endswith("f"), target_number(image.target), image.origin == "PTX")
    )
    others = list(dict.fromkeys(image.target for image in found))
    of = f", of {', '.join(others)}" if len(others) > 1 else ""
    return best, f"{best.origin} for {best.target}{_REASONS[how_it_runs(best.target, arch)]}{of}"


def passed_over(found: Sequence[Image], arch: str) -> str:
    """A sentence if a card would take machine code whose PTX is not there, and smemsim takes older PTX. Else "".

    >>> old, new = Image("sm_80", ".target sm_80", "PTX"), Image("sm_90", "", "machine code")
    >>> passed_over([old, new], "sm_90a").partition("; ")[0]
    'the program has machine code for sm_90, which a card runs, and smemsim runs its PTX for sm_80'
    >>> passed_over([old, Image("sm_90a", ".target sm_90a", "PTX"), new], "sm_90a")
    ''
    """
    best = chosen(found, arch)[0].target
    if not best:  # a text alone, which names its target itself
        return ""
    newest = max((i.target for i in found if not i.ptx and _is_for(i.target, arch)), key=_order, default=best)
    if _order(newest) <= _order(best):
        return ""
    return (
        f"the program has machine code for {newest}, which a card runs, and smemsim runs its PTX for {best}; "
        f"the two differ if the source asks for __CUDA_ARCH__ or __CUDA_ARCH_FEAT_…; {_ADD.format(arch.removeprefix('sm_'))}"
    )


def _order(target: str) -> tuple[int, int]:
    """By its number, then by its features: those of `a` are more than those of `f`."""
    return target_number(target), "fa".find(target[-1])


def of_parts(parts: Sequence[Sequence[Image]], arch: str) -> str:
    """The PTX of a program: of the linked code (`-rdc=true`), then of each file that the driver would link.

    Code that was linked to machine code for this card has the PTX of all files in it. A part with machine code only is
    left out, and its functions do not exist. CUDA's device runtime is such a part. It is linked by nvcc 13.0 to every
    program, with PTX for a newer card.
    """
    if parts and any(image.origin == _IN_CUBIN and _is_for(image.target, arch) for image in parts[0]):
        return chosen(parts[0], arch)[0].ptx
    texts = [chosen(part, arch)[0].ptx for part in parts if any(i.ptx for i in part) and not _is_machine_code(part, arch)]
    return linked(texts) if texts else chosen([image for part in parts for image in part], arch)[0].ptx


def _is_machine_code(part: Sequence[Image], arch: str) -> bool:
    """Does a part have machine code for an architecture, and no PTX?"""
    return not any(i.ptx and how_it_runs(i.target, arch) for i in part) and any(not i.ptx and _is_for(i.target, arch) for i in part)


def _is_for(target: str, arch: str) -> bool:
    """Does machine code for a target run on an architecture: of its family, and no newer one? With `a`, on its own."""
    return family_of(target) == family_of(arch) and how_it_runs(target, arch) != ""


def _why_not(found: Sequence[Image], arch: str) -> str:
    add = _ADD.format(arch.removeprefix("sm_"))
    with_ptx = [image.target for image in found if image.ptx]
    if with_ptx:
        cards = [card for card in MACHINES if any(how_it_runs(target, card) for target in with_ptx)]
        other = next((card for card in cards if card in with_ptx), cards[0] if cards else "")
        return f"there is PTX for {', '.join(with_ptx)}, which {arch} does not run; {f'choose {other} (--arch), or ' * bool(other)}{add}"
    machine = ", ".join(dict.fromkeys(image.target for image in found if not image.ptx))
    return f"there is {f'machine code for {machine}' if machine else 'no code'} and no PTX: smemsim runs PTX; {add}"


def _target_of(text: str) -> str:
    found = _TARGET.search(text, 0, MOST_HEAD)
    return found[1].replace("compute_", "sm_") if found else ""


def _of_fatbin(code: bytes) -> Iterator[Image]:
    _, _, header, size = struct.unpack_from("<IHHQ", code)
    at, end, room = header, header + size, MOST_BYTES
    if end > len(code):
        raise InputError(f"fat binary: its header says {end} bytes, and there are {len(code)}: it is damaged")
    while at + _ENTRY.size <= end:
        kind, _, head, length, packed, _, _, _, arch, _, flags, _, unpacked = _ENTRY.unpack_from(code, at)
        if not head:
            break
        if head < _ENTRY.size:
            raise InputError(f"fat binary: an entry at byte {at} has a header of {head} bytes: it is damaged")
        if at + head + length > end:
            raise InputError(f"fat binary: the entry at byte {at} goes beyond its end: it is damaged")
        data = code[at + head : at + head + length]
        at += head + length
        if kind not in (PTX_KIND, CUBIN_KIND):
            continue
        if flags & (LZ4_FLAG | ZSTD_FLAG):
            if unpacked > min(room, MOST_ENTRY):
                raise InputError(
                    f"fat binary: an entry of {unpacked} bytes; at most {MOST_ENTRY} of one and {MOST_BYTES} of all together are read"
                )
            room -= unpacked
            ask("the code of a fat binary, unpacked", unpacked)
            data = (_zstd if flags & ZSTD_FLAG else _lz4)(data[: packed or length], unpacked)
        if kind == CUBIN_KIND:
            yield from _of_elf(data, f"sm_{arch}" + "".join(suffix for flag, suffix in _FEATURES.items() if flags & flag))
        else:
            text = data.split(b"\0", 1)[0].decode(errors="replace")
            yield Image(_target_of(text) or f"sm_{arch}", text, "PTX")


def _of_elf(code: bytes, target: str = "") -> Iterator[Image]:
    """The PTX that ptxas left in a cubin, NUL for newline. The lines `.loc` and `.file` are blanked there, and come
    from the line tables. Without PTX the result is an image without text.

    NVIDIA's nvJitLink writes a section for each input, whose name ends in a number (compiled: nvJitLink 13.5).
    """
    if len(code) >= 64:
        flags = struct.unpack_from("<I", code, 48)[0]
        target = target or f"sm_{flags >> 8 & 0xFF if code[8] >= 8 else flags & 0xFF}"
    has_host = any(name == HOST_SECTION for name, _, _ in sections(code))
    texts = [data for name, _, data in sections(code) if name == _TEXT_SECTION or name.startswith(f"{_TEXT_SECTION}.")]
    found = linked([text.rstrip(b"\0").replace(b"\0", b"\n").decode(errors="replace") for text in texts]) if texts else ""
    if len(texts) == 1:
        found = with_locations(found, {name: data for name, _, data in sections(code)})
    yield Image(_target_of(found) or target, found, _IN_CUBIN if found else "machine code", code if has_host else b"")


def sections(code: bytes) -> Iterator[tuple[str, int, bytes]]:
    """(name, `sh_info`, bytes) of the sections of an ELF file of 64 bits."""
    if len(code) < 64 or not code.startswith(ELF_MAGIC):
        return
    table, entry, count, names = struct.unpack_from("<Q", code, 40)[0], *struct.unpack_from("<HHH", code, 58)
    found = [struct.unpack_from("<IIQQQQII", code, table + n * entry) for n in range(count) if table + (n + 1) * entry <= len(code)]
    if sum(min(row[5], len(code)) for row in found if row[1] != _NO_BITS) > 2 * len(code):
        raise InputError(f"a cubin of {len(code)} bytes has sections that lie over one another: it is damaged")
    strings = found[names][4] if names < len(found) else 0
    for at, kind, _, _, offset, size, _, info in found:
        name = code[strings + at : strings + at + 4096].split(b"\0", 1)[0].decode(errors="replace")
        yield name, info, b"" if kind == _NO_BITS else code[offset : offset + size]


def registers_of(cubin: bytes, kernel: str) -> tuple[int, int]:
    """(registers, bytes of local memory) of a thread of a kernel, as ptxas decided; zeros if the cubin does not have
    them.

    Attributes 0x2f and 0x11 of `.nv.info`, by the kernel's symbol. Older cubins have the registers in the top byte of
    `sh_info` (compiled: equal to the output of `ptxas -v` of CUDA 12 and 13).
    """
    registers, symbol, attributes = 0, b"", b""
    for name, info, data in sections(cubin):
        if name == f".text.{kernel}":
            registers, symbol = info >> 24, struct.pack("<I", info & 0xFFFFFF)
        elif name == ".nv.info":
            attributes = data

    def attribute(number: int, otherwise: int) -> int:
        at = attributes.find(bytes((4, number, 8, 0)) + symbol) if symbol else -1
        return struct.unpack_from("<I", attributes, at + 8)[0] if 0 <= at <= len(attributes) - 12 else otherwise

    return attribute(0x2F, registers), attribute(0x11, 0)


# ---- Compression


# bytes that one byte of an lz4 block can become (lz4's block format: 255 for each further byte of a length)
MOST_LZ4 = 255


def _lz4(data: bytes, size: int) -> bytes:
    """A block of lz4, whose header says how large it becomes."""
    import lz4.block

    try:
        if size > MOST_LZ4 * len(data) + 64:
            raise lz4.block.LZ4BlockError
        found: bytes = lz4.block.decompress(data, uncompressed_size=size)
        if len(found) != size:
            raise lz4.block.LZ4BlockError
    except lz4.block.LZ4BlockError:
        raise InputError("fat binary: an lz4 entry is damaged") from None
    return found


def _zstd(data: bytes, size: int) -> bytes:
    """A frame of zstd, by the module of Python 3.14, or by the package that brings it to older ones."""
    for name in ("compression.zstd", "backports.zstd"):
        with contextlib.suppress(ImportError):
            module = importlib.import_module(name)
            try:
                unpacking = module.ZstdDecompressor()
                # one more: the end of the frame, and its checksum
                found = bytes(unpacking.decompress(data, max_length=size + 1))
                if len(found) != size or not unpacking.eof:
                    raise EOFError
            except (module.ZstdError, EOFError):
                raise InputError("fat binary: a zstd entry is damaged") from None
            return found
    raise InputError(
        "fat binary: its code is compressed with zstd, and no module here reads it: pip install backports.zstd, or nvcc -Xfatbin -compress-mode=none"
    )
