"""Calls: the nodes of graphs."""

from __future__ import annotations

import struct
from typing import Any

from smemsim.virtual.calls.handles import Handles
from smemsim.virtual.calls.pools import pool_of
from smemsim.virtual.code import Function
from smemsim.virtual.errors import INVALID_VALUE, CudaError
from smemsim.virtual.graphs import Condition, Graph, GraphExec, Node
from smemsim.virtual.streams import Event

__all__ = ["NodeCalls"]


NODE_TYPES = {
    "kernel": 0,
    "memcpy": 1,
    "memset": 2,
    "host": 3,
    "graph": 4,
    "empty": 5,
    "wait": 6,
    "record": 7,
    "alloc": 10,
    "free": 11,
    "conditional": 13,
}
OF_CARD = struct.pack("<4i72x", 1, 0, 1, 0)  # CUmemPoolProps: pinned, without handles, on device 0
CONDITIONALS = ("if", "while", "switch")  # CUgraphConditionalNodeType


class NodeCalls(Handles):
    """Nodes."""

    def node_type(self, node: int) -> int:
        return NODE_TYPES[self._of(node, Node).kind]

    def _added(self, graph: int, after: bytes, node: Node) -> int:
        return self._keep(self._of(graph, Graph).add(node, self._nodes(after)))

    def _kernel(self, function: int, given: tuple[Any, ...], **attributes: Any) -> Node:
        gx, gy, gz, bx, by, bz, shared, bank = given
        return self.device.launcher.node(self._of(function, Function), (gx, gy, gz), (bx, by, bz), bank, shared_bytes=shared, **attributes)

    def graph_add_kernel(self, graph: int, after: bytes, function: int, *given: Any) -> int:
        return self._added(graph, after, self._kernel(function, given))

    def graph_set_kernel(self, executable: int, node: int, function: int, *given: Any) -> None:
        own = self._own(executable, node)
        kept = {"cooperative": own.info.get("config", {}).get("cooperative", False)}  # what the call does not name
        own.become(self._kernel(function, given, **kept))

    def _own(self, executable: int, node: int) -> Node:
        """The node of what was instantiated; `executable` 0: the graph's own."""
        if not executable:
            return self._of(node, Node)
        own = self._of(executable, GraphExec).of.get(self._of(node, Node))
        if own is None:
            raise CudaError(INVALID_VALUE, "the node is not of this graph")
        return own

    def node_kernel(self, node: int) -> tuple[Any, ...]:
        info = self._of(node, Node).info
        if "config" not in info:
            raise CudaError(INVALID_VALUE, "the node is no kernel's")
        function, config = info["function"], info["config"]
        bank = bytearray(max((p.offset + p.size for p in function.parameters), default=0))
        for p, raw in zip(function.parameters, info["arguments"], strict=True):
            bank[p.offset : p.offset + p.size] = raw
        return self._handle_of(function), *config["grid"], *config["block"], config["shared_bytes"], bytes(bank)

    def node_enable(self, executable: int, node: int, is_enabled: int) -> None:
        self._own(executable, node).is_enabled = bool(is_enabled)

    def node_is_enabled(self, executable: int, node: int) -> int:
        return int(self._own(executable, node).is_enabled)

    def node_destroy(self, node: int) -> None:
        found = self._of(node, Node)
        if found.graph is not None:
            found.graph.remove(found)
        del self._objects[node]

    def node_links(self, node: int, is_after: int, count: int) -> tuple[int, bytes]:
        found = self._of(node, Node)
        after = [n for n in found.graph.nodes if found in n.after] if found.graph is not None else []
        return self._told_of(after if is_after else found.after, count)

    def graph_add_empty(self, graph: int, after: bytes) -> int:
        return self._added(graph, after, Node("empty", lambda: None))

    def _call(self, function: int, data: int) -> Node:
        return self.device.host_node(function, data)

    def graph_add_host(self, graph: int, after: bytes, function: int, data: int) -> int:
        return self._added(graph, after, self._call(function, data))

    def _fill(self, to: int, pitch: int, value: int, width: int, count: int, height: int) -> Node:
        given = (to, pitch, value, width, count, height)
        return Node("memset", lambda: self.device.fill_2d(to, pitch, value, width, count, height), {"given": given})

    def _copy(self, to: int, to_pitch: int, source: int, source_pitch: int, width: int, height: int) -> Node:
        given = (to, to_pitch, source, source_pitch, width, height)
        return Node("memcpy", lambda: self.device.copy_2d(to, to_pitch, source, source_pitch, width, height), {"given": given})

    def node_given(self, node: int, kind: str) -> bytes:
        """The numbers that a node was made of."""
        found = self._of(node, Node)
        if found.kind != kind or "given" not in found.info:
            raise CudaError(INVALID_VALUE, f"the node is of kind {found.kind}, not {kind}")
        return struct.pack(f"<{len(found.info['given'])}Q", *found.info["given"])

    def graph_add_fill(self, graph: int, after: bytes, *given: int) -> int:
        return self._added(graph, after, self._fill(*given))

    def graph_set_fill(self, executable: int, node: int, *given: int) -> None:
        self._own(executable, node).become(self._fill(*given))

    def graph_add_copy(self, graph: int, after: bytes, *given: int) -> int:
        return self._added(graph, after, self._copy(*given))

    def graph_set_copy(self, executable: int, node: int, *given: int) -> None:
        self._own(executable, node).become(self._copy(*given))

    def graph_set_host(self, executable: int, node: int, function: int, data: int) -> None:
        self._own(executable, node).become(self._call(function, data))

    def graph_add_event(self, graph: int, after: bytes, event: int, is_wait: int) -> int:
        found = self._of(event, Event)
        info = {"given": (event,)}
        made = Node("wait", lambda: None, info) if is_wait else Node("record", lambda: self.device.record(found), info)
        return self._added(graph, after, made)

    def graph_add_alloc(self, graph: int, after: bytes, size: int, props: bytes, where: str) -> tuple[int, int]:
        node = self.device.graph_memory(size, pool_of(props).kind, where=where)
        node.info["props"] = props
        return self._added(graph, after, node), node.info["address"]

    def node_props(self, node: int) -> bytes:
        """The pool properties of an allocation; a captured one is the card's."""
        return bytes(self._of(node, Node).info.get("props", OF_CARD))

    def graph_add_free(self, graph: int, after: bytes, address: int) -> int:
        return self._added(graph, after, self.device.graph_free(address))

    def graph_add_child(self, graph: int, after: bytes, child: int) -> int:
        return self._keep(self._of(graph, Graph).add_graph(self._of(child, Graph), self._nodes(after)))

    def node_graph(self, node: int) -> int:
        """The graph that a node is."""
        found = self._of(node, Node).info.get("graph")
        if found is None:
            raise CudaError(INVALID_VALUE, "the node is no graph")
        return self._handle_of(found)

    def graph_add_conditional(self, graph: int, after: bytes, condition: int, kind: int, count: int) -> tuple[int, bytes]:
        """A conditional node, and the graphs that it runs."""
        if kind >= len(CONDITIONALS):
            raise CudaError(INVALID_VALUE, f"a conditional node of type {kind}")
        name, handle = CONDITIONALS[kind], self._of(condition, Condition)
        made = self._of(graph, Graph).add_conditional(name, handle, count, self._nodes(after))
        return self._keep(made), b"".join(struct.pack("<Q", self._handle_of(body)) for body in made.info["bodies"])

    def node_bodies(self, node: int, count: int) -> tuple[int, int, int, bytes]:
        """A conditional node: its handle, its type, the number of its graphs, and the first `count` of these."""
        info = self._of(node, Node).info
        if "bodies" not in info:
            raise CudaError(INVALID_VALUE, "the node is not conditional")
        bodies = b"".join(struct.pack("<Q", self._handle_of(body)) for body in info["bodies"][:count])
        return self._handle_of(info["condition"]), CONDITIONALS.index(info["conditional"]), len(info["bodies"]), bodies
