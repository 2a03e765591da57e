"""The modes of tensor transfers by their PTX names, and where they exist (PTX ISA 9.1 §9.7.9.27.1; ptxas 13.0 accepts
exactly these).
"""

from __future__ import annotations

from smemsim.core.spec.tensor_map import TensorMapDataType

__all__ = [
    "BLACKWELL_MODES",
    "CHUNK_BYTES",
    "ENCODE_CALLS",
    "GATHERED_ROWS",
    "HALO_EVERY",
    "HALO_LIMITS",
    "LOAD_MODES",
    "MAP_OF_MODE",
    "STORED_BITS",
    "STORE_MODES",
]


LOAD_MODES = ("tile", "im2col", "tile::gather4", "im2col::w", "im2col::w::128")
STORE_MODES = ("tile", "im2col_no_offs", "tile::scatter4")
BLACKWELL_MODES = ("tile::gather4", "tile::scatter4", "im2col::w", "im2col::w::128")

# Which encode call's maps a mode takes: any other traps (measured for tile and im2col: trace tma_mode_traps).
MAP_OF_MODE = {
    "tile": "tiled",
    "tile::gather4": "tiled",
    "tile::scatter4": "tiled",
    "im2col": "im2col",
    "im2col_no_offs": "im2col",
    "im2col::w": "im2col_wide",
    "im2col::w::128": "im2col_wide",
}
ENCODE_CALLS = {
    "tiled": "cuTensorMapEncodeTiled",
    "im2col": "cuTensorMapEncodeIm2col",
    "im2col_wide": "cuTensorMapEncodeIm2colWide",
}

# Operands of the wide modes: (wHalo, wOffset), exclusive upper ends.
HALO_LIMITS = {"im2col::w": (512, 32), "im2col::w::128": (32, 32)}
HALO_EVERY = 32  # im2col::w::128 loads its halo after every 32 pixels
GATHERED_ROWS = 4

# Bytes of global memory for 16 bytes of shared memory, for the types with gaps (PTX ISA 9.1 §5.5.1.1); 16 for all
# others.
CHUNK_BYTES = {TensorMapDataType.U4_ALIGN16B: 8, TensorMapDataType.U6_ALIGN16B: 12}
# Bits that a store takes of each shared byte, lowest first (PTX ISA 9.1 §5.5.1.1: b6p2x16); 8 for all others.
STORED_BITS = {TensorMapDataType.U6_ALIGN16B: 6}
