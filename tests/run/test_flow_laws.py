"""Laws of what smemsim reads off a program's text: its ways, its loops and its values. Random programs, each question
answered a second time from single instructions and all paths between them.
"""

import functools
import itertools
import random
import types

import pytest

from flow import reached
from smemsim.core.ptx import read_module
from smemsim.run.lower import cfg, link, waits

HEAD = """.version 8.8
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p, .param .u64 q) {
.reg .pred %p<4>; .reg .b32 %r<6>; .reg .b64 %d<6>; .reg .b64 %t;
.shared .align 16 .b8 sm[64];
"""
COMPUTED = [
    "add.u32 %r{}, %r{}, 1;", "mov.u32 %r{}, %r{};", "mov.u32 %r{}, 7;", "@%p{p} mov.u32 %r{}, %r{};", "@!%p{p} add.u32 %r{}, %r{}, %r{};",
    "setp.lt.u32 %p{p}, %r{}, %r{};", "selp.b32 %r{}, %r{}, %r{}, %p{p};",
    "mov.b64 {{%r{}, _}}, %d1;", "mov.b64 {{%r{}, %r{}}}, %d1;", "setp.lt.u32 %p{p}|%p3, %r{}, 1;", "shfl.sync.idx.b32 %r{}|%p{p}, %r{}, 0, 31, -1;",
]  # fmt: skip
REACHING = [
    "ld.global.u32 %r{}, [%d1];", "st.global.u32 [%d1], %r{};", "ld.relaxed.gpu.global.u32 %r{}, [%d2];", "ld.shared.u32 %r{}, [sm];",
    "ld.relaxed.cta.shared.u32 %r{}, [sm];", "atom.global.add.u32 %r{}, [%d1], %r{};", "atom.shared.add.u32 %r{}, [sm], %r{};",
    "ld.param.u64 %d3, [p];", "@%p{p} bar.sync 0;",
]  # fmt: skip


def text_of(drawn: random.Random, instructions: list[str]) -> str:
    registers = iter(lambda: drawn.randrange(5), None)
    text = drawn.choice(instructions)
    return text.replace("{p}", str(drawn.randrange(3))).format(*itertools.islice(registers, 4))


@functools.cache
def program_of(seed: int):
    """A random program: up to eight labels, up to three instructions after each, and an end."""
    drawn = random.Random(seed)
    count = drawn.randrange(2, 9)
    kinds = [COMPUTED, COMPUTED + REACHING][seed % 3 != 0]
    ends = ["", "bra L{};", "@%p{p} bra L{};", "@!%p{p} bra L{};", "@%p{p} bra L{};", "@%p{p} exit;", "exit;"]
    ends += ["brx.idx %r1, T;", "@%p1 brx.idx %r1, T;"] if seed % 7 == 6 else []
    lines = ["T: .branchtargets L0, L1;"] if seed % 7 == 6 else []
    for n in range(count):
        lines += [f"L{n}:", *(text_of(drawn, kinds) for _ in range(drawn.randrange(4)))]
        end = drawn.choice(ends if n else ends[:5])
        lines.append(end.replace("{p}", str(drawn.randrange(3))).format(drawn.randrange(count + 1)))
    return linked("\n".join([*lines, f"L{count}:"]), "ret;" if seed % 2 else "")


def linked(body: str, end: str = "ret;"):
    return link(read_module(f"{HEAD}{body}\n{end}\n}}"), "k", "sm_90a")


def ways_of(program, unknown=()) -> list[list[int]]:
    """For each instruction those that may be next, and for a jump by a table `unknown`; the last number is the end."""
    body, labels = program.inlined.body, program.inlined.labels
    ways = []
    for n, i in enumerate(body):
        if i.op == "brx":
            ways.append([*unknown])
            continue
        next_ = {n + 1} if i.guard is not None or i.op not in ("bra", "exit", "ret", "trap") else set()
        if i.op == "bra":
            next_.add(labels[i.operands[0].name])
        ways.append(sorted(next_))
    return [*ways, []]


def blocks_of(program, unknown=()):
    """(block of each instruction, ways of the blocks), from single instructions; the last block is the end."""
    ways, body = ways_of(program, unknown), program.inlined.body
    own = [program.starts[id(i)] for i in body] + [len(program.blocks)]
    last = {own[n]: n for n in range(len(body))}
    return own, [sorted({own[to] for to in ways[last[n]]}) for n in range(len(program.blocks))] + [[]]


