"""What messages about scenario and launch files say: the line to write is a line that is taken."""

from __future__ import annotations

import json
import tomllib

import pytest

from smemsim import check
from smemsim.core.tables import LINES, TableError, keys_of
from smemsim.diagnosis.scenario import OPERANDS, STEPS, TABLES, read_scenario
from smemsim.evidence.launches import ARGUMENTS, ARRAY_KEYS, BESIDE, KEYS

EVERY = [keys_of(table) for table in (TABLES | STEPS | OPERANDS).values()] + [KEYS, ARRAY_KEYS, ARGUMENTS, *BESIDE.values()]


@pytest.mark.parametrize("line", LINES)
def test_an_example_is_a_value_that_its_key_takes(line):
    ((name, value),) = tomllib.loads(line).items()
    assert any(name in keys and keys[name].kind.is_one(value) for keys in EVERY)


@pytest.mark.parametrize(
    ("scenario", "line"),
    [
        ({"arch": "sm_90a", "tensor": {"A": {"dtype": "bf16", "extend": {"m": 3}}}}, "extent = { m = 256, k = 512 }"),
        ({"arch": "sm_90a", "buffer": {"s": {"bytes": "many"}}}, "bytes = 8192"),
        ({"tensor": {}}, 'arch = "sm_90a"'),
        ({}, "a scenario has arch"),
    ],
)
def test_a_mistake_shows_the_line_to_write(scenario, line):
    with pytest.raises(TableError, match=r".+") as refused:
        read_scenario(scenario)
    assert line in str(refused.value)


@pytest.mark.parametrize("wrong", range(4))
def test_a_mistake_in_a_list_of_a_json_file_has_the_line_of_its_entry(wrong, tmp_path):
    steps = [{"op": "bulk", "to": "s", "bytes": 64, "offset": n} for n in range(4)]
    steps[wrong]["op"] = "blk"
    head = '{"arch": "sm_90a", "buffer": {"s": {"bytes": 8192, "address": 1024}},\n"step": [\n'
    path = tmp_path / "s.json"
    path.write_text(head + ",\n".join(map(json.dumps, steps)) + "\n]}")
    with pytest.raises(TableError) as refused:
        check(path)
    assert str(refused.value).startswith(f"{path}:{3 + wrong}: step[{wrong}]")
