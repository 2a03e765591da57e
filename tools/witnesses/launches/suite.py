"""The launches as they are kept: launches.zip with NAME/kernel.ptx and NAME/launch.json, and index.json with their SHA-256.

    python suite.py pack FOLDER_OF_BUILD [OUT]     python suite.py unpack OUT_FOLDER
"""

from __future__ import annotations

import hashlib
import json
import pathlib
import re
import sys
import zipfile
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[3]
GOLDEN = ROOT / "golden" / "compiled" / "launches_sm_100a"
SCHEMA = "smemsim.launches/1"
FILES = ("kernel.ptx", "launch.json")
LEFT_OUT = ("triton_attention_head128", "triton_pointers_f16_edges")  # the two largest texts

__all__ = ["forms", "pack", "read"]


def forms(ptx: str) -> list[str]:
    """Every instruction of a text, opcode and qualifiers."""
    lines = (re.sub(r"//.*", "", line) for line in ptx.splitlines())
    parts = (part.strip() for line in lines for part in re.split(r"[;{}]", line))
    found = (re.match(r"(?:@!?%?\w+\s+)?([a-z][a-z0-9_]*(?:\.[a-zA-Z0-9_:]+)*)(?=\s|$)", part) for part in parts)
    words = (m[1] for m in found if m)
    return [w for w in words if "." in w or w in ("bra", "ret", "exit", "trap", "elect", "call")]


def read(folder: pathlib.Path = GOLDEN) -> dict[str, tuple[str, dict[str, Any]]]:
    """PTX and launch by name."""
    with zipfile.ZipFile(folder / "launches.zip") as archive:
        names = sorted({n.split("/")[0] for n in archive.namelist()})
        return {n: (archive.read(f"{n}/kernel.ptx").decode(), json.loads(archive.read(f"{n}/launch.json"))) for n in names}


def pack(built: pathlib.Path, out: pathlib.Path = GOLDEN) -> None:
    """Write the suite from the folder of `build.py`; the same bytes from the same texts."""
    out.mkdir(parents=True, exist_ok=True)
    index: dict[str, Any] = {}
    with zipfile.ZipFile(out / "launches.zip", "w", zipfile.ZIP_LZMA) as archive:
        for folder in sorted(p.parent for p in built.glob("*/launch.json") if p.parent.name not in LEFT_OUT):
            launch = json.loads((folder / "launch.json").read_text())
            index[folder.name] = {"title": launch["title"], "compiler": launch["compiler"]}
            for file in FILES:
                text = (folder / file).read_bytes()
                index[folder.name][file] = hashlib.sha256(text).hexdigest()
                about = zipfile.ZipInfo(f"{folder.name}/{file}")
                about.compress_type = zipfile.ZIP_LZMA
                archive.writestr(about, text)
    about = {"schema": SCHEMA, "arch": "sm_100a", "grade": "compiled", "device": "none: compiled, not run", "launches": index}
    (out / "index.json").write_text(json.dumps(about, indent=1) + "\n")


def main() -> None:
    match sys.argv[1:]:
        case ["pack", built, *out]:
            pack(pathlib.Path(built), *map(pathlib.Path, out))
        case ["unpack", out]:
            with zipfile.ZipFile(GOLDEN / "launches.zip") as archive:
                archive.extractall(out)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
