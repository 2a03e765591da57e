"""CUDA graphs: nodes that run after others, what was instantiated of them, and objects of the host that live as long as
they do.

A conditional node (CUDA C++ programming guide, CUDA graphs) runs graphs of its own, by a value that kernels set.

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

from smemsim.virtual.errors import GRAPH_UPDATE_FAILED, INVALID_VALUE, NOT_SUPPORTED, CudaError

__all__ = ["BODIES", "Condition", "Graph", "GraphExec", "Node", "UserObject", "reached"]


BODIES = {
    "if": (1, 2),
    "while": (1,),
    "switch": range(1, 1 << 16),
}  # how many graphs a conditional node has (cuda.h, CUDA_CONDITIONAL_NODE_PARAMS)
IN_BODIES = {"kernel", "empty", "graph", "memset", "memcpy", "conditional"}  # ... and what may stand in them


@dataclasses.dataclass(eq=False)
class Node:
    """An operation of a stream; `run` executes it. It runs after the nodes `after` of its graph.

    `info` is the answer to queries. Its key "given" has the numbers that the node was made of, in the order of the
    structures of cuda.h.
    """

    # "kernel", "memcpy", "memset", "host", "record", "wait", "alloc", "free", "graph", "empty", "conditional"
    kind: str
    run: Callable[[], Any]
    info: dict[str, Any] = dataclasses.field(default_factory=dict)
    after: list[Node] = dataclasses.field(default_factory=list)
    is_enabled: bool = True
    graph: Graph | None = None

    @property
    def graphs(self) -> list[Graph]:
        """The graphs that it runs."""
        return [self.info["graph"]] if "graph" in self.info else self.info.get("bodies", [])

    def become(self, other: Node) -> None:
        """Do from now on what another node does, where this one stands. CudaError 1 where that is of another kind."""
        if other.kind != self.kind:
            raise CudaError(INVALID_VALUE, f"a node of kind {self.kind} cannot become one of kind {other.kind}")
        self.run, self.info = other.run, other.info


@dataclasses.dataclass(eq=False)
class Condition:
    """A conditional handle: a value that kernels set. `default` is its value at the start of each launch of its graph;
    None: unchanged.
    """

    graph: Graph
    default: int | None = None
    value: int = 0
    node: Node | None = None

    def begin(self) -> None:
        """The graph is launched."""
        if self.default is not None:
            self.value = self.default


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
    """The holder of references to user objects. The number of each is in `objects`."""

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
        self.conditions: list[Condition] = []
        self.parent: Graph | None = None  # of a child graph, or one of a conditional node

    def add(self, node: Node, after: Iterable[Node] = ()) -> Node:
        """One node more."""
        node.after, node.graph = list(dict.fromkeys(after)), self
        self.nodes.append(node)
        return node

    def remove(self, node: Node) -> None:
        """Remove a node; others no longer wait for it. CudaError 801 for nodes that allocate or free memory."""
        self._check_memory()
        for inner in node.graphs:
            inner.close()
        self.nodes.remove(node)
        for other in self.nodes:
            other.after = [before for before in other.after if before is not node]

    @property
    def edges(self) -> list[tuple[Node, Node]]:
        """(a node, one that runs after it)."""
        return [(before, node) for node in self.nodes for before in node.after]

    def add_graph(self, child: Graph, after: Iterable[Node] = ()) -> Node:
        """One node more, which is a graph: as the other one is now. It holds user objects of its own."""
        return self.add(_node_of(child, self), after)

    def _check_memory(self) -> None:
        if any(node.kind in ("alloc", "free") for node in self.nodes):
            raise CudaError(
                NOT_SUPPORTED, "nodes and edges of a graph with nodes that take or give back memory stay (cuGraphAddMemAllocNode)"
            )

    def close(self) -> None:
        """Give all of them back, and those of the graphs in it: it is destroyed."""
        super().close()
        for node in self.nodes:
            for inner in node.graphs:
                inner.close()

    def add_conditional(self, kind: str, condition: Condition, count: int, after: Iterable[Node] = ()) -> Node:
        """One node more, of kind "if", "while" or "switch": it has `count` empty graphs, and runs those that the
        condition says.

        CudaError 1 where the kind has not so many, or the condition is another node's.
        """
        if count not in BODIES[kind]:
            raise CudaError(INVALID_VALUE, f"a conditional node of kind {kind} with {count} graphs")
        if condition.node is not None:
            raise CudaError(INVALID_VALUE, "the conditional handle is another node's")
        if condition.graph not in self._around():
            raise CudaError(INVALID_VALUE, "the conditional handle is another graph's")
        bodies = [Graph() for _ in range(count)]
        for body in bodies:
            body.parent = self
        condition.node = Node("conditional", _not_instantiated, {"conditional": kind, "condition": condition, "bodies": bodies})
        return self.add(condition.node, after)

    def _around(self) -> list[Graph]:
        """This graph, and those that it stands in."""
        return [self, *(self.parent._around() if self.parent is not None else ())]

    def clone(self) -> Graph:
        """Another graph of the same nodes, which can be changed without this one. CudaError 801 where one of them is
        conditional.
        """
        if any(node.kind == "conditional" for node in self.nodes):
            raise CudaError(NOT_SUPPORTED, "a graph with conditional nodes cannot be cloned")
        made = Graph()
        made.hold_those_of(self)
        copies = {node: made.add(_copy(node, made)) for node in self.nodes}
        for node, copy in copies.items():
            copy.after = [copies[before] for before in node.after]
        made.copies = copies
        return made

    def part(self, before: Node, node: Node) -> None:
        """A node does not run after another one any more. CudaError 1 if it does not run after it now, 801 for nodes
        that allocate or free memory.
        """
        self._check_memory()
        if before not in node.after:
            raise CudaError(INVALID_VALUE, "there is no such edge")
        node.after.remove(before)

    def depend(self, before: Node, node: Node) -> None:
        """A node runs after another one. CudaError 1 where it does already, or is the same."""
        if before is node or before in node.after:
            raise CudaError(INVALID_VALUE, "there is such an edge already, or it leads back to its node")
        node.after.append(before)

    def ordered(self) -> list[Node]:
        """The nodes in a possible order: that in which they were added, if it is one. CudaError if there is none."""
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

    def __init__(self, graph: Graph, *, in_body: bool = False) -> None:
        super().__init__()
        copies = {node: dataclasses.replace(node) for node in graph.ordered()}
        self.of = copies  # the own node of each of the graph
        self.nodes = list(copies.values())
        self.hold_those_of(graph)
        self.inner: list[GraphExec] = []  # of child graphs, and of conditional nodes
        self._conditions = graph.conditions
        for node in self.nodes:
            if in_body and node.kind not in IN_BODIES:
                raise CudaError(NOT_SUPPORTED, f"a node of kind {node.kind} in a graph of a conditional node")
            if "graph" in node.info:
                self.inner.append(GraphExec(node.info["graph"], in_body=in_body))
                node.run = self.inner[-1].run
            elif "bodies" in node.info:
                bodies = [GraphExec(body, in_body=True) for body in node.info["bodies"]]
                self.inner += bodies
                node.run = _conditional(node.info["conditional"], node.info["condition"], bodies)

    def close(self) -> None:
        """Give all of them back: it is destroyed."""
        super().close()
        for inner in self.inner:
            inner.close()

    def update(self, graph: Graph) -> None:
        """Do from now on what another graph of the same form does. CudaError 910 where that has another form."""
        new = GraphExec(graph)
        if [node.kind for node in self.nodes] != [node.kind for node in new.nodes]:
            new.close()
            raise CudaError(GRAPH_UPDATE_FAILED)
        for mine, theirs in zip(self.nodes, new.nodes, strict=True):
            mine.become(theirs)
        self.close()
        self.objects, self.inner, self._conditions = new.objects, new.inner, new._conditions

    def run(self) -> None:
        """Run all nodes that are enabled."""
        for condition in self._conditions:
            condition.begin()
        for node in self.nodes:
            if node.is_enabled:
                node.run()


def _not_instantiated() -> None:
    raise CudaError(INVALID_VALUE, "a conditional node runs in a graph that was instantiated")


def _conditional(kind: str, condition: Condition, bodies: list[GraphExec]) -> Callable[[], None]:
    """Run what the condition says."""

    def either() -> None:
        if condition.value:
            bodies[0].run()
        elif len(bodies) > 1:
            bodies[1].run()

    def one_of() -> None:
        if condition.value < len(bodies):
            bodies[condition.value].run()

    def loop() -> None:
        while condition.value:
            bodies[0].run()

    return {"if": either, "switch": one_of, "while": loop}[kind]


def _node_of(child: Graph, parent: Graph) -> Node:
    """A node that is a graph as it is now."""
    inner = child.clone()
    inner.parent = parent
    return Node("graph", lambda: GraphExec(inner).run(), {"graph": inner})


def _copy(node: Node, parent: Graph) -> Node:
    if "graph" not in node.info:
        return dataclasses.replace(node)
    made = _node_of(node.info["graph"], parent)
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
