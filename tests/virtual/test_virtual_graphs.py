"""Conditional nodes of graphs: values that kernels set say which graphs run, and how often. No compiler is needed."""

import pytest

from smemsim.virtual import Condition, CudaError, Graph, GraphExec, Node, Policy, Stream, UserObject, VirtualDevice

PTX = """.version 8.0
.target sm_90a
.address_size 64
.extern .func cudaGraphSetConditional(.param .b64 handle, .param .b32 value);
.visible .entry set(.param .u64 of, .param .u32 step) {
  .reg .b32 %r<5>; .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [of]; ld.param.u32 %r1, [step]; mov.u32 %r2, %ctaid.x; mov.u32 %r4, %tid.x; add.u32 %r2, %r2, %r4;
  mul.lo.u32 %r3, %r1, %r2; add.u32 %r3, %r3, 2;
  { .param .b64 p0; st.param.b64 [p0], %rd1; .param .b32 p1; st.param.b32 [p1], %r3;
    call.uni cudaGraphSetConditional, (p0, p1); }
  ret; }
"""


def refused(call, *given):
    with pytest.raises(CudaError) as error:
        call(*given)
    return error.value.code


def counting(body, counts, n):
    body.add(Node("empty", lambda: counts.append(n)))


@pytest.mark.parametrize(
    ("kind", "count", "value", "ran"),
    [
        ("if", 1, 0, []),
        ("if", 1, 7, [0]),
        ("if", 2, 0, [1]),
        ("if", 2, 1, [0]),
        ("switch", 3, 2, [2]),
        ("switch", 3, 3, []),
        ("while", 1, 0, []),
    ],
)
def test_a_condition_says_which_graphs_run(kind, count, value, ran):
    graph, counts = Graph(), []
    node = graph.add_conditional(kind, Condition(graph, value), count)
    for n, body in enumerate(node.graphs):
        counting(body, counts, n)
    graph.conditions.append(node.info["condition"])
    GraphExec(graph).run()
    assert counts == ran


def test_a_loop_runs_as_long_as_its_condition_is_not_zero_in_every_launch():
    graph, counts = Graph(), []
    condition = Condition(graph, 3)
    graph.conditions.append(condition)
    body = graph.add_conditional("while", condition, 1).graphs[0]

    def less():
        condition.value -= 1
        counts.append(condition.value)

    body.add(Node("kernel", less))
    launched = GraphExec(graph)
    launched.run()
    launched.run()
    assert counts == [2, 1, 0] * 2


def test_a_graph_takes_conditions_of_those_around_it_and_each_once():
    graph, other = Graph(), Graph()
    outer, inner = Condition(graph), Condition(graph)
    body = graph.add_conditional("if", outer, 1).graphs[0]
    body.add_conditional("while", inner, 1)
    assert refused(graph.add_conditional, "if", outer, 1) == 1  # another node's
    assert refused(other.add_conditional, "if", Condition(graph), 1) == 1  # another graph's
    assert refused(graph.add_conditional, "while", Condition(graph), 2) == 1
    assert refused(graph.clone) == 801


def test_nothing_of_the_host_runs_in_a_conditional_graph():
    graph = Graph()
    body = graph.add_conditional("if", Condition(graph), 1).graphs[0]
    body.add(Node("host", lambda: None))
    assert refused(GraphExec, graph) == 801


def test_what_was_instantiated_becomes_another_graph_with_its_conditions():
    def made(value, counts):
        graph = Graph()
        graph.conditions.append(Condition(graph, value))
        for n, body in enumerate(graph.add_conditional("switch", graph.conditions[0], 2).graphs):
            counting(body, counts, n)
        return graph

    counts = []
    launched = GraphExec(made(0, counts))
    launched.update(made(1, counts))
    launched.run()
    assert counts == [1]
    assert refused(launched.update, Graph()) == 910


def test_a_node_that_is_destroyed_gives_back_what_its_graphs_hold():
    ended, child, graph = [], Graph(), Graph()
    child.hold(UserObject(lambda: ended.append(1)), is_moved=True)
    node = graph.add_graph(child)
    child.close()
    assert not ended
    graph.remove(node)
    assert ended == [1]


def test_a_kernel_sets_the_condition_and_threads_that_disagree_are_told_of():
    device = VirtualDevice("sm_90a", policy=Policy(quiet=True))
    graph = Graph()
    device.conditions[48] = condition = Condition(graph)
    kernel = device.load(PTX).function("set")
    run = device.launch(kernel, 1, 32, [(48).to_bytes(8, "little"), bytes(4)])
    assert condition.value == 2
    assert not run.evidence
    run = device.launch(kernel, 1, 2, [(48).to_bytes(8, "little"), (1).to_bytes(4, "little")])
    assert condition.value in (2, 3)
    assert any("conditional handle" in told for told in run.evidence)


def test_a_captured_node_says_what_it_was_made_of():
    device, stream = VirtualDevice("sm_90a", policy=Policy(quiet=True)), Stream()
    a = device.allocate(64)
    device.begin_capture(stream)
    device.fill(a, 7, 4, 2, stream)
    device.copy(a + 32, a, 16, stream)
    device.call_host(4096, 5, stream)
    nodes = device.end_capture(stream).nodes
    assert [(node.kind, node.info["given"]) for node in nodes] == [
        ("memset", (a, 8, 7, 2, 4, 1)),
        ("memcpy", (a + 32, 16, a, 16, 16, 1)),
        ("host", (4096, 5)),
    ]
