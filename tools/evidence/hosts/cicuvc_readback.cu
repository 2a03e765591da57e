// A host for cicuvc/nvidia-sass-document's readbacks of tensor memory (tests/tcgen05_cp_shift_runtime.cu): kernels and launches are the project's, and what they have to leave is what
// its notes print of a B200 (notes/sm100/instr/utcshift.md and utccp.md, "Dynamic B200 validation (2026-09-17)"), no more than that: of the shifts the first word of each row.
#include <cstdio>
#include <vector>

#include <cuda_runtime.h>

#include "tests/tcgen05_cp_shift_runtime.cu"  // of the checkout

static std::vector<uint32_t> after(void (*kernel)(uint32_t *), int threads) {
    std::vector<uint32_t> words(size_t(threads) * 8);
    uint32_t *out = nullptr;
    cudaMalloc(&out, words.size() * 4);
    kernel<<<1, threads>>>(out);
    if (cudaMemcpy(words.data(), out, words.size() * 4, cudaMemcpyDeviceToHost) != cudaSuccess) words.clear();
    cudaFree(out);
    return words;
}

static int wrong(const char *name, const std::vector<uint32_t> &found, int rows, int words, uint32_t (*printed)(int row, int word)) {
    int bad = found.empty();
    for (int row = 0; !found.empty() && row < rows; ++row)
        for (int word = 0; word < words; ++word) bad += found[row * 8 + word] != printed(row, word);
    std::printf("%s: %d of %d words are not those of the B200\n", name, bad, rows * words);
    return bad != 0;
}

int main() {
    // 1, 2, ..., 30, 31, 31
    int bad = wrong("shift_runtime", after(shift_runtime, 32), 32, 1, [](int row, int) { return 0x10000000u | uint32_t(row < 31 ? row + 1 : 31) << 8; });
    // 1..31,31 | 33..63,63 | 65..95,95 | 97..127,127
    bad |= wrong("shift_warp_runtime", after(shift_warp_runtime, 128), 128, 1, [](int row, int) { return 0x20000000u | uint32_t(row % 32 < 31 ? row + 1 : row) << 8; });
    // lane r reads eight words starting at source word 4 r
    bad |= wrong("cp_runtime", after(cp_runtime, 128), 128, 8, [](int row, int word) { return 0xc0000000u | uint32_t(4 * row + word); });
    return bad;
}
