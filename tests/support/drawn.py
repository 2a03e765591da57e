"""The shapes and the texts of a picture, with what its letters need, and laws of every picture."""

from __future__ import annotations

import itertools
from xml.etree import ElementTree as ET

__all__ = ["LETTER", "SIZES", "SVG", "Drawn", "around", "box_of", "inset", "inside", "meet", "middle"]

SVG = "{http://www.w3.org/2000/svg}"
SIZES = {"t": 15, "s": 11.5, "b": 13, "n": 9.5}  # pixels of a letter's height by class; the last one in the style sheet counts
LETTER = 0.6  # of its height, in all monospaced fonts
CAPITAL, BELOW = 0.75, 0.2  # how far letters reach from the base line


class Drawn:
    """The shapes of a picture: boxes are (left, top, right, bottom)."""

    def __init__(self, text):
        self.root = ET.fromstring(text)
        self.whole = (0, 0, *(float(self.root.get(name)) for name in ("width", "height")))
        self.texts, self.anchors = {}, {}
        for t in self.root.iter(f"{SVG}text"):
            classes, said, at = t.get("class").split(), t.text or "", (float(t.get("x")), float(t.get("y")))
            if said:
                high = next((SIZES[name] for name in ("n", "b", "s", "t") if name in classes), 11)
                wide = LETTER * high * len(said)
                left = at[0] - (wide / 2 if "m" in classes else wide if "r" in classes else 0)
                self.texts.setdefault(said, []).append((left, at[1] - CAPITAL * high, left + wide, at[1] + BELOW * high))
                self.anchors.setdefault(said, []).append(at)
        self.rects = {}
        for r in self.root.iter(f"{SVG}rect"):
            if r.get("class") != "bg":
                x, y, w, h = (float(r.get(name)) for name in ("x", "y", "width", "height"))
                self.rects.setdefault(r.get("class"), []).append((x, y, x + w, y + h))
                assert w > 0
                assert h > 0
        self.cells = {t.text: box_of(r) for r in self.root.iter(f"{SVG}rect") for t in r.iter(f"{SVG}title")}
        self.lines = {}  # by class: the points of each arrow's line
        for p in self.root.iter(f"{SVG}path"):
            if p.get("class") == "mma":  # the line around chosen cells
                continue
            line = p.get("d").split("M")[1]
            self.lines.setdefault(p.get("class"), []).append([tuple(map(float, point.split())) for point in line.split("L")])

    def check(self):
        """Everything is inside the picture, and no text is over another one."""
        for box in itertools.chain(*self.texts.values(), *self.rects.values()):
            assert inside(box, self.whole)
        for points in itertools.chain(*(lines for name, lines in self.lines.items() if name in ("SBO", "LBO"))):
            assert all(0 <= x <= self.whole[2] and 0 <= y <= self.whole[3] for x, y in points)
        for (one, a), (other, b) in itertools.combinations([(t, box) for t, boxes in self.texts.items() for box in boxes], 2):
            assert not meet(a, b), (one, other)

    def text(self, said):
        """The place of the only text that says this."""
        [box] = self.texts[said]
        return box


def box_of(r):
    x, y, w, h = (float(r.get(name)) for name in ("x", "y", "width", "height"))
    return x, y, x + w, y + h


def inside(box, other, room=0.0):
    return other[0] + room <= box[0] and other[1] + room <= box[1] and box[2] <= other[2] - room and box[3] <= other[3] - room


def meet(a, b):
    return a[0] < b[2] - 0.01 and b[0] < a[2] - 0.01 and a[1] < b[3] - 0.01 and b[1] < a[3] - 0.01


def middle(box):
    return (box[0] + box[2]) / 2, (box[1] + box[3]) / 2


def inset(box, around):
    """How far a box is inside another one on each side; the sides are alike."""
    sides = {round(x, 3) for x in (box[0] - around[0], box[1] - around[1], around[2] - box[2], around[3] - box[3])}
    assert len(sides) == 1
    return sides.pop()


def around(boxes):
    boxes = list(boxes)
    return (*(min(b[i] for b in boxes) for i in (0, 1)), *(max(b[i] for b in boxes) for i in (2, 3)))