SEEDS = range(56)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_ways_of_blocks_are_those_of_their_instructions(seed):
    program = program_of(seed)
    _, ways = blocks_of(program)
    _, any_ways = blocks_of(program, range(len(program.inlined.body)))  # a table may lead anywhere
    count = len(program.blocks)
    before = [{m for m in range(count) if n in ways[m]} for n in range(count + 1)]
    assert cfg.computes(program, count)  # a thread at the end, without `ret`
    assert not cfg.loop_around(program, count)
    for n in range(count):
        is_known = program.blocks[n].instructions[-1].op != "brx"
        assert sorted(set(cfg.following(program, n) or ())) == ways[n]
        assert (cfg.following(program, n) is not None) == is_known
        ahead = [[to for to in ways[m] if n < to < count] for m in range(count)]
        assert cfg.behind(program, n) == reached(n, ahead)
        loop = {m for m in reached(n, ways) if n in reached(m, ways)}
        found = cfg.loop_around(program, n)
        assert bool(found) == bool(loop)
        if loop:  # one of the shortest ones
            assert found <= loop
            assert n in reached(n, [[to for to in to_ if to in found] for to_ in ways])
            assert not any(n in reached(n, [[to for to in to_ if to in fewer] for to_ in ways]) for fewer in smaller(loop, len(found)))
        loads = [i for m in loop | {n} for i in program.blocks[m].instructions if i.op in ("ld", "atom", "brx")]
        assert cfg.computes(program, n) == all("param" in i.modifiers for i in loads)
        heard = [i for m in found for i in program.blocks[m].instructions if i.op == "atom" or "relaxed" in i.modifiers]
        assert cfg.waits_outside(program, n) == any("global" in i.modifiers for i in heard)
        for blocks in ({0}, {count - 1}, {n}, {m for m in range(count) if m % 2}, before[n]):
            past = {0} if 0 in blocks else reached(0, any_ways, blocks) | {0}
            assert cfg.comes_by(program, n, blocks) == (n in blocks or n not in past), (n, blocks)


def smaller(loop, size):
    return itertools.chain.from_iterable(map(set, itertools.combinations(sorted(loop), k)) for k in range(1, size))


@pytest.mark.parametrize("seed", SEEDS)
def test_ways_by_and_past_instructions_are_paths_from_one_to_the_next(seed):
    program = program_of(seed)
    body, ways = program.inlined.body, ways_of(program)
    any_ways = ways_of(program, [n for n, i in enumerate(body) if i is program.blocks[program.starts[id(i)]].instructions[0]])
    drawn = random.Random(seed)
    for _ in range(12):
        first, then = drawn.randrange(len(body)), drawn.randrange(len(body))
        others = drawn.sample(range(len(body)), min(len(body), drawn.randrange(3)))
        by = any(k in reached(first, any_ways) and then in reached(k, any_ways) for k in others)
        listed = [body[k] for k in others]
        assert cfg.leads_by(program, body[first], body[then], listed) == by, (first, then, others)
        past = then in reached(first, ways, {first, *others})
        assert cfg.leads_past(program, body[first], body[then], listed) == past, (first, then, others)


def test_an_instruction_of_another_program_is_on_no_path():
    one, foreign = linked("L: add.u32 %r1, %r1, 1; bra L;"), program_of(2).inlined.body[0]
    own = one.inlined.body[0]
    for first, then, by in itertools.product((own, foreign), repeat=3):
        assert cfg.leads_by(one, first, then, [by]) == (foreign not in (first, then, by))
    assert not cfg.leads_past(one, foreign, own, [])
    assert not cfg.leads_past(one, own, foreign, [])


@pytest.mark.parametrize("seed", SEEDS)
def test_the_conditions_of_an_instruction_are_the_last_guarded_branches_before_it(seed):
    program = program_of(seed)
    body, ways = program.inlined.body, ways_of(program)
    own, _ = blocks_of(program)
    back = [[m for m in range(len(body)) if n in ways[m]] for n in range(len(body) + 1)]
    for at, i in enumerate(body):
        wanted = {}
        if i.guard is not None:
            wanted = {i: {True}}
        else:
            start = own.index(own[at])  # a path into the block leads through its first instruction
            left, seen = [(m, start) for m in back[start]], set()
            while left:
                m, to = left.pop()
                if body[m].guard is not None and own[m] != own[m + 1]:  # a branch, an exit, or a wait
                    both = len(ways[m]) == 1 and body[m].op == "bra"  # to the next instruction
                    wanted.setdefault(body[m], set()).update({True, False} if both else {to != m + 1})
                elif m not in seen:
                    seen.add(m)
                    left += [(k, m) for k in back[m]]
        assert cfg.conditions(program, i) == wanted, i.text


def given_by(i) -> set[int]:
    return set() if i.guard is not None or i.op not in cfg._GIVE else set(i.given)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_register_is_read_first_if_a_path_leads_to_a_reader_by_none_that_gives_it_a_value(seed):
    program = program_of(seed)
    body, ways = program.inlined.body, ways_of(program)
    first, blank = set(), set()
    for slot in range(len(program.registers)):
        for found, gives in ((first, given_by), (blank, lambda i: set() if i.guard is not None else set(i.given))):
            past = {n for n, i in enumerate(body) if slot in gives(i)}
            at = {0} | (set() if 0 in past else reached(0, ways, past))
            # a guarded instruction leaves the register of some threads as it was, which counts as a read
            found |= {slot for n in at if n < len(body) and slot in body[n].used | (body[n].given - gives(body[n]))}
    named = set().union(*(i.given for i in body))
    if "brx" in program.uses:
        first, blank = set(range(len(program.registers))), set()
    assert cfg.read_first(program) == first
    found = cfg.blank_registers(program)
    asked = {slot for i in body for slot in i.used if slot not in program.written or slot in named}
    assert set(found) == (blank | (asked - named)) & asked
    for slot, one in found.items():
        assert one.reader is next(i for i in body if slot in i.used)
        assert list(one.givers) == [i for i in body if slot in i.given and slot not in i.used]


