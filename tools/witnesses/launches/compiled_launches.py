"""The launches as they are kept: launches.tar.xz with NAME/kernel.ptx and NAME/launch.json, and index.json with their
SHA-256.

python suite.py pack FOLDER_OF_BUILD [OUT]     python suite.py unpack OUT_FOLDER
"""

from __future__ import annotations

import hashlib
import io
import json
import pathlib
import re
import sys
import tarfile
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[3]
GOLDEN = ROOT / "golden" / "compiled" / "launches_sm_100a"
SCHEMA = "smemsim.launches/1"
FILES = ("kernel.ptx", "launch.json")
ARCHIVE = "launches.tar.xz"

__all__ = ["files", "forms", "pack", "read"]


def forms(ptx: str) -> list[str]:
    """Every instruction of a text, opcode and qualifiers."""
    lines = (re.sub(r"//.*", "", line) for line in ptx.splitlines())
    parts = (part.strip() for line in lines for part in re.split(r"[;{}]", line))
    found = (re.match(r"(?:@!?%?\w+\s+)?([a-z][a-z0-9_]*(?:\.[a-zA-Z0-9_:]+)*)(?=\s|$)", part) for part in parts)
    words = (m[1] for m in found if m)
    return [w for w in words if "." in w or w in ("bra", "ret", "exit", "trap", "elect", "call")]


def files(folder: pathlib.Path = GOLDEN) -> dict[str, bytes]:
    """Every file of the archive by its name."""
    with tarfile.open(folder / ARCHIVE) as archive:
        return {member.name: archive.extractfile(member).read() for member in archive}  # type: ignore[union-attr]


def read(folder: pathlib.Path = GOLDEN) -> dict[str, tuple[str, dict[str, Any]]]:
    """PTX and launch by name."""
    found = files(folder)
    names = sorted({name.split("/")[0] for name in found})
    return {n: (found[f"{n}/kernel.ptx"].decode(), json.loads(found[f"{n}/launch.json"])) for n in names}


def pack(built: pathlib.Path, out: pathlib.Path = GOLDEN) -> None:
    """Write the suite from the folder of `build.py`; the same bytes from the same texts."""
    out.mkdir(parents=True, exist_ok=True)
    lines = []
    with tarfile.open(out / ARCHIVE, "w:xz", preset=9, format=tarfile.USTAR_FORMAT) as archive:
        for folder in sorted(p.parent for p in built.glob("*/launch.json")):
            launch = json.loads((folder / "launch.json").read_text())
            about = {"compiler": launch["compiler"]}
            for file in FILES:
                text = (folder / file).read_bytes()
                about[file] = hashlib.sha256(text).hexdigest()
                member = tarfile.TarInfo(f"{folder.name}/{file}")
                member.size = len(text)
                archive.addfile(member, io.BytesIO(text))
            lines.append(f"  {json.dumps(folder.name)}: {json.dumps(about)}")
    head = {"schema": SCHEMA, "arch": "sm_100a", "grade": "compiled", "device": "none: compiled, not run"}
    told = [f" {json.dumps(k)}: {json.dumps(v)}" for k, v in head.items()]
    (out / "index.json").write_text("{\n" + ",\n".join(told) + ',\n "launches": {\n' + ",\n".join(lines) + "\n }\n}\n")


def main() -> None:
    match sys.argv[1:]:
        case ["pack", built, *out]:
            pack(pathlib.Path(built), *map(pathlib.Path, out))
        case ["unpack", out]:
            for name, data in files().items():
                (pathlib.Path(out) / name).parent.mkdir(parents=True, exist_ok=True)
                (pathlib.Path(out) / name).write_bytes(data)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
