"""The machine: global, shared and tensor memory as bytes with owners, and the instructions that act on them."""

from smemsim.base.lazy_exports import door

__getattr__ = door(
    __name__,
    {
        "bulk": ("bulk_reduce_bytes",),
        "memory": ("ThreadWrite",),
        "cluster": ("commit_arrivals",),
        "owners": ("Owners",),
        "product": ("halves",),
        "global_memory": ("FOREIGN", "OUTSIDE", "UNWRITTEN"),
        "tcgen05": ("Issue", "Tcgen05Mma", "stored_k"),
        "texture": ("Image", "Sampler", "Texture"),
        "tmem.copy": ("decompress",),
        "tmem.layout": ("legal_n",),
        "tmem.memory": ("SPLIT",),
    },
)
