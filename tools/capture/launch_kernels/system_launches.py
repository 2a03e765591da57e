"""What the system keeps for kernels: the first KiB of shared memory, and the heap of malloc."""

from __future__ import annotations

from tools.capture.launch_kernels.spec import array, cuda, value, zeros

ILLEGAL_ADDRESS, ILLEGAL_INSTRUCTION, MISALIGNED, FAILURE = 700, 715, 716, 719


def reserved(name: str, title: str, kind: int, *, own: int = 64, status: int = 0, **more: int) -> None:
    ctas = more.pop("grid", 2)
    cuda(f"reserved_{name}", f"The first KiB of shared memory: {title}", [array("x", "u32", 256, "bits"), zeros("out", "u32", 512 * ctas)], "out",
         source="reserved.cu", entry="reserved", defines=(f"KIND={kind}", f"OWN={own}"), suite="reserved_shared", grid=ctas, block=64, status=status, **more)  # fmt: skip


reserved("reads", "words as they are found", 1)
reserved("reads_dynamic", "words as they are found, with dynamic shared memory", 1, shared_bytes=65536)
reserved("stores", "stored and loaded", 2, grid=3)
reserved("stores_static", "stored and loaded, beside 12 KiB of static shared memory", 2, own=3000, shared_bytes=4096)
reserved("atomics", "atom.add", 3)
reserved("cp_async", "cp.async", 4)
reserved("generic", "by generic addresses", 5)
reserved("misaligned", "loads off 4 bytes behind it", 10, status=MISALIGNED)
reserved("of_one", "stored and loaded in a cluster of 1, by mapa", 11)
for n in (2, 4):
    for kind, what in (
        (6, "loads"),
        (7, "stores"),
        (12, "foreign_loads"),
        (13, "foreign_stores"),
        (14, "foreign_atomics"),
    ):  # CTA 0's, by the last
        reserved(f"{what}_of_{n}", f"{what.replace('_', ' ')} in a cluster of {n}", kind, grid=2 * n, cluster=n, status=ILLEGAL_INSTRUCTION)
    for kind, what in ((8, "remote_loads"), (9, "remote_stores"), (11, "mapped_loads"), (15, "own")):
        reserved(f"{what}_of_{n}", f"{what.replace('_', ' ')} in a cluster of {n}", kind, grid=2 * n, cluster=n)

SIZES = (2500, 3000, 4000, 4500, 5000, 6000, 8000, 10000, 13000, 16000, 20000, 30000, 40000, 53000, 60000, 80000, 100000, 120000, 200000, 300000, 500000,
         1000000, 2000000, 4000000)  # fmt: skip
cuda("heap_sizes", "How many allocations of each size the heap holds", [array("sizes", "u32", len(SIZES), {"values": list(SIZES)}), zeros("counts", "u32", len(SIZES)), value(len(SIZES))],
     "counts", source="heap.cu", entry="heap_sizes", defines=("KIND=0",), suite="heap", block=1)  # fmt: skip
# What becomes of a pointer into an allocation or an array depends on the bytes in front of it: such a
# launch ends (700) or goes on.
for kind, what, error in ((0, "right", 0), (1, "local", 0), (2, "twice", FAILURE), (3, "low", ILLEGAL_ADDRESS)):
    cuda(
        f"heap_free_{what}", f"malloc, free and what is freed: {what}", [array("x", "u32", 16, "bits"), zeros("out", "u32", 19)], "out", source="heap.cu",
        entry="heap_edges", defines=(f"KIND={kind}",), suite="heap", block=1, status=error,
    )  # fmt: skip
