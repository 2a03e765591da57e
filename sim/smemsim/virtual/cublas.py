"""Products that a card's library computes, by PyTorch on the CPU: `torch._scaled_mm` of blocks, and the cuBLASLt handle
of Triton.

Programs compare their kernels with them. Nothing is launched, and nothing is checked.
"""

from __future__ import annotations

from typing import Any

__all__ = ["CublasLt", "block_scaled"]


E2M1 = (0, 0.5, 1, 1.5, 2, 3, 4, 6)  # the values of a 4-bit float without its sign
NVFP4_BLOCK, MX_BLOCK = 16, 32  # elements that share a scale


def block_scaled(a: Any, b: Any, scale_a: Any, scale_b: Any, block: int) -> Any:
    """A times B transposed in fp32: rows of A and B lie along K, 4-bit ones two a byte, each with scales of blocks."""
    return _scaled(_values(a), scale_a, block) @ _scaled(_values(b), scale_b, block).t()


def _values(x: Any) -> Any:
    """In fp32; of 4-bit floats the lower bits of a byte come first."""
    import torch

    if x.dtype.itemsize != 1 or x.dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
        return x.float()
    raw = x.contiguous().view(torch.uint8).long()
    positive = torch.tensor(E2M1)
    return torch.stack([torch.cat([positive, -positive])[raw >> shift & 15] for shift in (0, 4)], -1).flatten(-2)


def _scaled(values: Any, scales: Any, block: int) -> Any:
    """Values times the scales of their blocks, which lie in tiles of 128 rows by 4, 32 rows of 4 by 4 (cuBLAS 13,
    3.1.4.4).
    """
    import torch

    if scales.dtype is torch.uint8:
        scales = scales.view(torch.float8_e8m0fnu if block == MX_BLOCK else torch.float8_e4m3fn)
    rows, columns = values.shape[0], values.shape[1] // block
    tiles = scales.contiguous().float().reshape(-(-rows // 128), -(-columns // 4), 32, 4, 4)
    whole = tiles.permute(0, 3, 2, 1, 4).reshape(tiles.shape[0] * 128, tiles.shape[1] * 4)
    return values * whole[:rows, :columns].repeat_interleave(block, 1)


class CublasLt:
    """Triton's `nvidia.cublas.CublasLt`. All operands are row-major, B is given transposed: N rows along K."""

    def __init__(self, workspace: Any) -> None:
        """The memory that cuBLAS would work in is not needed."""

    def matmul(self, a: Any, b: Any, c: Any) -> None:
        """C = A times B."""
        c.copy_(a.float() @ b.float().t())

    def gemm(self, a: Any, b: Any, c: Any, d: Any, alpha: float, beta: float) -> None:
        """D = alpha A times B + beta C."""
        d.copy_(alpha * (a.float() @ b.float().t()) + beta * c.float())

    def block_scaled_matmul_mxfp8(self, a: Any, b: Any, c: Any, scale_a: Any, scale_b: Any) -> None:
        """C = A times B, of 8-bit floats with a power of two to 32."""
        c.copy_(block_scaled(a, b, scale_a, scale_b, MX_BLOCK))

    def block_scaled_matmul_nvfp4(self, a: Any, b: Any, c: Any, scale_a: Any, scale_b: Any) -> None:
        """C = A times B, of 4-bit floats with an 8-bit one to 16."""
        c.copy_(block_scaled(a, b, scale_a, scale_b, NVFP4_BLOCK))
