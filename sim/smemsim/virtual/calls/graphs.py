"""Calls: graphs, what is instantiated of them, what they hold."""

from __future__ import annotations

from smemsim.virtual.calls.handles import Handles
from smemsim.virtual.errors import INVALID_VALUE, CudaError
from smemsim.virtual.graphs import Condition, Graph, GraphExec, Node, UserObject

__all__ = ["GraphCalls"]


class GraphCalls(Handles):
    """Graphs."""

    def graph_create(self) -> int:
        return self._keep(Graph())

    def graph_destroy(self, graph: int) -> None:
        found = self._objects.get(graph)
        if isinstance(found, (Graph, GraphExec)):
            found.close()
            del self._objects[graph]

    def user_object_create(self, destroy: int, data: int, count: int) -> int:
        return self._keep(UserObject(lambda: self.device.outside(self.host.call, destroy, data), count))

    def user_object_retain(self, held: int, count: int) -> None:
        self._of(held, UserObject).retain(count)

    def user_object_release(self, held: int, count: int) -> None:
        self._of(held, UserObject).release(count)

    def graph_hold(self, graph: int, held: int, count: int, is_moved: int) -> None:
        self._of(graph, Graph).hold(self._of(held, UserObject), count, is_moved=bool(is_moved))

    def graph_let_go(self, graph: int, held: int, count: int) -> None:
        self._of(graph, Graph).let_go(self._of(held, UserObject), count)

    def graph_clone(self, graph: int) -> int:
        return self._keep(self._of(graph, Graph).clone())

    def node_in_clone(self, node: int, clone: int) -> int:
        found = self._of(clone, Graph).copies.get(self._of(node, Node))
        if found is None:
            raise CudaError(INVALID_VALUE, "the graph is no clone of the node's")
        return self._handle_of(found)

    def graph_instantiate(self, graph: int) -> int:
        return self._keep(GraphExec(self._of(graph, Graph)))

    def graph_launch(self, graph: int, stream: int) -> None:
        self.is_running = True
        try:
            self.device.launch_graph(self._of(graph, GraphExec), self._stream(stream))
        finally:
            self.is_running = False

    def graph_update(self, executable: int, graph: int) -> None:
        self._of(executable, GraphExec).update(self._of(graph, Graph))

    def graph_nodes(self, graph: int, count: int) -> tuple[int, bytes]:
        return self._told_of(self._of(graph, Graph).nodes, count)

    def graph_roots(self, graph: int, count: int) -> tuple[int, bytes]:
        return self._told_of([node for node in self._of(graph, Graph).nodes if not node.after], count)

    def graph_edges(self, graph: int, count: int) -> tuple[int, bytes, bytes]:
        edges = self._of(graph, Graph).edges
        (number, first), (_, second) = (self._told_of([edge[n] for edge in edges], count) for n in (0, 1))
        return number, first, second

    def graph_dot(self, graph: int) -> bytes:
        """The graph in the language of Graphviz."""
        nodes = self._of(graph, Graph).nodes
        lines = [f'"node_{n}" [label="{n}: {node.kind}"];' for n, node in enumerate(nodes)]
        edges = [f'"node_{nodes.index(a)}" -> "node_{nodes.index(b)}";' for a, b in self._of(graph, Graph).edges]
        return "\n".join(["digraph dot {", *lines, *edges, "}", ""]).encode() + b"\0"

    def condition_create(self, graph: int, value: int, flags: int) -> int:
        """A conditional handle; bit 0 of the flags: it has this value at the start of each launch of the graph."""
        found = self._of(graph, Graph)
        condition = Condition(found, value if flags & 1 else None)
        found.conditions.append(condition)
        handle = self._keep(condition)
        self.device.conditions[handle] = condition
        return handle

    def graph_depend(self, graph: int, before: bytes, after: bytes) -> None:
        for first, second in zip(self._nodes(before), self._nodes(after), strict=True):
            self._of(graph, Graph).depend(first, second)

    def graph_part(self, graph: int, before: bytes, after: bytes) -> None:
        for first, second in zip(self._nodes(before), self._nodes(after), strict=True):
            self._of(graph, Graph).part(first, second)
