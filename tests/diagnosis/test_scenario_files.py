"""What messages about scenario and launch files say: the line to write is a line that is taken."""

from __future__ import annotations

import tomllib

import pytest

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
