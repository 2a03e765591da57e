"""Correct block-scaled kernels as scenarios: scale factors come to shared memory in blocks of 512 B, copies bring them
to tensor memory, MMAs read them.
"""

from smemsim import InstrDescriptor, SmemDescriptor

ARCH = "sm_100a"
WORD = SmemDescriptor(arch=ARCH, start_address=0, leading_byte_offset=0, stride_byte_offset=128).encode()
MODES = {"1X": ("mxf8f6f4", 32, 1, "ue8m0"), "2X": ("mxf4", 64, 2, "ue8m0"), "4X": ("mxf4nvf4", 64, 4, "ue4m3")}


def ids_of(mode, steps):
    """(scale id, block of 4 scales) of every K step."""
    each = 4 // MODES[mode][2]
    return [step % each * MODES[mode][2] for step in range(steps)], [step // each for step in range(steps)]


def side(name, buffer, address, column, mode, rows, steps, at, by):
    """(tensor, buffer, map, steps that fill it, copy, scale operand) of one operand of `rows` rows."""
    dtype = MODES[mode][3]
    ids, blocks_of = ids_of(mode, steps)
    k_blocks, m_blocks = max(blocks_of) + 1, -(-rows // 128)
    extent = {"r": at[0] + 128 * m_blocks, "s": at[1] + 4 * k_blocks}
    along = -(-extent["s"] // 4)
    packed = {"dtype": dtype, "extent": extent, "stride": {"r": 512 * along, "s": 512}, "scale_blocks": ["r", "s"]}
    plain = {"dtype": dtype, "extent": extent, "stride": {"r": extent["s"], "s": 1}}
    size = 512 * k_blocks * m_blocks
    memory = {"address": address, "bytes": size}
    # blocks in global memory
    places = [(at[0] // 128 + m) * along + at[1] // 4 + k for m in range(m_blocks) for k in range(k_blocks)]
    offsets = [512 * i for i in range(len(places))]
    maps = {}
    if by == "threads":
        tensor = plain
        mn, k = [[32, 16], [4, 4], [m_blocks, 512 * k_blocks]], [[4, 1], [k_blocks, 512]]
        memory["layout"] = {"swizzle": "none", "mn": mn, "k": k}
        fill = {"op": "threads", "to": buffer, "tensor": name, "axes": ["r", "s"], "contiguous": "k", "at": list(at)}
    elif by == "bulk":
        tensor = packed
        fill = {"op": "bulk", "to": buffer, "tensor": name, "bytes": 512, "offset": offsets, "global_offset": [512 * p for p in places]}
    else:
        tensor = packed
        total = 32 * along * -(-extent["r"] // 128)
        maps = {f"tm_{name}": {"of": name, "data_type": "UINT8", "global_dim": [16, total], "global_strides": [16], "box_dim": [16, 32]}}
        fill = {
            "op": "tma_load",
            "map": f"tm_{name}",
            "to": buffer,
            "offset": offsets,
            "at": [[0, 32 * p] for p in places],
            "expect_bytes": size,
        }
    columns = 4 * m_blocks
    copy = {"op": "copy", "shape": "32x128b", "multicast": "warpx4",
            "to_tmem": [[column + columns * k + 4 * m for k in range(k_blocks)] for m in range(m_blocks)],
            "a": {"dtype": dtype, "major": "K", "word": WORD, "start": buffer, "k_add": [512 * k for k in range(k_blocks)],
                  "mn_add": [512 * k_blocks * m for m in range(m_blocks)],
                  "meant": {"tensor": name, "axes": ["r", "s"], "at": list(at), "scale_block": True}}}  # fmt: skip
    read = {"tmem": [column + columns * k for k in blocks_of], "id": ids, "meant": {"tensor": name, "axes": ["r", "s"], "at": list(at)}}
    return tensor, memory, maps, fill, copy, read


def scaled(mode, *, n=128, steps=4, by="threads", at=(0, 0), meant=True):
    """The scenario; `meant` False: only the MMA says what it means to read."""
    kind, k, _, dtype = MODES[mode]
    a = side("SFA", "sfa", 0x400, 256, mode, 128, steps, at, by)
    b = side("SFB", "sfb", 0x8400, 320, mode, n, steps, at, by)
    copies = [a[4], b[4]]
    if not meant:
        for copy in copies:
            del copy["a"]["meant"]
    idesc = InstrDescriptor(kind=kind, m=128, n=n, scale_type=dtype).encode()
    mma = {"op": "mma", "kind": kind, "m": 128, "n": n, "k": k, "idesc": idesc, "scale_vec": mode, "scale_a": a[5], "scale_b": b[5]}
    return {"arch": ARCH, "tensor": {"SFA": a[0], "SFB": b[0]}, "buffer": {"sfa": a[1], "sfb": b[1]}, "map": a[2] | b[2],
            "step": [a[3], b[3], *copies, mma]}  # fmt: skip
