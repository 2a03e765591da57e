"""The keys of a scenario file, as data: what each table may and must have. Files written to them exist elsewhere; keys are only ever added."""

from __future__ import annotations

import dataclasses

from smemsim.scenario.meanings import MEANINGS

__all__ = ["OPERAND", "STEPS", "TABLES", "Key", "json_schema"]


@dataclasses.dataclass(frozen=True)
class Key:
    """One key: what it holds, by the names of the JSON schema below, and whether it must be there."""

    holds: str
    required: bool = False


def _keys(text: str) -> dict[str, Key]:
    """`name:holds`, with `!` behind what is required."""
    found = {}
    for part in text.split():
        name, _, holds = part.partition(":")
        found[name] = Key(holds.rstrip("!"), holds.endswith("!"))
    return found


TABLES: dict[str, dict[str, Key]] = {
    "scenario": _keys(
        "arch:text! title:text source:text cta_group:int excerpt:bool tensor:table buffer:table map:table step:any expect:table"
    ),
    "tensor": _keys("dtype:text! extent:table! stride:table! address:int scale_blocks:axes walks:table"),
    "buffer": _keys("address:int offset:int base:int base_align:int bytes:int declared_align:int stages:int stage_bytes:int layout:any"),
    "layout": _keys("swizzle:text xor:text mn:pairs! k:pairs!"),
    "map": _keys(
        "of:text raw:text data_type:enum global_address:place global_offset:int object_address:int global_dim:ints global_strides:strides "
        "box_dim:ints element_strides:ints interleave:enum swizzle:enum l2_promotion:enum oob_fill:enum pixel_box_lower_corner:ints "
        "pixel_box_upper_corner:ints channels_per_pixel:int pixels_per_column:int"
    ),
    "meant": _keys("tensor:text! axes:axes! at:pair k_step:int mn_step:int scale_block:bool"),
    "expect": _keys("findings:texts!"),
}
_TENSOR_STEP = "op:text! map:text! stage:int offset:ints at:places! im2col_offsets:ints expect_bytes:int"
STEPS: dict[str, dict[str, Key]] = {
    "tma_load": _keys(f"{_TENSOR_STEP} to:text!"),
    "tma_store": _keys(f"{_TENSOR_STEP} from:text!"),
    "tma_reduce": _keys(f"{_TENSOR_STEP} from:text! reduce:text!"),
    "bulk": _keys(
        "op:text! to:text from:text bytes:int! reduce:text stage:int offset:ints tensor:text global_offset:ints expect_bytes:int"
    ),
    "threads": _keys("op:text! to:text from:text load:bool tensor:text! axes:axes! contiguous:text! at:pair stage:int"),
    "mma": _keys(
        "op:text! kind:text instruction:text m:int! n:int! k:int! idesc:int transpose:any cta_group:int sparse:bool ws:bool scale_vec:text a:table b:table "
        "scale_a:table scale_b:table"
    ),
    "copy": _keys("op:text! instruction:text shape:text multicast:text to_tmem:grid m:int n:int k:int rows:int cta_group:int a:table!"),
}
OPERAND = _keys(
    "dtype:text! major:text! rows:int words:words word:word start:place start_offset:int k_add:ints mn_add:ints meant:table tmem:grid id:grid stage:int"
)

_HEX = {"type": "string", "pattern": "^0[xX][0-9a-fA-F_]+$"}
_NUMBER = {"anyOf": [{"type": "integer"}, _HEX]}
_LIST = {"type": "array", "items": _NUMBER}
_TYPES = {
    "text": {"type": "string"}, "int": _NUMBER, "word": {"anyOf": [{"type": "integer", "minimum": 0}, _HEX]}, "bool": {"type": "boolean"}, "table": {"type": "object"},
    "any": {}, "enum": {"type": ["string", "integer"]}, "place": {"type": ["string", "integer"]}, "ints": {"anyOf": [_NUMBER, _LIST]}, "strides": {"anyOf": [_NUMBER, _LIST]},
    "pair": {**_LIST, "minItems": 2, "maxItems": 2}, "pairs": {"type": "array", "items": {**_LIST, "minItems": 2, "maxItems": 2}},
    "axes": {"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 2}, "texts": {"type": "array", "items": {"type": "string"}},
    "places": {"anyOf": [_LIST, {"type": "array", "items": _LIST}]}, "grid": {"anyOf": [_NUMBER, _LIST, {"type": "array", "items": _LIST}]},
    "words": {"anyOf": [_LIST, {"type": "array", "items": _LIST}]},
}  # fmt: skip


def _schema_of(table: str, keys: dict[str, Key], **inner: object) -> dict[str, object]:
    properties: dict[str, object] = {}
    for name, key in keys.items():
        held: object = inner.get(name, _TYPES[key.holds])
        properties[name] = {**held, "description": MEANINGS[table][name]} if isinstance(held, dict) else held
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name, key in keys.items() if key.required],
        "additionalProperties": False,
    }


def json_schema() -> dict[str, object]:
    """The JSON schema of scenario files."""
    meant = _schema_of("meant", TABLES["meant"])
    operand, scale = (
        _schema_of("operand", OPERAND, meant=meant),
        _schema_of("operand", {name: Key(key.holds) for name, key in OPERAND.items()}, meant=meant),
    )
    sides = {"a": operand, "b": operand, "scale_a": scale, "scale_b": scale}
    steps = []
    for op, keys in STEPS.items():
        inner: dict[str, object] = {"op": {"const": op}, **{name: of for name, of in sides.items() if name in keys}}
        steps.append(_schema_of(op, keys, **inner))
    layout = {"anyOf": [{"type": "string"}, _schema_of("layout", TABLES["layout"])]}
    tables = {
        "tensor": _schema_of("tensor", TABLES["tensor"]),
        "buffer": _schema_of("buffer", TABLES["buffer"], layout=layout),
        "map": _schema_of("map", TABLES["map"]),
    }
    inner = {name: {"type": "object", "additionalProperties": of} for name, of in tables.items()}
    found = _schema_of(
        "scenario",
        TABLES["scenario"],
        **inner,
        step={"type": "array", "items": {"anyOf": steps}},
        expect=_schema_of("expect", TABLES["expect"]),
    )
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "smemsim scenario", **found}
