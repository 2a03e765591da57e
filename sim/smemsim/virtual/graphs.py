"""CUDA graphs: nodes that run after others, what was instantiated of them, and objects of the host that live as long as they do.

>>> made = []
>>> graph = Graph()
>>> first = graph.add(Node("host", lambda: made.append(1)))
>>> second = graph.add(Node("host", lambda: made.append(2)), [first])
>>> GraphExec(graph).run()
>>> made
[1, 2]
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

from smemsim.virtual.errors import INVALID_VALUE, CudaError

__all__ = ["Graph", "GraphExec", "Node", "UserObject", "reached"]


@dataclasses.dataclass(eq=False)
class Node:
    """Something that a stream does: `run` does it. `info` is what queries are told, `after` the nodes of its graph before which it cannot run."""

    kind: str  # "kernel", "memcpy", "memset", "host", "record", "wait", "alloc", "free", "graph", "empty"
    run: Callable[[], Any]
    info: dict[str, Any] = dataclasses.field(default_factory=dict)
    after: list[Node] = dataclasses.field(default_factory=list)
    is_enabled: bool = True
    graph: Graph | None = None

    def become(self, other: Node) -> None:
        """Do from now on what another node does, where this one stands."""
        self.run, self.info = other.run, other.info


class UserObject:
    """Something of the host that `destroy` ends: when as many references were given back as were taken."""

    def __init__(self, destroy: Callable[[], None], references: int = 1) -> None:
        self._destroy, self.references = destroy, references

    def retain(self, count: int = 1) -> None:
        """So many references more."""
        self.references += count

    def release(self, count: int = 1) -> None:
        """So many less. CudaError 1 where there are not as many."""
        if not 0 < count <= self.references:
            raise CudaError(INVALID_VALUE, f"{count} references are given back, of {self.references}")
        self.references -= count
        if not self.references:
            self._destroy()


class _Holder:
    """What holds references to user objects: `objects` says how many of each."""

    def __init__(self) -> None:
        self.objects: dict[UserObject, int] = {}

    def hold(self, held: UserObject, count: int = 1, *, is_moved: bool = False) -> None:
        """Hold so many references more: new ones, or the caller's own."""
        if not is_moved:
            held.retain(count)
        self.objects[held] = self.objects.get(held, 0) + count

    def hold_those_of(self, other: _Holder) -> None:
        """Hold as many of each as another one does."""
        for held, count in other.objects.items():
            self.hold(held, count)

    def let_go(self, held: UserObject, count: int = 1) -> None:
        """Give so many back. CudaError 1 where it does not hold as many."""
        left = self.objects.get(held, 0) - count
        if left < 0:
            raise CudaError(INVALID_VALUE, "the graph does not hold as many references to this user object")
        self.objects[held] = left
        if not left:
            del self.objects[held]
        held.release(count)

    def close(self) -> None:
        """Give all of them back: it is destroyed."""
        for held, count in list(self.objects.items()):
            self.let_go(held, count)


class Graph(_Holder):
    """Nodes, each of which runs after those that it depends on."""

    def __init__(self) -> None:
        super().__init__()
        self.nodes: list[Node] = []
        self.copies: dict[Node, Node] = {}  # of a clone: its own node of each of the other graph

    def add(self, node: Node, after: Iterable[Node] = ()) -> Node:
        """One node more."""
        node.after, node.graph = list(dict.fromkeys(after)), self
        self.nodes.append(node)
        return node

    def remove(self, node: Node) -> None:
        """One node less; nobody waits for it any more."""
        self.nodes.remove(node)
        for other in self.nodes:
            other.after = [before for before in other.after if before is not node]

    @property
    def edges(self) -> list[tuple[Node, Node]]:
        """(a node, one that runs after it)."""
        return [(before, node) for node in self.nodes for before in node.after]

    def add_graph(self, child: Graph, after: Iterable[Node] = ()) -> Node:
        """One node more, which is a graph: as the other one is now. Its user objects live as long as this graph."""
        self.hold_those_of(child)
        return self.add(_node_of(child), after)

    def clone(self) -> Graph:
        """Another graph of the same nodes, which can be changed without this one."""
        made = Graph()
        made.hold_those_of(self)
        copies = {node: made.add(_copy(node)) for node in self.nodes}
        for node, copy in copies.items():
            copy.after = [copies[before] for before in node.after]
        made.copies = copies
        return made

    def depend(self, before: Node, node: Node) -> None:
        """A node runs after another one. CudaError 1 where it does already, or is the same."""
        if before is node or before in node.after:
            raise CudaError(INVALID_VALUE, "there is such an edge already, or it leads back to its node")
        node.after.append(before)

    def ordered(self) -> list[Node]:
        """The nodes in an order in which they can run: that in which they were added, where that is one. CudaError where there is none."""
        done: dict[Node, None] = {}
        left = list(self.nodes)
        while left:
            ready = [node for node in left if all(other in done for other in node.after)]
            if not ready:
                raise CudaError(INVALID_VALUE, "graph: its nodes depend on each other in a circle")
            done[ready[0]] = None
            left.remove(ready[0])
        return list(done)


class GraphExec(_Holder):
    """A graph that can be launched: its nodes as they were when it was instantiated."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        copies = {node: dataclasses.replace(node) for node in graph.ordered()}
        self.of = copies  # the own node of each of the graph
        self.nodes = list(copies.values())
        self.hold_those_of(graph)
        for node in self.nodes:
            if "graph" in node.info:
                node.run = GraphExec(node.info["graph"]).run

    def run(self) -> None:
        """Run all nodes that are enabled."""
        for node in self.nodes:
            if node.is_enabled:
                node.run()


def _node_of(child: Graph) -> Node:
    """A node that is a graph as it is now, which holds no user objects of its own: the graph around it does."""
    inner = child.clone()
    inner.close()
    return Node("graph", lambda: GraphExec(inner).run(), {"graph": inner})


def _copy(node: Node) -> Node:
    if "graph" not in node.info:
        return dataclasses.replace(node)
    made = _node_of(node.info["graph"])
    made.is_enabled = node.is_enabled
    return made


def reached(nodes: Iterable[Node]) -> set[Node]:
    """These nodes, and all that run before them."""
    found: set[Node] = set()
    left = list(nodes)
    while left:
        node = left.pop()
        if node not in found:
            found.add(node)
            left += node.after
    return found