@pytest.mark.parametrize("counts_copies", [False, True])
@pytest.mark.parametrize("seed", range(60))
def test_a_value_is_used_if_it_reaches_more_than_copies(seed, counts_copies):
    """With `counts_copies`, a copy is a use, too."""
    drawn = random.Random(seed)
    texts = ["mov.u32 %r{}, %r{};", "mov.u32 %r{}, 7;", "xor.b32 %r{}, %r{}, %r{};", "@%p0 mov.u32 %r{}, 7;", "@%p1 mov.u32 %r{}, %r{};"]
    texts += ["st.global.u32 [%d1], %r{};", "add.u32 %r{}, %r{}, 1;", "setp.lt.u32 %p0, %r{}, %r{};"] if seed % 2 else []
    texts += ["bra L0;", "@%p1 bra L1;"] if seed % 5 == 0 else []
    program = linked("L0: ld.global.u32 %r0, [%d1];\n" + "\n".join(text_of(drawn, texts) for _ in range(7)) + "\nL1: exit;")
    body = program.inlined.body
    copies, labels = set() if counts_copies else {"mov", "xor", "setp"}, program.inlined.labels
    for at, i in enumerate(body):
        wanted, states, number = False, [(at + 1, frozenset(i.given))], 0
        while number < len(states):  # (next instruction, registers that hold the value) of each path
            n, values = states[number]
            number += 1
            if n >= len(body) or not values:
                continue
            other = body[n]
            if values & other.used:
                wanted = wanted or other.op not in copies
                after = values | other.given
            else:
                after = values - other.given if other.guard is None else values
            ways = [labels[other.operands[0].name]] if other.op == "bra" else []
            ways += [n + 1] if other.guard is not None or other.op not in ("bra", "exit") else []
            states += [state for way in ways if (state := (way, after)) not in states]
        assert cfg.is_read(i, program.inlined, counts_copies=counts_copies) == wanted, i.text


STAGED = [
    "ld.shared.u32 %r{}, [sm];", "st.shared.u32 [sm], %r{};", "mbarrier.try_wait.parity.shared::cta.b64 %p{p}, [sm], 0;", "mbarrier.arrive.shared::cta.b64 _, [sm];",
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [sm], [%d1], 16, [sm+16];", "cp.async.bulk.global.shared::cta.bulk_group [%d1], [sm], 16;",
    "ld.global.u32 %r{}, [%d1];", "add.u32 %r{}, %r{}, 1;", "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {{%r{}}}, [sm];", "@%p{p} bra L{n};", "bra L{n};", "st.global.u32 [%d1], %r{};",
    "mbarrier.test_wait.parity.shared::cta.b64 %p{p}, [sm+8], 0;", "add.u32 %r{}, %r{}, 1;", "@%p{p} exit;",
]  # fmt: skip


@pytest.mark.parametrize("seed", range(60))
def test_a_wait_is_that_of_a_producer_if_it_fills_before_it_reads_or_waits_again(seed):
    drawn = random.Random(seed)
    lines = ["T: .branchtargets L0, L1;"] if seed % 7 == 6 else []
    texts = [*STAGED, "@%p1 brx.idx %r1, T;"] if seed % 7 == 6 else STAGED
    for n in range(12):
        lines += [f"L{n // 3}:"] * (n % 3 == 0)
        lines.append(text_of(drawn, [text.replace("{n}", str(drawn.randrange(5))) for text in texts]))
    program = linked("\n".join([*lines, "L4:"]), "ret;" if seed % 2 else "")
    body, ways = program.inlined.body, ways_of(program)
    is_wait = [i.op == "mbarrier" and i.modifiers[0].endswith("wait") for i in body]
    ends = {n for n, i in enumerate(body) if is_wait[n] or i.op == "ldmatrix" or (i.op == "ld" and "shared" in i.modifiers)}
    fills = {n for n, i in enumerate(body) if (i.op == "st" and "shared" in i.modifiers) or "mbarrier::complete_tx::bytes" in i.modifiers}
    for n, i in enumerate(body):
        assert waits.is_wait(i) == is_wait[n]
        wanted = bool(fills & reached(n, ways, ends | fills))
        assert waits.before_loads(i, types.SimpleNamespace(program=program)) == wanted, (n, i.text)
    foreign = program_of(1).inlined.body[0]
    assert not waits.before_loads(foreign, types.SimpleNamespace(program=program))
