"""Litmus tests in the format of herd and Dat3M: a column for each thread, and a condition on what registers and memory
end with.
"""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Mapping

__all__ = ["Inexpressible", "Instruction", "Litmus", "Thread", "holds", "parse"]

SEMANTICS = ("weak", "relaxed", "acquire", "release", "acq_rel", "sc")
SCOPES = ("cta", "cluster", "gpu", "sys")
BRANCHES = {"beq": "eq", "bne": "ne", "blt": "lt", "bgt": "gt", "ble": "le", "bge": "ge"}
ARITHMETIC = ("add", "sub", "mul", "div")
OPERATIONS = ("add", "sub", "and", "or", "xor", "exch", "cas")
OTHER_PROXIES = {"sust": "surface", "suld": "surface", "suatom": "surface", "sured": "surface", "tld": "texture", "cold": "constant"}


class Inexpressible(Exception):
    """What a test has that no kernel here could have, in a sentence."""


@dataclasses.dataclass(frozen=True)
class Instruction:
    """One instruction: `op` is ld, st, atom, red, fence, bar, mov, a branch, goto, label or arithmetic; `to` a
    register, `values` numbers or registers.
    """

    op: str
    semantics: str = "weak"
    scope: str = ""
    operation: str = ""
    to: str = ""
    location: str = ""
    values: tuple[int | str, ...] = ()
    label: str = ""

    @property
    def reads(self) -> bool:
        """Does it read memory?"""
        return self.op in ("ld", "atom", "red")

    @property
    def writes(self) -> bool:
        """Can it write memory?"""
        return self.op in ("st", "atom", "red")


@dataclasses.dataclass(frozen=True)
class Thread:
    """A thread: where it runs, and what."""

    name: str
    cta: int
    gpu: int
    body: tuple[Instruction, ...]


@dataclasses.dataclass(frozen=True)
class Litmus:
    """A test. `memory` and `registers` ("P0:r1") are what they begin with; `quantifier` is
    exists, ~exists or forall.
    """

    name: str
    threads: tuple[Thread, ...]
    memory: Mapping[str, int]
    registers: Mapping[str, int]
    quantifier: str
    condition: str

    @property
    def ctas(self) -> list[int]:
        """The CTAs that its threads are in."""
        return sorted({thread.cta for thread in self.threads})


def parse(text: str) -> Litmus:
    """Read a test. Inexpressible says what of it no kernel has; ValueError that it is no such test."""
    bare = re.sub(r'"[^"]*"', "", text)
    head, _, rest = bare.partition("{")
    declarations, _, rest = rest.partition("}")
    found = re.search(r"(?m)^\s*(~\s*exists|exists|forall)\b", rest)
    if not head.split()[1:] or head.split()[0].upper() != "PTX" or not found:
        raise ValueError("no litmus test of PTX")
    if re.search(r"\bfilter\b", rest[: found.start()]):
        raise Inexpressible("a filter")
    rows = [row for row in rest[: found.start()].replace("\n", " ").split(";") if row.strip()]
    threads = _threads(rows)
    memory, registers = _declared(declarations)
    used = {i.location for thread in threads for i in thread.body if i.location}
    memory = {**dict.fromkeys(sorted(used), 0), **memory}
    return Litmus(head.split()[1], threads, memory, registers, re.sub(r"\s", "", found[1]), " ".join(rest[found.end() :].split()))


def _declared(text: str) -> tuple[dict[str, int], dict[str, int]]:
    memory: dict[str, int] = {}
    registers: dict[str, int] = {}
    for part in re.split(r"[;\n]", text):
        line = part.strip()
        if not line:
            continue
        if alias := re.fullmatch(r"(\w+)\s*@\s*(\w+)\s+aliases\s+(\w+)", line):
            raise Inexpressible(
                "a second virtual address of a location" if alias[2] == "generic" else f"a location of the {alias[2]} proxy"
            )
        found = re.fullmatch(r"(?:(P\d+)\s*:\s*)?(\w+)\s*=\s*(-?\d+)", line)
        if not found:
            raise Inexpressible("a pointer as an initial value")
        if found[1]:
            registers[f"{found[1]}:{found[2]}"] = int(found[3])
        else:
            memory[found[2]] = int(found[3])
    return memory, registers


