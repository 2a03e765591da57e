"""The text of each rule of `evidence.RULES`, by topic: a readable title, the rule, an example, and the behaviour of
smemsim.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["RULE_TOPICS", "RuleText", "RuleTopic"]


class RuleText(NamedTuple):
    """The words of one rule. `reports` is what smemsim does or reports."""

    title: str
    statement: str
    example: str
    reports: str


class RuleTopic(NamedTuple):
    """Rules that a reader looks for together. Common definitions are in `intro`."""

    title: str
    intro: str
    rules: dict[str, RuleText]


_OPERANDS = RuleTopic(
    "Operands in shared memory",
    "Each rule gives the byte that a matrix instruction reads. Here r is a row, and k is an index along K. A byte along K is kb, a byte along M or N is mb. "
    "Start, LBO and SBO are the start address and the two offsets of the descriptor, in bytes. W is the width of the swizzle in bytes, or 16 without a swizzle. "
    "All divisions are of whole numbers.",
    {
        "operand.k_major": RuleText(
            "K-major operand: the address of a byte",
            "Byte kb of row r is at `start + r%8*W + r/8*SBO + kb%W + kb/W*LBO`. After this sum the XOR of the swizzle is applied.",
            "A bf16 operand with the 128B swizzle starts at 0x400, and SBO is 1024 B. "
            "Row 9, k 8 is byte 16 of its row. The sum is 0x400 + 128 + 1024 + 16 = 0x890. The XOR moves it to 0x880.",
            "All commands that compute operand addresses use the rule. A wrong LBO or SBO is D308 or D309. A wrong tile is R508.",
        ),
        "operand.mn_major": RuleText(
            "MN-major operand: the address of a byte",
            "Byte mb of the K row k is at `start + k%8*W + k/8*SBO + mb%W + mb/W*LBO`. "
            "After this sum the XOR of the swizzle is applied. Without a swizzle, LBO and SBO exchange their roles.",
            "A bf16 operand with the 128B swizzle starts at 0. SBO is 1024 B and LBO is 2048 B. "
            "Row m 64, k 9 is byte 128 of K row 9. The sum is 128 + 1024 + 2048 = 0xc80. The XOR moves it to 0xc90.",
            "All commands that compute operand addresses use the rule. Exchanged offsets are D309.",
        ),
        "operand.swizzle": RuleText(
            "The swizzle's XOR uses the complete address",
            "The XOR is the last step of the address. Its key comes from the address in shared memory, not from the offset in the tile.",
            "With the 128B swizzle, a chunk at 0x420 is chunk 2 of line 8. The key is 8 % 8 = 0, so it is read at 0x420. "
            "A chunk at 0x4a0 is chunk 2 of line 9. The key is 1, so it is read at 0x4b0 (chunk 2 XOR 1 = 3).",
            "Software that XORs offsets in a buffer at no multiple of the pattern gets A105.",
        ),
        "operand.any_start": RuleText(
            "Start, LBO and SBO are multiples of 16 B",
            "The start address, LBO and SBO may be any multiple of 16 B. They are added as whole numbers. "
            "A carry into higher bits counts, also if the sum passes the end of a row of the swizzle.",
            "With the 128B swizzle, the start is 0x460. Byte 48 of row 0 is at 0x460 + 48 = 0x490, in the next line of 128 B. The XOR moves it to 0x480.",
            "It reads these bytes. If they are not those of the tile, the finding is R502, R503 or R508.",
        ),
        "operand.base_offset": RuleText(
            "Base offset shifts the swizzle pattern",
            "Base offset b changes the key of the XOR to `(address - 128*b) >> 7`, cut to the bits of the swizzle. "
            "This holds for 32B, 64B and 128B. Without a swizzle, base offset has no effect.",
            "With the 128B swizzle, line 6 (address 0x300) has the key 6. With base offset 2 it has the key 4.",
            "TMA swizzles with base offset 0. A reader with another base offset that reads other bytes than it needs is D306.",
        ),
        "operand.lbo_past_width": RuleText(
            "LBO of a K-major swizzled operand",
            "A K-major operand with a swizzle uses LBO only for bytes along K past the width of the swizzle.",
            "A sparse instruction reads 64 B along K. With the 32B swizzle, bytes 32 to 63 are LBO bytes further. "
            "A dense instruction reads 32 B along K, so it never uses LBO. The exception is K = 96 (rule operand.absolute_lbo).",
            "If LBO is not used, a wrong value is the remark D310. If it is used, a wrong value is D308.",
        ),
        "operand.atom_32b": RuleText(
            "MN-major operand of 32-bit elements: atoms of 4 rows",
            "With the 128B swizzle of 32-byte atoms (MN-major tf32), a swizzle atom has 4 rows of K. SBO is the distance of 4 rows of K.",
            "An instruction with K = 8 reads two atoms. The second one begins SBO bytes after the first one.",
            "A wrong SBO is D308.",
        ),
        "operand.absolute_lbo": RuleText(
            "LBO as an address (K = 96)",
            "If bit 52 of the descriptor is set, LBO is an address and not a distance. "
            "A row of 48 B that passes the end of a 128-byte line continues in the buffer at this address.",
            "K = 96 of 4-bit elements is 48 B. A row that starts at byte 96 of a line has 32 B there, and 16 B in the other buffer.",
            "It reads both parts. Only sm_103a has this mode.",
        ),
        "operand.sub_byte": RuleText(
            "4-bit and 6-bit elements in a chunk",
            "A chunk of 16 B holds 32 packed 4-bit elements. It holds 16 padded 4-bit or 6-bit elements: first the data, then a gap.",
            "16 elements of 6 bits are 12 B of data and a gap of 4 B.",
            "A tile with the other packing is R508.",
        ),
        "operand.window": RuleText(
            "An operand that leaves the shared-memory window",
            "The lines of an operand form groups of 8. The first line of each group must lie in the window, with the whole swizzle width. "
            "Otherwise the read faults (CUDA error 700). Later lines of the group that lie past the window read 0.",
            "The window ends at 0x1000. With the 128B swizzle, a group at 0xf80 is read: line 0 lies in the window, lines 1 to 7 read 0. A group at 0x1000 faults.",
            "Reads past a buffer or the window are A107 or X001.",
        ),
        "descriptor.reserved_bits": RuleText(
            "Reserved bits of a shared-memory descriptor",
            "Reserved and constant bits of a shared-memory descriptor have no effect.",
            "PTX gives bits 48:46 of a tcgen05 descriptor the constant 0b001. Kernels that leave bit 46 at 0 work.",
            "Such a bit is the remark D305.",
        ),
    },
)

_WGMMA = RuleTopic(
    "Registers of wgmma",
    "A warpgroup is four warps. Thread t of a warp is written as t = 4g + q, with g from 0 to 7 and q from 0 to 3.",
    {
        "wgmma.fragments": RuleText(
            "Which thread holds which element of A and D",
            "Warp w of the warpgroup holds rows 16w to 16w + 15. Thread 4g + q of a warp holds parts of rows g and g + 8. "
            "The registers of D hold pairs of columns. The registers of A hold 32-bit words along K.",
            "Thread 5 of warp 0 has g = 1 and q = 1. Its first two f32 registers of D are row 1, columns 2 and 3. The next two are row 9, columns 2 and 3.",
            "It computes with these registers. It has no finding for software that takes another layout: results are wrong.",
        ),
        "wgmma.sparse": RuleText(
            "Sparsity metadata of wgmma",
            "Four bits of metadata describe 4 elements of K (2 elements of tf32). "
            "The sparsity selector chooses two threads of each four. They hold the metadata of rows g and g + 8 of their warp. "
            "A register of such a thread holds four groups of each row. "
            "With 8-bit types all four threads hold metadata: a register has eight groups of one row.",
            "With f16 and selector 0, threads 0 and 1 of each four hold metadata. With selector 1, threads 2 and 3 hold it.",
            "It computes with the metadata. All values run. Those that the PTX ISA calls invalid are a remark (R508), unless A holds zeros there.",
        ),
        "wgmma.in_flight": RuleText(
            "Registers of D before wgmma.wait_group",
            "A program may use registers of D only after wgmma.wait_group. "
            "If it uses them earlier, ptxas inserts a wait, serialises the instructions, or takes other registers. "
            "ptxas warns with C7517, C7514, C7515 or C7511. It does not do this for registers of A. "
            "It also does not do it if another wgmma takes D, or a group of four registers of D, as its A after a wgmma.fence.",
            "`add.f32 %f1, %f1, 1.0` stands between `wgmma.commit_group` and `wgmma.wait_group 0`. ptxas inserts a wait before it.",
            "A use before the wait is the remark X007. It is a finding if a wgmma takes D as A after a fence, or if a thread overwrites A.",
        ),
        "wgmma.two_sums": RuleText(
            "Two sums that share some registers",
            "Two wgmma add to sums that share registers, and no wgmma.fence is between them. "
            "The sums are right if the registers of one are the first ones of the other, in the same order. "
            "They are also right if the second D lies in the first one, from a multiple of four registers on. "
            "Otherwise ptxas copies registers, and mostly the result is wrong. wgmma.wait_group does not help.",
            "The first wgmma has D in registers 0 to 7, the next one in registers 4 to 11. With wgmma.fence between them the sums are right.",
            "X014. If the sums are right without the fence, it is a remark.",
        ),
        "wgmma.late_warps": RuleText(
            "wgmma.wait_group of one warp",
            "wgmma.wait_group of one warp waits until all four warps of the warpgroup have multiplied.",
            "Warp 3 comes late to the wgmma. Warp 0 has waited, and overwrites B without a barrier. The result of warp 3 is right.",
            "It reports nothing if a warp overwrites A or B after its own wait. An overwrite before the wait is X005.",
        ),
    },
)

_TCGEN05 = RuleTopic(
    "tcgen05 and tensor memory",
    "Tensor memory has 128 lanes and 512 columns. A cell is 32 bits at one lane and column. D is the accumulator. A pair is two CTAs that execute one instruction with .cta_group::2.",
    {
        "tcgen05.registers": RuleText(
            "Registers that tcgen05.ld loads",
            "The PTX ISA requires tcgen05.wait::ld before a use of the registers of tcgen05.ld. "
            "The machine code does not need it: ptxas makes each instruction that names such a register wait for the load. "
            "So smemsim accepts a use before tcgen05.wait::ld.",
            "tcgen05.ld, then add.f32 on a loaded register, then tcgen05.wait::ld: right.",
            "A use before the wait is silent. It is the remark X007 if no wait follows the load, or only a wait for the next load.",
        ),
        "tcgen05.own_stores": RuleText(
            "tcgen05.st, then tcgen05.ld of one warp",
            "A warp writes cells by tcgen05.st and reads them by tcgen05.ld. The PTX ISA requires tcgen05.wait::st between them. "
            "smemsim assumes that hardware executes the two in order, because no failure without the wait is known.",
            "tcgen05.st to columns 0 to 7, then tcgen05.ld of columns 0 to 7, with no wait between.",
            "A missing wait is the remark X012. Other warps see the stores only after the wait: there X012 is no remark.",
        ),
        "tcgen05.own_loads": RuleText(
            "tcgen05.ld, then tcgen05.st of one warp",
            "A warp reads cells by tcgen05.ld and then writes them by tcgen05.st. "
            "The PTX ISA requires tcgen05.wait::ld between them, or a use of the loaded registers. "
            "smemsim assumes that hardware executes the two in order, because no failure without the wait is known.",
            "tcgen05.ld of columns 0 to 7, then tcgen05.st to columns 0 to 7, with no wait between.",
            "A missing wait is the remark X012.",
        ),
        "tcgen05.idesc": RuleText(
            "Instruction descriptor: formats and fields",
            "The instruction descriptor has three formats. The kind of the instruction chooses the format. M and N are those of the whole instruction, not of one CTA.",
            "A pair with M = 256 writes 256 into the field M of the descriptor, although each CTA holds 128 rows.",
            "Fields that contradict each other are I603. smemsim.INSTR_RULES lists which fields are legal.",
        ),
        "tcgen05.idesc_bits": RuleText(
            "Reserved bits of the instruction descriptor",
            "Reserved bits of the instruction descriptor have no effect.",
            "CuTe DSL sets the reserved bit 12 for mxf4 (0x08401480).",
            "Such a bit is the remark D305.",
        ),
        "tcgen05.scale_address": RuleText(
            "The scale id in the address of scale factors",
            "Bits 31:30 of the address of scale factors have no effect. The instruction takes the scale id from its descriptor.",
            "CUTLASS puts scale id 2 into the descriptor, and also into bits 31:30 of the address. DeepGEMM puts it only into the descriptor. Both work.",
            "A scale id in the descriptor that does not select the factors of the step is S702.",
        ),
        "tcgen05.pair": RuleText(
            "What each CTA of a pair holds",
            "With .cta_group::2, CTA i of the pair holds the rows of A from `i*M/2` on, and the rows of B from `i*N/2` on. "
            "Both CTAs have them at the same offsets in shared memory. CTA i holds its rows of D for all N.",
            "Take M = 256, N = 128. CTA 1 holds rows 128 to 255 of A and rows 64 to 127 of B. It holds rows 128 to 255 of D with all 128 columns.",
            "An operand with other rows is R508, or a more specific code such as R504.",
        ),
        "tcgen05.accumulator": RuleText(
            "Where D is in tensor memory (layouts A to G)",
            "D has one of the layouts A to G. M, .cta_group and .ws choose the layout. "
            "In a layout with one band of lanes, column n of D is in the n-th column of tensor memory, counted from the first column of D. "
            "Layouts B, E and G divide N: each band of lanes holds one part of N.",
            "M = 128 of one CTA is layout D: row m is in lane m. M = 64 of one CTA is layout F: rows are in 16 lanes of every 32.",
            "Rows in other lanes than those that the instruction writes are I604. Layout C raises Unmodelled.",
        ),
        "tcgen05.tensor_operands": RuleText(
            "A, scale factors and metadata in tensor memory",
            "A, scale factors and sparsity metadata in tensor memory are in the lanes of their rows. If N is divided, each band of lanes has a copy of its own.",
            "Scale factors of 32 rows are in lanes 0 to 31. tcgen05.cp with .warpx4 writes copies to lanes 32 to 63, 64 to 95 and 96 to 127.",
            "Rows in other lanes are I604. A copy with another shape is I605. A wrong column is S702.",
        ),
        "tcgen05.ld_st": RuleText(
            "Which lanes tcgen05.ld and tcgen05.st access",
            "In shape 32x32b thread t of a warp accesses lane t of the warp's 32 lanes. "
            "Shapes 16x64b, 16x128b and 16x256b access groups of 8 lanes. "
            "Shape 16x32bx2 accesses 16 lanes, in two halves of the columns.",
            "Thread 5 of warp 1 accesses lane 37 with shape 32x32b.",
            "It loads and stores these cells. It has no finding for a warp that should use other lanes: the results are wrong.",
        ),
        "tcgen05.warp_window": RuleText(
            "The lanes of a warp",
            "tcgen05.ld and tcgen05.st begin at lane `32*(warp % 4) + lane % 32`. The number of the warp gives the upper part. "
            "Only bits 4:0 of the lane in the address count.",
            "Warp 6 gives an address with lane 0. It accesses lanes 64 to 95, because 6 % 4 = 2.",
            "An address with lane 0 in every warp is silent.",
        ),
        "tcgen05.one_address": RuleText(
            "One address for a warp",
            "tcgen05.ld and tcgen05.st take one address for a warp. If threads give different addresses, that of the first thread counts.",
            "Each thread adds its own lane number to the lane in the address. The address of thread 0 is used for all.",
            "Different addresses are silent.",
        ),
        "tcgen05.cp": RuleText(
            "Copies from shared to tensor memory",
            "tcgen05.cp reads rows of 16 or 32 B through a K-major descriptor, and writes each row to a lane. "
            "With a multicast qualifier it writes copies to several groups of 32 lanes. If it decompresses, each element takes one byte.",
            ".32x128b.warpx4 copies 32 rows of 16 B to lanes 0 to 31, and again to each other group of 32 lanes.",
            "Other rows, columns or copies than the tile needs are I605.",
        ),
        "tcgen05.alloc": RuleText(
            "Allocation of columns",
            "An allocation has all lanes of n columns. n is a power of two and at least 32. "
            "The PTX ISA does not define which columns it takes. In smemsim it takes the first free columns that begin at a multiple of n. "
            "After relinquish_alloc_permit no allocation succeeds. "
            "dealloc must begin at the start of an allocation. A second dealloc of the same columns has no effect.",
            "Columns 0 to 31 are allocated. The next allocation of 64 columns gets columns 64 to 127.",
            "Accesses outside of allocations, and wrong calls, are X009. An allocation that never gets its columns is X006.",
        ),
        "tcgen05.commit": RuleText(
            "Where tcgen05.commit arrives",
            "tcgen05.commit arrives once at the mbarrier that it names. With a mask it arrives at this mbarrier in each CTA whose rank has a bit in the mask.",
            "The mask 0b0101 arrives at CTAs 0 and 2. CTA 1 gets no arrival.",
            "A warp that waits for an arrival that never comes is X006. The finding names the mask.",
        ),
        "tcgen05.copied_first": RuleText(
            "tcgen05.cp of one thread, tcgen05.mma of another",
            "A tcgen05.mma is executed after a tcgen05.cp that was issued before it. "
            "The two threads need an order with both fences of tcgen05. "
            "If the tcgen05.mma is complete, the tcgen05.cp is complete, too.",
            "Thread 32 copies scale factors. After a __syncthreads thread 0 multiplies, and waits for its own commit.",
            "It reports nothing if the columns, or the copied bytes of shared memory, are used again after that wait.",
        ),
        "tcgen05.shift": RuleText(
            "tcgen05.shift: the direction",
            "tcgen05.shift.down changes 8 columns. Lane i takes the value of lane i + 1. "
            "The groups of 32 lanes do not exchange values. The last lane of each group keeps its value.",
            "Lane 0 takes the value of lane 1. Lane 31 keeps its value. Lane 32 takes the value of lane 33.",
            "It moves the rows in this way.",
        ),
        "tcgen05.ashift": RuleText(
            "The .ashift modifier",
            "With .ashift the instruction first multiplies the rows of A as they are. Then it moves them in tensor memory as tcgen05.shift does.",
            "Two instructions with .ashift on one A: the second one reads rows that have moved by one lane.",
            "It computes in this order.",
        ),
        "tcgen05.lane_masks": RuleText(
            "Masks of lanes and of columns",
            "The operand disable-output-lane has a bit for each lane of D. A set bit keeps the old value of the lane. For a pair, the four words of the even CTA come first. "
            "A zero-column mask (only .ws) divides the columns of B into runs. Columns of a masked run count as zero. "
            "A masked run has skip + 1 columns, and a run of used columns has use + 1.",
            "Bit 5 of word 1 keeps lane 37 of D. The values skip = 0 and use = 2 mask columns 0, 4, 8, ... of a pattern that begins with a masked run.",
            "It computes with the masks. A mask whose shift is not 0 raises Unmodelled.",
        ),
    },
)

_ARITHMETIC = RuleTopic(
    "Arithmetic of matrix instructions",
    "A term is one product, or the element of C. To cut a term at n bits means: the term loses its bits below 2^(e - n), where e is the largest exponent of all terms.",
    {
        "arithmetic.wgmma": RuleText(
            "Sums of wgmma",
            "All products and c are exact. Each term is cut at 25 bits (8-bit floats: 13 bits). "
            "The sum of the terms is converted once: to f32 toward zero, to f16 to nearest even. "
            "With 8-bit floats the f32 result has 13 fraction bits. A result of zero is +0. "
            "An s32 sum wraps around. With .satfinite it is limited to the range of s32.",
            "Terms 1, -1 and 2^-25 give 2^-25. Terms 1, -1 and 2^-26 give 0, because bits below 2^-25 are cut.",
            "Results have the bits of the card. dot_product shows the terms of one sum.",
        ),
        "arithmetic.mma_sync": RuleText(
            "Sums of mma.sync on Hopper and Blackwell",
            "mma.sync with f16, bf16 or tf32 operands computes one sum by the rule of wgmma. Sums of integers are exact. "
            "8-bit floats are converted to f16 and summed in two steps, each over half of the elements. "
            "The first step begins at zero, the second at the result of the first. Then C is added, rounded to nearest. "
            "m8n8k4 of f16 is a sequence of f32 operations, each rounded to nearest. f64 is a chain of fused multiply-adds.",
            "m16n8k32 of e4m3: the elements with k % 4 = 0 or 1 are summed first. Those with k % 4 = 2 or 3 are summed onto that result. C is added last.",
            "Results have these bits.",
        ),
        "arithmetic.mma_sync_ampere": RuleText(
            "Sums of mma.sync on Ampere and Ada",
            "mma.sync of sm_80, sm_86 and sm_89 takes K in steps of 16 B. D of one step is C of the next. "
            "Terms are cut at 24 bits. Terms of 8-bit floats (sm_89) are cut at 13 bits, and f32 results have 13 fraction bits.",
            "m16n8k16 of f16 is two steps of K = 8.",
            "Results have these bits.",
        ),
        "arithmetic.mma_sync_rtx": RuleText(
            "Sums of mma.sync on consumer Blackwell",
            "mma.sync of sm_120a computes one sum with 25 bits, also for 8-bit floats. Each product is multiplied by its scale factors. "
            "4-bit kinds sum groups of 16 products exactly, and keep 35 bits of these sums.",
            "m16n8k64 of e2m1 sums four groups of 16 products. Then it adds the four sums and c.",
            "Results have these bits.",
        ),
        "mma_sync.scales": RuleText(
            "Which threads hold scale factors of mma.sync",
            "thread-id-a of a block-scaled mma.sync selects two threads of each four. "
            "The even thread holds the factors of row g, the odd thread those of row g + 8. The low byte belongs to the lowest K.",
            "thread-id-a = 0: thread 4g holds the factors of row g, thread 4g + 1 those of row g + 8.",
            "It multiplies by these factors. A thread-id that does not select the factors of the step is S702.",
        ),
        "arithmetic.tcgen05": RuleText(
            "Sums of tcgen05.mma",
            "tcgen05.mma computes sums by the rule of wgmma. It cuts terms at 25 bits, also for 8-bit floats, and f32 results are complete. "
            "Block-scaled kinds of 4 bits sum groups of 16 products exactly, and keep 35 bits of these sums.",
            "e4m3 terms 1, -1 and 2^-14 give 2^-14. wgmma gives 0, because it cuts 8-bit floats at 13 bits.",
            "Results have these bits. Elements that do not depend on an assumption are MmaResult.certain.",
        ),
    },
)

_TMA = RuleTopic(
    "TMA and tensor maps",
    "A box is the part of a tensor that one TMA instruction moves. Dimension 0 is contiguous. An access that traps ends the kernel with the CUDA error in brackets.",
    {
        "tma.placement": RuleText(
            "Where the rows of a box are in shared memory",
            "With a swizzle, the rows of a box are one swizzle width apart. Without a swizzle, they follow each other without gaps. "
            "The XOR uses the address in shared memory, not the offset in the tile.",
            "Rows of 64 B (32 bf16) with the 128B swizzle are at 0, 128, 256, ...; each has a gap of 64 B.",
            "Rows narrower than the swizzle are the remark T208. A reader with another swizzle is R501.",
        ),
        "tma.bounds": RuleText(
            "Elements outside of the tensor",
            "A load tests each element against the extent in every dimension. Coordinates are signed numbers. Elements outside are filled.",
            "A tensor has 100 rows. A box of 64 rows loads rows 64 to 127: its last 28 rows are filled.",
            "Fill in place of data is T209.",
        ),
        "tma.element_strides": RuleText(
            "Element strides",
            "A dimension of the box has `ceil(box / element stride)` elements in shared memory. Without interleave, the element stride of dimension 0 is ignored.",
            "A box of 65 with element stride 2 moves 33 elements.",
            "An element stride that has no effect is T213. A box that is no multiple of its element stride is the remark T222.",
        ),
        "tma.fill": RuleText(
            "The value of filled elements",
            "An element outside of the tensor becomes zero. With NaN fill, each 16 bits of it become 0x7FF7.",
            "An f32 element with NaN fill becomes 0x7FF77FF7.",
            "It loads these bits.",
        ),
        "tma.values": RuleText(
            "Conversion of TFLOAT32",
            "Loads of TFLOAT32 and TFLOAT32_FTZ round to nearest even at 10 fraction bits. "
            "Above the largest number the result is infinity. A NaN becomes 0x7FFFE000. All other types are copied.",
            "1 + 2^-11 becomes 1, and 1 + 3 * 2^-11 becomes 1 + 2^-9.",
            "It loads these bits.",
        ),
        "tma.im2col": RuleText(
            "im2col: the pixels of a column",
            "The pixels of a column advance along W, then H, D and N, by their element strides. At the end of an axis they continue at its lower corner. "
            "The im2col offsets are added to each pixel. A start outside of the pixel box traps (715).",
            "A pixel box of 3 x 3 in W and H: pixel 3 is the first pixel of the second row.",
            "A start outside ends the launch with error 715. Mostly filled boxes are the remark T219.",
        ),
        "tma.interleave": RuleText(
            "Interleaved layouts",
            "With interleave, dimension 0 counts slices of 16 or 32 B. Extents, boxes and strides count the same unit. "
            "A box has the extent 1 in dimension rank - 2. Rows have no gaps, and any swizzle's XOR applies. A pixel of im2col is one slice.",
            "INTERLEAVE_16B with f16: a slice holds 8 channels.",
            "It moves the bytes in this way. Refused maps are T205.",
        ),
        "tma.map_bits": RuleText(
            "Bits of a tensor map that have no effect, and bits that trap",
            "Bits of a tensor map that no encoder writes have no effect. The words that the driver derives from other fields have none either. "
            "Two bits make every load trap if the type does not fit: the tf32 bit, and NaN fill. "
            "An address of the map's tensor that is no multiple of 16 B traps (716).",
            "NaN fill with UINT16: every load traps.",
            "A map that traps is T212.",
        ),
        "tma.map_words": RuleText(
            "Which words of a tensor map count",
            "A transfer uses only words 0 to 15 of the 32 words of a tensor map. The version may be 0 or 1. Words 16 to 31 may hold anything.",
            "CuTe DSL writes version 1 and leaves words 16 to 31 as they are. The driver writes version 0.",
            "Both maps are accepted.",
        ),
        "tma.blackwell": RuleText(
            "What Blackwell adds to TMA",
            "Blackwell adds tile::gather4, tile::scatter4, im2col::w, types below a byte, 128B swizzles with other atoms, and the 96B swizzle.",
            "tile::gather4 loads four rows with four row numbers of their own.",
            "sm_90a has none of these.",
        ),
        "tensor_map.replace": RuleText(
            "tensormap.replace",
            "tensormap.replace loads single words of a map, changes the bits of one field, and stores the words. It checks no value. "
            "Sizes are stored minus 1, strides are stored >> 4. A type of tf32 sets the tf32 bit, and no type clears it.",
            "A new extent of 256 is stored as 255. A stride of 512 B is stored as 32.",
            "It changes the map in this way. A transfer through a map that traps ends the launch with the error of the card.",
        ),
        "tensor_map.verdict": RuleText(
            "Which arguments the driver accepts",
            "smemsim accepts and refuses the arguments of cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col as driver 580 does.",
            "A box dimension of 257 is refused.",
            "Refused arguments are T201 to T205. smemsim.TENSOR_MAP_RULES lists the rules one by one.",
        ),
        "tensor_map.bits": RuleText(
            "The 128 bytes of a tensor map",
            "smemsim writes the same 128 bytes for tiled and im2col maps as the driver.",
            "The bytes of a map in a dump have all arguments of its encode call: smemsim decode computes them.",
            "smemsim encodes and decodes maps in this way.",
        ),
        "tma.transaction_bytes": RuleText(
            "Bytes that a load counts at the mbarrier",
            "A load counts the bytes of its box without gaps at the mbarrier. Bytes of fill count. Gaps between rows do not count.",
            "64 rows of 64 B with the 128B swizzle take 8192 B of shared memory, and count 4096 B.",
            "Another number in mbarrier.expect_tx is T210.",
        ),
        "tma.store_clip": RuleText(
            "Stores at the end of dimension 0",
            "In dimension 0, a store or reduction ends at the end of a 16-byte chunk. In the other dimensions it ends exactly.",
            "Dimension 0 has 18 bf16, 36 B. A store writes 48 B of each row: the last 12 B are past the end of dimension 0.",
            "A dimension 0 that ends inside of a chunk is the remark T216.",
        ),
        "tma.traps": RuleText(
            "TMA accesses that trap",
            "Error 715: an extent above 2^31, a start in dimension 0 that is no multiple of 16 B, and a negative start of a store. "
            "Error 700: an access past the shared-memory window. Error 716: a shared address that is no multiple of 128 B.",
            "A load to the shared address 0x440 traps with 716.",
            "Maps that trap are T212, shared addresses are A101.",
        ),
    },
)

_BULK = RuleTopic(
    "Bulk copies and reductions",
    "A bulk copy (cp.async.bulk) moves a piece of memory without a tensor map.",
    {
        "bulk.copy": RuleText(
            "Bytes and completion of a bulk copy",
            "A bulk copy writes byte i of the source to byte i of the destination. It counts its size at an mbarrier of the destination's CTA.",
            "A copy of 4096 B counts 4096 B at the mbarrier.",
            "Another number in mbarrier.expect_tx is T210.",
        ),
        "bulk.size": RuleText(
            "Sizes that are no multiple of 16 B",
            "A size below 2^20 B is rounded down to a multiple of 16 B. The rest is neither moved nor counted. Sizes 0 and 2^20 move nothing.",
            "A copy of 100 B moves and counts 96 B.",
            "A size that is no multiple of 16 B is A103.",
        ),
        "bulk.traps": RuleText(
            "Bulk copies that trap",
            "A bulk copy past the CTA's own window traps with error 700. A copy past the window of another CTA traps with 719. "
            "An address that is no multiple of 16 B traps with 716. An mbarrier at no multiple of 8 B traps with 716.",
            "A copy to the shared address 0x408 traps with 716.",
            "A misaligned address is A101, an access past a window is X001.",
        ),
        "reduce.values": RuleText(
            "Values of bulk and tensor reductions",
            "Integers are computed modulo 2^n. Floats are rounded to nearest even. Subnormals are kept, except with an FTZ map. "
            "A sum of f64 passes a NaN on. Other sums give the NaN 0x7FFF.... "
            "The minimum or maximum of a NaN and a number is the number. -0 is smaller than +0.",
            "An f16 sum with a NaN gives 0x7FFF. The maximum of NaN and 1 is 1.",
            "It stores these bits.",
        ),
        "reduce.types": RuleText(
            "Data types of tensor reductions",
            "Each operation of a tensor reduction works only with some data types of the map. All other pairs trap (715).",
            ".and works with UINT32, INT32 and UINT64. With FLOAT32 it traps.",
            "Such a reduction ends the launch with error 715.",
        ),
    },
)

_CLUSTERS = RuleTopic(
    "Clusters and multicast",
    "A rank is the number of a CTA in its cluster. ctaMask is the multicast operand with a bit for each rank.",
    {
        "multicast.delivery": RuleText(
            "What a multicast delivers",
            "Each CTA in ctaMask gets the box at the same offset in its shared memory. Its own mbarrier at the given offset counts all bytes. "
            "Ranks in the addresses are ignored. (Measured with tiled maps of rank 2.)",
            "CTA 1 issues a load with ctaMask 0b11: CTAs 0 and 1 both get the box, and both mbarriers count it.",
            "Another number of expected bytes is T210.",
        ),
        "multicast.masks": RuleText(
            "Multicast masks with no CTA or a missing CTA",
            "An empty ctaMask delivers nothing and counts nothing. A bit for a CTA that is not in the cluster traps (719).",
            "A cluster has 2 CTAs. ctaMask 0b100 traps.",
            "A bit for a missing CTA ends the launch with error 719. A wait for bytes that nothing delivers is X006.",
        ),
        "cluster.addresses": RuleText(
            "Addresses of other CTAs' shared memory",
            "A shared::cluster address is `CTA rank << 24 | offset`. "
            "In a cluster, the .shared addresses of a CTA contain its own rank. An address without a rank is that of CTA 0.",
            "Offset 0x400 of CTA 1 is 0x1000400.",
            "An address of a CTA that does not exist is X001.",
        ),
    },
)

_MEMORY = RuleTopic(
    "Addresses and memory",
    "The window of a CTA is the range of addresses of its shared memory.",
    {
        "shared.generic": RuleText(
            "Generic addresses in .shared operands",
            "An operand in shared memory may have a .shared address or a generic address. "
            "The low 32 bits of a generic address of shared memory are its .shared address.",
            "A pointer from C++ is passed to tcgen05.alloc without cvta.to.shared: it works.",
            "It accepts a generic address of shared memory. A generic address of another state space is X001: a card would drop its upper half.",
        ),
        "shared.width": RuleText(
            "Addresses have 32 bits in .shared, .local, .const and .param",
            "Addresses in these state spaces have 32 bits. The sum of a 32-bit register and a number wraps at 2^32. "
            "Only the low 32 bits of a 64-bit register count.",
            "`ld.shared.u32 %r1, [%r2 + 16]` with %r2 = 0xfffffff0 reads address 0.",
            "It computes addresses in this way. An address outside of the CTA's own memory is X001.",
        ),
        "shared.static": RuleText(
            "The size of static shared memory",
            "The static shared memory of an entry has three parts: its own variables, those of functions that it calls, "
            "and some variables at file scope. The entry or these functions name them. It does not matter if they are used. "
            "Dynamic shared memory follows. Its alignment fits all arrays without a size that the file declares.",
            "A kernel declares a static array of 1000 B and a dynamic array with .align 1024. Byte 0 is the first byte of shared memory that belongs to the kernel. "
            "The static array has the bytes 0 to 999, and the dynamic array begins at byte 1024.",
            "Too much shared memory is refused like on the card.",
        ),
        "shared.reserved": RuleText(
            "The first KiB of shared memory",
            "The first KiB of the window belongs to the system. For the own CTA it works like the rest: loads, stores, atomics and cp.async. "
            "A .shared::cta address in the first KiB of another CTA's window traps (715).",
            "CTA 0 loads from address 0x10 of its own window. The card returns bytes, without an error.",
            "It accesses the bytes like the card, and reports X001: the memory belongs to the system.",
        ),
        "memory.allocated": RuleText(
            "Allocated memory is uninitialised",
            "Memory that a program allocates holds no defined values. An element that is copied to global memory, or changed alone, counts as padding. "
            "A value that is made of several elements, or of an array in which nothing was written, counts as a result.",
            "torch.empty(1024), then a kernel that uses an element as an address.",
            "It reports R507 if an instruction uses such a value. A store of padding is a remark until an instruction uses the stored value. "
            "A store of a result is a remark until an instruction uses the stored value, or the host copies it. Then the remark becomes R507. "
            "Columns of padding that the host copies with the rest of their rows stay a remark.",
        ),
        "heap.capacity": RuleText(
            "The heap of malloc in kernels",
            "The heap of malloc in kernels holds a fixed number of allocations of each size.",
            "A heap of 8 MiB holds 90,670 allocations of up to 64 B, or 78 of 100,000 B.",
            "malloc then returns a null pointer. Its use is X001.",
        ),
    },
)

_TEXTURES = RuleTopic(
    "Textures and surfaces",
    "A texel is one element of a texture. Filtering computes a mean of neighbouring texels.",
    {
        "texture.read": RuleText(
            "Texture reads without filtering",
            "These work as on the card: address modes, borders, layers, faces, formats, gathers, whole coordinates and queries. "
            "A normalised coordinate is cut to 21 fraction bits.",
            "A clamped read at x = -1 gives texel 0.",
            "It returns these values.",
        ),
        "texture.filter": RuleText(
            "Texture reads with linear filtering",
            "The weights are multiples of 1/256 and their sum is 1. "
            "They are divided first between mipmap levels, then along z, x and y. "
            "A plane is one filtered 2D image: a 3D texture gives two planes, and so do two mipmap levels. "
            "In a plane, each weighted texel loses its low bits, toward zero. The largest exponent of the plane decides which bits. "
            "The sum of two planes loses its low bits, toward minus infinity. The larger exponent of the two planes decides which bits; it is first rounded down to a multiple of 4. "
            "At a corner of a cube three texels have weights.",
            "x = 0.75 between two texels at 0.5 and 1.5: the weights are 192/256 and 64/256.",
            "It returns these bits.",
        ),
        "surface.access": RuleText(
            "Surface loads and stores",
            "A clamped access outside of a surface goes to the nearest element inside. A layer number is unsigned. "
            "Formatted stores limit integers to their range and cut f16 toward zero. "
            "An access at no multiple of its size traps (716). An access outside with .trap traps (700).",
            "sust.b.2d.clamp at x = -4 stores to x = 0.",
            "Traps are X001 and X002.",
        ),
    },
)

_COUNTERS = RuleTopic(
    "Execution and counters",
    "A wavefront is one pass of a shared-memory access through the 32 banks. A sector is 32 bytes of global memory.",
    {
        "gpu.execution": RuleText(
            "Execution of a whole kernel",
            "smemsim executes a kernel instruction by instruction, as the PTX says. The recorded kernels leave the same bytes in memory as on the card.",
            "A Triton matmul leaves the bytes that an H200 left.",
            "An instruction that smemsim does not know raises Unmodelled.",
        ),
        "counters.wavefronts": RuleText(
            "Wavefronts of a shared-memory access",
            "The lanes of a warp are divided into groups: 32 lanes if each accesses 1 to 4 B, 16 lanes if 8 B, 8 lanes if 16 B. "
            "A group costs the number of different words in its busiest bank. "
            "Atomics and cp.async.ca cost the number of lanes in that bank. "
            "In a load of 8 or 16 B, lanes may share addresses in pairs. Each lane n reads the same address as lane n XOR 1 (or each as lane n XOR 2). Then two groups cost as much as one.",
            "32 lanes read 4 B each at a stride of 8 B: each of 16 banks has two words, so the load costs 2 wavefronts.",
            "`run --counters` prints the sum. Many conflicts are P901 and P902.",
        ),
        "counters.sectors": RuleText(
            "Sectors of a global-memory access",
            "An access of global memory costs the number of different 32-byte sectors of its lanes. So does a load of another CTA's shared memory.",
            "32 lanes read 4 B each at a stride of 128 B: 32 sectors. Without gaps they are 4 sectors.",
            "`run --counters` prints the sum. Many more sectors than needed are P903.",
        ),
        "counters.copies": RuleText(
            "Bank accesses of TMA and bulk copies",
            "TMA and bulk copies access a bank once for each 4-byte word of shared memory, with any swizzle. They cost no wavefront.",
            "A copy of 4096 B makes 1024 bank accesses, and 0 wavefronts.",
            "`run --counters` prints both numbers.",
        ),
    },
)

_BARRIERS = RuleTopic(
    "Barriers of a CTA",
    "These rules are about bar.sync, barrier.sync, bar.arrive and barrier.cluster.",
    {
        "barrier.in_turn": RuleText(
            "More warps than the barrier counts",
            "More warps arrive at a barrier than its thread count allows. The first ones complete its phase, the others begin the next phase. "
            "Which warps are first is unspecified.",
            "Four warps execute `bar.sync 1, 64`: all go on. With three warps, the last one waits for ever.",
            "It reports X010, and with three warps also X006.",
        ),
        "barrier.alone": RuleText(
            "Lanes that come to a barrier alone",
            "Some lanes of a warp execute barrier.sync, barrier.red or barrier.arrive without .aligned, or barrier.cluster.arrive or .wait in any form. "
            "They stay there until the other lanes of the warp exit or come to the same barrier. Two barriers are the same if their words, number and thread count are the same. "
            "If the others come elsewhere and wait for these lanes, an H200 hangs, or ends with error 715.",
            "Lane 0 executes `barrier.arrive 3, 64`, and the others branch around it. Then all of them come to `bar.sync 0`, to a shuffle or to `barrier.arrive 4, 64`. The kernel hangs, or ends with error 715.",
            "It lets the lanes wait in the same way, and reports X011 if they wait for ever.",
        ),
        "barrier.exit": RuleText(
            "Threads that exit after barrier.cluster.arrive",
            "A thread has arrived at barrier.cluster, and does not wait. It stays at its end until the phase is complete, and other barriers still wait for it. "
            "Some lanes of a warp exit without an arrival, while other warps have arrived. Then the rest of this warp and those others never pass a barrier of the CTA together.",
            "Warp 0 arrives and executes `ret`. Warp 1 waits at `bar.sync 0` for warp 0, which waits for the arrival of warp 1. The kernel hangs.",
            "It lets the threads wait in the same way, and reports X006 if they wait for ever.",
        ),
        "barrier.arrive_sync": RuleText(
            "bar.arrive, then bar.sync in the same phase",
            "If a warp executes bar.arrive and then bar.sync in the same phase, the barrier counts it twice.",
            "Warp 0 executes `bar.arrive 1, 64` and then `bar.sync 1, 64`. The barrier counts 64 threads, so the phase is complete.",
            "It counts the warp twice, and reports nothing.",
        ),
        "order.named_phases": RuleText(
            "An arrival may count in the previous phase",
            "A barrier with a thread count counts arrivals of any warps. All arrivals of the previous phase must happen before an arrival of the next phase. Otherwise that arrival may count in the previous phase.",
            "Warps 0 and 1 execute `bar.sync 1, 64`. Warps 0 and 2 then execute `bar.sync 1, 64`, and nothing orders warp 2 after warp 1. Warp 2 may be counted in the first phase.",
            "It reports X010 in two cases: a warp waits in the previous phase, or the arriving warp itself waits (bar.sync). If both phases have only bar.arrive, it reports nothing. "
            "A thread that executes bar.arrive twice in one phase is X010, too.",
        ),
    },
)

_LANES = RuleTopic(
    "Memory order: lanes of a warp",
    "Happens-before is the causality order of the PTX ISA. A race is a pair of accesses by different threads to the same bytes, of which one writes and nothing orders the two. "
    "A remark is a message that does not change the exit code of run and exec. The [memory model](../memory-model.md) explains all rules of memory order with PTX examples.",
    {
        "order.lanes": RuleText(
            "Lanes are threads",
            "By the PTX ISA a write of one lane is visible to another lane only after both have executed bar.warp.sync or a barrier. "
            "For plain accesses smemsim is milder. Any instruction that both lanes execute together (.sync, .aligned) is enough.",
            "Lane 0 stores a word of shared memory, lane 1 loads it. Between them `__syncwarp()` is required.",
            "With nothing between it is X008. With bar.warp.sync or a barrier it is silent. With another instruction of all lanes, such as shfl.sync, it is silent too, "
            "except in the two cases of the next rule (order.lanes_only_wait).",
        ),
        "order.lanes_only_wait": RuleText(
            "Warp instructions that order no memory",
            "elect.sync, shfl.sync, vote.sync, match.sync, redux.sync, ldmatrix, stmatrix, movmatrix, mma.sync and wmma make lanes wait for each other. The PTX ISA does not say that they order memory. "
            "In two cases smemsim does not count them. "
            "First: a release by one lane after them covers only its own stores. "
            "Second: ldmatrix, stmatrix, wmma.load or wmma.store of words that other lanes have just stored requires bar.warp.sync before it.",
            "All lanes store, then elect.sync, then the elected lane arrives at an mbarrier. The arrival publishes only its own store.",
            "The two cases are remarks (X008), because a warp issues its accesses of shared memory in order. Plain accesses of other lanes are silent (order.lanes).",
        ),
        "order.lane_frees": RuleText(
            "An arrival of one lane frees only its own reads",
            "An arrival of one lane covers only its own reads. The reads of the other lanes are not ordered before a later overwrite.",
            "All lanes load a stage, lane 0 arrives at the mbarrier empty, and TMA overwrites the stage.",
            "It reports X008. It is a remark if the arriving lane executed the same load instruction as the other lanes, because libraries free stages in this way.",
        ),
        "order.warp_synchronous": RuleText(
            "Volatile accesses without __syncwarp",
            "One lane stores a word of shared memory by a volatile store, and another lane of the warp loads it by a volatile load. If the lanes do not synchronise in between, the load may return the old value.",
            "The last steps of an old reduction, with volatile s: `s[i] += s[i + 16]; s[i] += s[i + 8];`.",
            "It reports X008, except for a loop that waits for the value.",
        ),
        "order.shuffles": RuleText(
            "Shuffles from lanes that do not take part",
            "The result of shfl.sync is undefined if its source lane does not execute the instruction, or is not in the member mask.",
            "Lanes 0 to 15 execute shfl.sync.down by 16 with mask 0xffff: the source lanes 16 to 31 do not take part.",
            "It reports X011 where the value is used.",
        ),
        "order.lane_updates": RuleText(
            "Several lanes update one word",
            "Several lanes of a warp load one word, compute new values, and store them there by one instruction. All updates except one are lost.",
            "`histogram[bin] += 1` in two lanes with the same bin.",
            "It reports X008. In global memory it is a remark if both conditions hold. The same number of lanes stores to each address (for example two). "
            "And all lanes of an address store the same value. In this case the program may want only one update.",
        ),
        "order.same_value": RuleText(
            "Writes of the same bytes",
            "A write of the bytes that are already there is no race, because no order of such writes gives another result. "
            "This does not hold if an atomic operation left these bytes, and would add to them, or its result is used.",
            "All threads of a CTA store 0 to one counter.",
            "It reports nothing. A store of the sum that `atom.add` has made is X008.",
        ),
    },
)

_FENCES = RuleTopic(
    "Memory order: fences, release and acquire",
    "A release publishes earlier accesses of a thread. An acquire makes published accesses visible to the accesses that follow it.",
    {
        "order.relaxed": RuleText(
            "Relaxed accesses with fences",
            "A relaxed or volatile store, or a relaxed arrival, releases what an earlier fence of its thread covers. "
            "A relaxed or volatile load, or a relaxed wait, acquires at the next fence of its thread.",
            "The writer: `st data; fence.acq_rel.gpu; st.relaxed flag`. The reader: `ld.relaxed flag; fence.acq_rel.gpu; ld data`.",
            "Without a fence the access of data is X008.",
        ),
        "order.carrier": RuleText(
            "Which value passes a release on",
            "Thread A releases by a strong store to a flag. Thread C reads the flag with acquire. "
            "If C reads the value of A, the accesses of A before the store happen before those of C after the read. "
            "The same holds if atomic operations of other threads have changed the value of A. "
            "It does not hold if a store of another thread has replaced the value of A. "
            "A plain (weak) store releases nothing. A `cas` that does not swap releases nothing. Other atomic operations release even if the value stays the same.",
            "Thread A stores flag = 1 with release. Thread B executes `atom.add flag, 1`. Thread C reads 2 with acquire: C acquires what A released.",
            "If the read acquires nothing, the later accesses of the data are X008.",
        ),
        "order.observation": RuleText(
            "A read orders the write that it observes",
            "A strong read observes a strong write, directly or through atomic operations, and the two are morally strong. "
            "Then this write happens before the later accesses of the reading thread. The other accesses of the writing thread are not ordered by it.",
            "A thread polls flag until it is 1, and then stores flag = 0 by a plain store. The store does not race with the write of 1.",
            "The later accesses of the flag are silent. Data that the flag should publish are X008 without a release.",
        ),
        "order.messages": RuleText(
            "Data and flag with no fence between",
            "A thread stores data and then a flag by relaxed or volatile stores, with no fence between. "
            "A thread that reads the flag and then the data may read old data.",
            "The writer: `st.relaxed data; st.relaxed flag`. The reader: `ld.relaxed flag; ld.relaxed data`.",
            "It reports X008, but only as a remark: the accesses are strong, so by the PTX ISA they are no data race.",
        ),
        "order.fenced_by_others": RuleText(
            "Fences of several threads around a barrier",
            "Release: each thread executes a fence, all meet at a barrier, and then one thread executes a relaxed atomic. The atomic releases the writes of all these threads. "
            "Acquire: one thread executes a relaxed read, all meet at a barrier, and then each executes a fence. After its fence each thread has acquired.",
            "One CTA: `__threadfence(); __syncthreads();`, then thread 0 executes `atomicAdd(flag, 1)`. Another CTA: thread 0 polls flag, then all execute `__syncthreads(); __threadfence();`.",
            "The pattern is silent. Without the fences it is X008.",
        ),
        "order.reader_fence": RuleText(
            "A reader without a fence",
            "A thread observes a relaxed operation, executes no fence, and reads the data by a plain load. "
            "The value is old only if the L1 has an older copy of the 128 bytes.",
            "The last block of a reduction: atomicInc tells a CTA that it is the last one, and the CTA sums the partial results.",
            "It reports the remark X008 if the thread accesses the data by a plain store. "
            "For a load it reports the remark if no L1 can have an older copy. "
            "This is so if no other CTA of the launch has loaded from these 128 bytes, and the thread's own CTA has loaded from them only after the relaxed operation. "
            "Otherwise X008 is a finding.",
        ),
        "order.barrier_fences": RuleText(
            "A relaxed read before a barrier",
            "A thread reads a flag by a relaxed load. At a later bar.sync the load acquires what threads of the same CTA have released, and at barrier.cluster what threads of the cluster have released. It acquires nothing from other threads.",
            "Warp 1 stores data and sets a flag after a fence. Thread 0 of the same CTA polls the flag by ld.relaxed. After `__syncthreads()` all threads of the CTA may read the data.",
            "It reports nothing. If another CTA sets the flag, the reader needs a fence, even with `__syncthreads()`.",
        ),
        "order.fence_sc": RuleText(
            "fence.sc and membar",
            "fence.sc and membar order like fence.acq_rel. They give no further order: of two such fences, either may be the first one.",
            "Two threads each store one word, execute fence.sc, and read the other word by a plain load.",
            "It reports X008 for the plain accesses.",
        ),
        "order.scope": RuleText(
            "Scopes must include the other thread",
            "A release and an acquire synchronise if the scope of each includes the other thread. "
            "Two strong accesses are no race if the scope of each includes the other thread. "
            "The write that carries a release and the read that carries the acquire need such scopes too.",
            "CTAs 0 and 1 both execute atom.add.cta on one word: the scope .cta does not include the other CTA.",
            "It reports X008.",
        ),
        "order.update": RuleText(
            "Two threads update one word",
            "If two threads each load a word, compute a new value, and store it there, one update can be lost. This holds for relaxed and volatile accesses, unless something orders the two threads.",
            "Two CTAs each execute `ld.relaxed count; add 1; st.relaxed count`.",
            "It reports X008. The fix is red.add. It reports nothing if all updates of the word are the same operation (or, and, min, max) "
            "with the same constant, because a second update then changes nothing.",
        ),
        "order.looks_again": RuleText(
            "A plain read before an atomic",
            "A plain load of a word is followed by an atomic operation (cas, min, max, and, or) at the same address. "
            "The load races with the atomic operations of other threads. But the atomic operation reads the word again and decides by the new value.",
            "`if (x < *best) atomicMin(best, x);`",
            "It reports the remark X008. If an instruction uses the value for something else, X008 is no remark. With cas this holds only in shared memory.",
        ),
        "order.past_l1": RuleText(
            "Weak accesses with .cg, .cv or .wt",
            "If two accesses of a word are not ordered, they race by the PTX ISA. But both bypass the L1 if each of them has .cg, .cv or .wt, or is strong, and at least one has .cg, .cv or .wt. They order no other word.",
            "st.global.cg by one CTA, ld.global.cg by another one.",
            "It reports the remark X008.",
        ),
    },
)

_MBARRIERS = RuleTopic(
    "Memory order: mbarriers",
    "Phase n of an mbarrier is over when all its arrivals and bytes have come. The parity is the lowest bit of n.",
    {
        "order.parity": RuleText(
            "A wait for a parity",
            "Phase n and phase n-2 have the same parity. A thread waits for the parity of phase n. If it does not know that phase n-1 is complete, the old phase n-2 may satisfy the wait. "
            "Then the thread acquires only what was released up to phase n-2.",
            "A consumer waits for parity 0 of phase 2, and has not waited for phase 1. The end of phase 0 satisfies the wait.",
            "The read of the data is X004 or X008.",
        ),
        "order.mbarrier_phases": RuleText(
            "Arrivals and expected bytes may count in another phase",
            "If a thread arrives at an mbarrier, and does not know that the previous phase is complete, its arrival may count in that phase. "
            "Bytes of mbarrier.expect_tx surely count in the present phase if an arrival of that phase comes after the mbarrier.expect_tx. Otherwise the phase may end before the mbarrier.expect_tx.",
            "One thread executes expect_tx, and the last arrival comes from another thread at any time. The bytes may count in the next phase.",
            "It reports X010, if nothing else is wrong.",
        ),
        "order.mbarrier_lives": RuleText(
            "The life of an mbarrier",
            "An mbarrier ends at mbarrier.inval, at another mbarrier.init, and at any write over its bytes. "
            "Every operation on it must be ordered before its end. For an asynchronous arrival, a wait for its phase gives this order. "
            "The next use of the bytes must be ordered after the end.",
            "A kernel reuses the bytes of an mbarrier for a tile. It executes mbarrier.inval, a barrier, and then the TMA load.",
            "An operation that is not ordered before the end is X008, an asynchronous one X005. A missing mbarrier.inval is X010: a remark before plain stores, a finding before an asynchronous copy.",
        ),
        "order.default_scope": RuleText(
            "mbarrier operations without a scope",
            "By the PTX ISA an mbarrier operation without a scope has .cta. smemsim counts it for the whole cluster, because CUTLASS frees stages of other CTAs this way. "
            "An explicit .cta is not counted for other CTAs.",
            "mbarrier.arrive.shared::cluster.b64 frees a stage of another CTA.",
            "It reports the remark X008, once for a launch, if a read of shared memory comes after ordinary stores or cp.async copies of another CTA, "
            "and only such an arrival orders them. One program failed this way (CUTLASS issue 3324). Write .release.cluster there. "
            "It reports nothing if the arrival only frees a stage, and nothing for data in global memory. An explicit .cta is reported by the next two rules.",
        ),
        "order.narrow_wait": RuleText(
            "Waits with .acquire.cta",
            "A wait with an explicit .acquire.cta orders only threads of its CTA.",
            "CTA 1 waits with .acquire.cta for data that CTA 0 stored into the shared memory of CTA 1.",
            "It reports the remark X008 for data in shared and tensor memory, if nothing else is missing. It reports the finding X008 for data in global memory.",
        ),
        "order.narrow_arrival": RuleText(
            "Arrivals with .release.cta at another CTA",
            "An arrival with .release.cta at another CTA's mbarrier releases nothing to that CTA.",
            "CTA 1 reads a stage and arrives with .release.cta at the mbarrier of CTA 0.",
            "It reports a remark if only reads or complete asynchronous operations rely on the arrival. It reports X008 or X004 if ordinary stores or cp.async copies rely on it.",
        ),
        "order.sibling_arrivals": RuleText(
            "One instruction arrives at several CTAs",
            "The lanes of a warp arrive by one instruction at the mbarriers of several CTAs. Nothing orders the arrivals of two lanes. "
            "Another warp waits for the phase at one CTA. It then relies on the other arrivals too.",
            "Lanes 0 and 1 free a stage in CTAs 0 and 1. A producer of CTA 0 waits there, and then arrives in CTA 1 for the next phase.",
            "It reports the remark X010 for the arrival that nothing else orders.",
        ),
        "order.relaxed_cluster_arrive": RuleText(
            "barrier.cluster.arrive.relaxed",
            "barrier.cluster.arrive.relaxed itself releases nothing. A fence before it releases the accesses before the fence.",
            "CTA 0 stores into its shared memory and arrives relaxed. CTA 1 waits and reads the word.",
            "It reports the remark X008, if nothing else is missing.",
        ),
    },
)

_ASYNC = RuleTopic(
    "Memory order: asynchronous operations and proxies",
    "A proxy is a way to memory. Threads use the generic proxy, TMA and tensor cores use the async proxy.",
    {
        "order.groups": RuleText(
            "Groups belong to one thread",
            "A bulk group or a cp.async group belongs to the thread that issued the operations. Only commit_group and wait_group of that thread count.",
            "Thread 0 issues a bulk store. Thread 1 executes `cp.async.bulk.wait_group 0`: it waits for nothing.",
            "A use of the bytes is X004 or X005.",
        ),
        "order.proxy_reads": RuleText(
            "TMA overwrites data that threads have read",
            "A bulk or tensor copy overwrites data that threads have read by ordinary loads. "
            "The PTX ISA requires fence.proxy.async between, by the reader or by the thread that issues the copy.",
            "Warps read stage 0, arrive at empty[0], and the producer loads stage 0 again.",
            "A missing fence is the remark X003, because CUTLASS and Triton release stages without it.",
        ),
        "order.warpgroup": RuleText(
            "wgmma reads stores of its own four warps",
            "The four warps of a warpgroup store an operand. Each executes fence.proxy.async after its stores. "
            "Then wgmma.mma_async reads the stores of all four warps. By the PTX ISA a fence covers only the stores of its own warp, and no barrier orders the four warps.",
            "Each warp fills 16 rows with zeros, executes fence.proxy.async, and all execute wgmma.",
            "It reports a remark, if nothing else is missing.",
        ),
        "order.tcgen05_fence": RuleText(
            "tcgen05.fence",
            "tcgen05.fence orders tcgen05 instructions around relaxed accesses. It orders no other memory. It is not needed between two threads that synchronise by a release and an acquire.",
            "mbarrier.try_wait (acquires), then tcgen05.ld: no tcgen05.fence::after_thread_sync is needed.",
            "A missing fence around relaxed accesses is X012.",
        ),
        "order.pair_allocation": RuleText(
            "Allocation and deallocation by a pair of CTAs",
            "tcgen05.dealloc of a pair comes after tcgen05.alloc of the other CTA, and after all accesses of both CTAs to the columns. "
            "tcgen05.dealloc may block until both CTAs execute it. So before its own dealloc, a CTA must not wait for an event that comes after the dealloc of the other CTA. "
            "The CTA that allocates must know that the other one has begun.",
            "CTA 0 waits for a flag, and then deallocates. CTA 1 deallocates, and then sets the flag. Both may wait for ever.",
            "It reports X012 for the order, X006 for the hang. A CTA that does not know that the other one has begun is the remark X009.",
        ),
        "order.tensormap_proxy": RuleText(
            "Tensor maps that a kernel writes",
            "A transfer sees the writes of threads into its map only after two fences on the happens-before path. "
            "The writer executes fence.proxy.tensormap::generic.release. (tensormap.cp_fenceproxy contains it.) "
            "The user executes fence.proxy.tensormap::generic.acquire of the map.",
            "Thread 0 changes an address in a map, executes the release fence, and sets a flag. The user waits, executes the acquire fence, and issues the load.",
            "A missing fence is X003.",
        ),
        "order.map_in_global_memory": RuleText(
            "Tensor maps in global memory",
            "The host or an earlier launch writes a tensor map in global memory. The CUDA guide requires that each CTA executes fence.proxy.tensormap::generic.acquire of the map before it uses it.",
            "cudaMemcpy of a CUtensorMap to device memory, then a launch that gets its address.",
            "A missing fence is the remark X003. No failure without it is known.",
        ),
        "order.replaced_alike": RuleText(
            "Several warps change one tensor map",
            "Several warps of a CTA change fields of one map in global memory by tensormap.replace, and nothing orders them. They write the same values.",
            "Each epilogue warp makes the same map in the same place.",
            "It reports the remark X008.",
        ),
    },
)

_LAUNCHES = RuleTopic(
    "Memory order: CTAs, launches and global memory",
    "",
    {
        "order.exit": RuleText(
            "Exits count as arrivals",
            "A thread that has exited counts as arrived at barrier.cluster, and at a bar.sync of all threads. Its accesses happen before those of the threads that wait there.",
            "Warp 3 returns early. The other warps execute `__syncthreads()` and read what warp 3 stored.",
            "It reports nothing.",
        ),
        "launch.cooperative": RuleText(
            "Barriers of the grid",
            "A cooperative launch has memory for barriers of the grid: %envreg1 and %envreg2 are its address. In other launches both are 0, and grid.sync() of cooperative groups executes trap.",
            "A kernel that calls `grid.sync()` is launched with `<<<>>>`.",
            "It reports X013.",
        ),
        "order.same_multiprocessor": RuleText(
            "CTAs on one multiprocessor",
            "If only one CTA fits on a multiprocessor, two CTAs with the same %smid run one after the other. The second one sees the writes of the first one.",
            "Each CTA uses the workspace number %smid.",
            "A race of two such CTAs is a remark.",
        ),
        "order.unused_read": RuleText(
            "Reads whose value is not used",
            "A read of global memory is no race if its value is not used. "
            "A value is used if it reaches one of these: a store that the warp executes, a branch, a guard, an atomic operation, shared memory, a matrix instruction.",
            "A small Triton block: warps load elements that belong to other warps, and their stores are guarded off.",
            "It reports nothing. A racing read of shared memory is a remark if no instruction reads the registers that it fills before they are overwritten.",
        ),
        "order.dependent_launch": RuleText(
            "Programmatic dependent launch",
            "A launch with programmatic stream serialization may begin when each CTA of the previous launch has executed griddepcontrol.launch_dependents or has exited. "
            "A griddepcontrol.wait orders all writes of the previous launch before the later accesses of its thread. "
            "A fence of device scope before griddepcontrol.launch_dependents orders the earlier accesses of its thread before the start of the next launch. "
            "The exit of a CTA orders nothing. "
            "Launch 1 may still run during launch 3 if launch 2 has not waited for launch 1. Then griddepcontrol.wait in launch 3 orders launch 1 before launch 3, too.",
            "Launch 1 writes an array. Launch 2 reads it without griddepcontrol.wait.",
            "It reports X008.",
        ),
        "order.non_coherent": RuleText(
            "Read-only loads of data that the launch has written",
            "ld.global.nc requires memory that is read-only during the launch. If the launch has written the data, the load may return an old value.",
            "A kernel stores p[i] and later loads it by `__ldg(&p[i])`.",
            "It reports the remark X008.",
        ),
    },
)

RULE_TOPICS = (
    _OPERANDS, _WGMMA, _TCGEN05, _ARITHMETIC, _TMA, _BULK, _CLUSTERS, _MEMORY, _TEXTURES, _COUNTERS,
    _BARRIERS, _LANES, _FENCES, _MBARRIERS, _ASYNC, _LAUNCHES,
)  # fmt: skip
