"""What the sanitizer does with the events of execution that concern several of its parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from smemsim.run.accesses import for_part
from smemsim.run.events import Access

if TYPE_CHECKING:
    from smemsim.run.engine.wave import Wave

__all__ = ["Accesses"]


class Accesses:
    """Accesses of memory by threads, for `Sanitizer` and `SanitizerOfFirst`: each part is told of those that concern it."""

    def accessed(self: Any, x: Wave, access: Access) -> None:
        """Threads read, or have written."""
        if access.kind == "read":
            self._has_read(x, access)
        elif access.kind == "write":
            self._has_written(x, access)
        else:
            self.copy(x, access.instruction, access.piece.at, access.size, access.values)

    def _has_read(self: Any, x: Wave, access: Access) -> None:
        _, i, _, piece, size, is_strong, scope, is_joint, *_ = access
        if is_joint and self.unreleased.stores:
            self.unreleased.accessed(i, piece, size, "read")
        self.unreleased.read(i, piece, size)
        if piece.space == "global":
            if self.globals is not None:
                for_part(x, piece, lambda: self.globals.read(i, piece, size))
        elif piece.space == "shared":
            if is_strong:
                for_part(x, piece, lambda: self.strong_read(x, i, piece.at, size, scope))
            else:
                for_part(x, piece, lambda: self.read(x, i, piece.at, size))
        elif piece.space == "local":
            self.taint.reads_local(i, piece, size)

    def _has_written(self: Any, x: Wave, access: Access) -> None:
        _, i, _, piece, size, is_strong, scope, is_joint, has_changed, values = access
        if is_joint and self.unreleased.stores:
            self.unreleased.accessed(i, piece, size, "overwritten")
        self.taint.writes(piece, size)
        if self.unreleased.stores and has_changed:
            self.unreleased.wrote(i, piece, size)
        if id(i) in self.lost.stores:
            for_part(x, piece, lambda: self.lost.look(i, piece, size, values))
        if piece.space == "global" and self.globals is not None:
            if has_changed:
                for_part(x, piece, lambda: self.globals.write(i, piece, size, values))
            else:
                for_part(x, piece, lambda: self.globals.read(i, piece, size))
        if piece.space != "shared":
            return
        if is_strong:
            for_part(x, piece, lambda: self.strong_write(x, i, piece.at, size, changed=has_changed, scope=scope))
        else:
            for_part(x, piece, lambda: self.write(x, i, piece.at, size, values))

    def updates(self: Any, x: Wave, access: Access) -> None:
        """Threads are about to read and change something by an atomic operation; an exchange takes what is there."""
        i, piece, size = access.instruction, access.piece, access.size
        if "exch" in i.modifiers:
            for_part(x, piece, lambda: self.takes(x, i, piece, size))
        elif piece.space == "global" and self.globals is not None:
            for_part(x, piece, lambda: self.globals.updates(i, piece, size))