def _threads(rows: list[str]) -> tuple[Thread, ...]:
    places = []
    for cell in rows[0].split("|"):
        found = re.fullmatch(r"\s*(P\d+)\s*@\s*cta\s*(\d+)\s*,\s*gpu\s*(\d+)\s*", cell)
        if not found:
            raise ValueError(f"no thread: {cell.strip()}")
        places.append((found[1], int(found[2]), int(found[3])))
    if len({gpu for _, _, gpu in places}) > 1:
        raise Inexpressible("threads on two GPUs")
    bodies: list[list[Instruction]] = [[] for _ in places]
    for row in rows[1:]:
        for body, cell in zip(bodies, row.split("|"), strict=False):
            if cell.strip():
                body.append(_instruction(cell.strip()))
    return tuple(Thread(*place, tuple(body)) for place, body in zip(places, bodies, strict=True))


def _instruction(text: str) -> Instruction:
    if text.endswith(":"):
        return Instruction("label", label=text[:-1].strip())
    word, _, tail = text.partition(" ")
    op, *modifiers = word.split(".")
    operands = [x.strip() for x in tail.split(",")] if tail.strip() else []
    if op == "goto":
        return Instruction("goto", label=operands[0])
    if op in BRANCHES:
        return Instruction(op, values=(_value(operands[0]), _value(operands[1])), label=operands[2])
    if op in OTHER_PROXIES:
        raise Inexpressible(f"an access by the {OTHER_PROXIES[op]} proxy")
    if op == "fence" and modifiers[:1] == ["proxy"]:
        raise Inexpressible(f"a fence of the {modifiers[1]} proxy")
    if op == "bar":
        return Instruction("bar", operation=modifiers[-1], values=tuple(map(_value, operands)))
    return _access(op, modifiers, operands, word)


def _access(op: str, modifiers: list[str], operands: list[str], word: str) -> Instruction:
    """Accesses of memory, fences, and what computes."""
    semantics = next((m for m in modifiers if m in SEMANTICS), "weak")
    scope = next((m for m in modifiers if m in SCOPES), "")
    if op == "fence":
        return Instruction("fence", semantics, scope)
    if op == "ld" and not modifiers:
        return Instruction("mov", to=operands[0], values=(_value(operands[1]),))
    if op in ARITHMETIC:
        return Instruction(op, to=operands[0], values=tuple(map(_value, operands[1:])))
    if op == "ld":
        return Instruction("ld", semantics, scope, to=operands[0], location=operands[1])
    if op == "st":
        return Instruction("st", semantics, scope, location=operands[0], values=(_value(operands[1]),))
    operation = next((m for m in modifiers if m in OPERATIONS), "")
    if op in ("atom", "red") and operation:
        to = operands.pop(0) if op == "atom" else ""
        return Instruction(op, semantics, scope, operation, to, operands[0], tuple(map(_value, operands[1:])))
    raise Inexpressible(f"the instruction {word}")


def _value(text: str) -> int | str:
    return int(text) if re.fullmatch(r"-?\d+", text) else text


def holds(condition: str, outcome: Mapping[str, int]) -> bool:
    """Does a condition hold of what registers ("P0:r1") and locations end with? What is not named there is 0.

    >>> holds("(P0:r0 == 1 /\\\\ ~(x == 2 \\\\/ P1:r1 != 0))", {"P0:r0": 1, "x": 3})
    True
    """
    text = condition.replace("/\\", " and ").replace("\\/", " or ").replace("~", " not ")
    text = re.sub(r"P?(\d+)\s*:\s*(r\d+)", r"P\1__\2", text)
    text = re.sub(r"(?<![=!<>])=(?!=)", "==", text)
    return bool(_valued(ast.parse(text.strip(), mode="eval").body, outcome))


def _valued(node: ast.expr, outcome: Mapping[str, int]) -> int:
    if isinstance(node, ast.BoolOp):
        parts = [bool(_valued(part, outcome)) for part in node.values]
        return all(parts) if isinstance(node.op, ast.And) else any(parts)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return not _valued(node.operand, outcome)
    if isinstance(node, ast.Compare):
        left, right = _valued(node.left, outcome), _valued(node.comparators[0], outcome)
        return left == right if isinstance(node.ops[0], ast.Eq) else left != right
    if isinstance(node, ast.Name):
        return outcome.get(node.id.replace("__", ":"), 0)
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return int(node.value)
    raise ValueError(f"condition: {ast.dump(node)}")
