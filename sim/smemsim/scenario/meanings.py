"""What every key of a scenario file says, in a sentence each: for the JSON schema, for the README, and for error messages to come."""

from __future__ import annotations

__all__ = ["MEANINGS"]

_ISSUE = {
    "op": "what the step does",
    "map": "the tensor map, by its name",
    "to": "the buffer that is written",
    "from": "the buffer that is read",
    "stage": "which stage of the buffer, from 0 on",
    "offset": "bytes from the stage's beginning; a list has one entry for each issue",
    "at": "coordinates of the box, dimension 0 first; a list of them is one issue each",
    "im2col_offsets": "the offsets of an im2col load, W first",
    "expect_bytes": "what the mbarrier expects, of all issues of the step together",
    "reduce": "the operation: add, min, max, inc, dec, and, or, xor",
}
MEANINGS: dict[str, dict[str, str]] = {
    "scenario": {
        "arch": "sm_90a, sm_100a or sm_103a", "title": "free text", "source": "free text, a link", "cta_group": "1 or 2, of all tcgen05 steps",
        "excerpt": "true: there were other steps, which may bring what is missing here, and read what nobody reads here",
        "tensor": "what lies in global memory, by name", "buffer": "shared buffers, by name", "map": "tensor maps, by name",
        "step": "what happens, in order", "expect": "the findings that should come",
    },
    "tensor": {
        "dtype": "element type: f16 bf16 tf32 f32 e4m3 e5m2 e3m2 e2m3 e2m1 s8 u8 ...", "extent": "elements by axis; any names",
        "stride": "bytes from one element to the next, by axis; 1 along packed 4- and 6-bit elements", "address": "where it begins; made up if left out",
        "scale_blocks": "scale factors that lie in 512-byte blocks already: the axis of rows, that of scales",
        "walks": "axes that run through several dimensions of memory: of each [[indices, bytes from one to the next, the first inside, the end of these], ...], fastest first",
    },
    "buffer": {
        "address": "the .shared address, as cvta.to.shared gives it", "offset": "instead of address: bytes from base", "base": "where the pool begins",
        "base_align": "the alignment that the pool is known to have, in bytes", "bytes": "its size, all stages together",
        "declared_align": "the alignment that the source declares, in bytes", "stages": "how many stages it has",
        "stage_bytes": "from one stage to the next; the buffer in equal parts if left out",
        "layout": "what software believes, for threads steps: a table, or CuTe's text 'Sw<3,4,3> o ((8,8),64):((64,512),1)', (M or N, K) in elements",
    },
    "layout": {
        "swizzle": "none, 32B, 64B, 128B, 128B_ATOM_32B", "xor": "what software XORs: 'address' (as hardware does) or 'offset' from the buffer's beginning",
        "mn": "[[size, stride in bytes], ...] of M or N, fastest first; the contiguous axis counts bytes, the other one elements",
        "k": "the same of K",
    },
    "map": {
        "of": "the tensor that it is meant to describe", "raw": "the 128 bytes of the CUtensorMap as 256 hex digits, instead of the arguments",
        "data_type": "the driver's argument", "global_address": "a number, or a tensor's name", "global_offset": "bytes added to it",
        "object_address": "where the CUtensorMap itself lies", "global_dim": "elements, dimension 0 first", "global_strides": "bytes, of dimension 1 on",
        "box_dim": "elements, dimension 0 first", "element_strides": "1 each if left out", "interleave": "none, 16B, 32B",
        "swizzle": "none, 32B, 64B, 128B, ...", "l2_promotion": "none, 64B, 128B, 256B", "oob_fill": "zeros, nan",
        "pixel_box_lower_corner": "with it the map is im2col", "pixel_box_upper_corner": "of im2col", "channels_per_pixel": "of im2col",
        "pixels_per_column": "of im2col",
    },
    "meant": {
        "tensor": "where the operand should come from", "axes": "its axis of rows (M or N), its axis of K", "at": "the element at row 0, K 0 of the first step; [0, 0] if left out",
        "k_step": "elements of K from one step to the next; k if left out", "mn_step": "rows from one block to the next; rows if left out",
        "scale_block": "each word reads whole blocks of scale factors",
    },
    "expect": {"findings": "codes; exit code 0 when exactly these come"},
    "tma_load": _ISSUE, "tma_store": _ISSUE, "tma_reduce": _ISSUE,
    "bulk": _ISSUE | {"bytes": "size of each copy", "tensor": "what is copied", "global_offset": "bytes from the tensor's beginning; a list has one for each issue"},
    "threads": _ISSUE | {
        "load": "true: threads read, and should find the tensor's elements", "tensor": "whose elements", "axes": "its axes of the layout's mn and k",
        "contiguous": "which of the two counts bytes: 'mn' or 'k', or the name of the axis", "at": "the element at (0, 0) of the layout",
    },
    "mma": {
        "op": "what the step does", "kind": "wgmma, or a kind of tcgen05: f16 tf32 f8f6f4 i8 mxf8f6f4 mxf4 mxf4nvf4",
        "instruction": "instead of kind: the instruction as it is written", "m": "M of one instruction, of both CTAs of a pair", "n": "N of one instruction",
        "k": "K of one instruction, in elements", "idesc": "the 32 bits of the instruction descriptor", "transpose": "wgmma's transpose flags",
        "cta_group": "1 or 2", "sparse": "an .sp instruction", "ws": "a .ws instruction", "scale_vec": "1X, 2X or 4X", "a": "operand A", "b": "operand B",
        "scale_a": "scale factors of A: tmem, id, meant", "scale_b": "the same of B",
    },
    "copy": {
        "op": "tcgen05.cp", "instruction": "the instruction as it is written", "shape": "128x256b, 4x256b, 128x128b, 64x128b, 32x128b",
        "multicast": "warpx4, warpx2::02_13, warpx2::01_23", "to_tmem": "tensor memory address; a list has one for each K step",
        "m": "rows, if not those of the shape", "n": "not used", "k": "elements a line, if not those of the shape", "rows": "as m", "cta_group": "1 or 2", "a": "what is copied",
    },
    "operand": {
        "dtype": "element type", "major": "K or MN: which axis is contiguous", "rows": "rows that one instruction reads, if not m or n",
        "words": "raw descriptors, one for each K step; a list of such lists has blocks of M or N", "word": "one raw descriptor; start, k_add and mn_add move its start",
        "start": "a buffer's name or an address, added to the word's start field", "start_offset": "bytes added", "k_add": "bytes added for each K step",
        "mn_add": "bytes added for each block of M or N", "meant": "what it was meant to be; without it only the descriptor itself is looked at",
        "tmem": "tensor memory address, one or one for each step", "id": "scale factor id, one or one for each step", "stage": "which stage of the buffer",
    },
}  # fmt: skip
