"""Calls: tensor maps."""

from __future__ import annotations

import numpy as np

from smemsim.virtual.calls.handles import SIGNED, Handles

__all__ = ["MapCalls"]


class MapCalls(Handles):
    """The encodes of tensor maps."""

    def encode_tiled(
        self, kind: int, rank: int, address: int, dim: bytes, strides: bytes, box: bytes, steps: bytes, interleave: int, swizzle: int,
        promotion: int, fill: int,
    ) -> bytes:  # fmt: skip
        return self.device.encode(
            "tiled", data_type=kind, global_address=address, global_dim=_u64(dim), global_strides=_u64(strides), box_dim=_u32(box),
            element_strides=_u32(steps), interleave=interleave, swizzle=swizzle, l2_promotion=promotion, oob_fill=fill,
        )  # fmt: skip

    def encode_im2col(
        self, kind: int, rank: int, address: int, dim: bytes, strides: bytes, low: bytes, high: bytes, channels: int, pixels: int, steps: bytes,
        interleave: int, swizzle: int, promotion: int, fill: int,
    ) -> bytes:  # fmt: skip
        return self.device.encode(
            "im2col", data_type=kind, global_address=address, global_dim=_u64(dim), global_strides=_u64(strides), pixel_box_lower_corner=_s32(low),
            pixel_box_upper_corner=_s32(high), channels_per_pixel=channels, pixels_per_column=pixels, element_strides=_u32(steps),
            interleave=interleave, swizzle=swizzle, l2_promotion=promotion, oob_fill=fill,
        )  # fmt: skip

    def encode_im2col_wide(
        self, kind: int, rank: int, address: int, dim: bytes, strides: bytes, low: int, high: int, channels: int, pixels: int, steps: bytes,
        interleave: int, mode: int, swizzle: int, promotion: int, fill: int,
    ) -> bytes:  # fmt: skip
        return self.device.encode(
            "im2col_wide", data_type=kind, global_address=address, global_dim=_u64(dim), global_strides=_u64(strides),
            pixel_box_lower_corner_width=low - (low & SIGNED) * 2, pixel_box_upper_corner_width=high - (high & SIGNED) * 2,
            channels_per_pixel=channels, pixels_per_column=pixels, element_strides=_u32(steps), interleave=interleave, mode=mode, swizzle=swizzle,
            l2_promotion=promotion, oob_fill=fill,
        )  # fmt: skip

    def replace_address(self, raw: bytes, address: int) -> bytes:
        return self.device.replace_address(raw, address)


def _u64(raw: bytes) -> tuple[int, ...]:
    return tuple(np.frombuffer(raw, np.uint64).tolist())


def _u32(raw: bytes) -> tuple[int, ...]:
    return tuple(np.frombuffer(raw, np.uint32).tolist())


def _s32(raw: bytes) -> tuple[int, ...]:
    return tuple(np.frombuffer(raw, np.int32).tolist())
