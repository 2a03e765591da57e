// A host for FlashMLA's sparse prefill kernels (deepseek-ai/FlashMLA, csrc/sm100/prefill/sparse/fwd): its own is an extension of torch's CUDA build. Sizes, inputs,
// reference and tolerances are those of tests/test_flash_mla_sparse_prefill.py. -DNAMESPACE=head64 -DHEADS=64 or head128 and 128, D_QK = 512.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <random>
#include <vector>

#include <cuda_runtime.h>

#include "params.h"  // of the project's csrc

namespace sm100 { namespace fwd { namespace NAMESPACE {
template <int D_QK> void run_fwd_phase1_kernel(const SparseAttnFwdParams &params);
extern template void run_fwd_phase1_kernel<512>(const SparseAttnFwdParams &params);
} } }

constexpr int SQ = 1, SKV = 128, TOPK = 128, D = 512, H = HEADS;

static uint16_t bf16(float x) {
    uint32_t u;
    std::memcpy(&u, &x, 4);
    return uint16_t((u + 0x7FFF + (u >> 16 & 1)) >> 16);
}

static float f32(uint16_t x) {
    uint32_t u = uint32_t(x) << 16;
    float out;
    std::memcpy(&out, &u, 4);
    return out;
}

template <class T> static T *on_device(const std::vector<T> &from) {
    void *to = nullptr;
    cudaMalloc(&to, from.size() * sizeof(T));
    cudaMemcpy(to, from.data(), from.size() * sizeof(T), cudaMemcpyHostToDevice);
    return static_cast<T *>(to);
}

template <class T> static std::vector<T> back(const T *from, size_t count) {
    std::vector<T> to(count);
    cudaMemcpy(to.data(), from, count * sizeof(T), cudaMemcpyDeviceToHost);
    return to;
}

static int wrong(const char *name, const std::vector<float> &found, const std::vector<double> &wanted, double absolute, double relative, double angle) {
    size_t bad = 0;
    double xy = 0, xx = 0, yy = 0;
    for (size_t i = 0; i < found.size(); ++i) {
        double error = std::fabs(found[i] - wanted[i]);
        bad += !(error < absolute || error / (std::fabs(wanted[i]) + 1e-6) < relative);
        xy += found[i] * wanted[i], xx += double(found[i]) * found[i], yy += wanted[i] * wanted[i];
    }
    double apart = 1 - 2 * xy / (xx + yy);
    std::printf("%s: %zu of %zu wrong, cosine difference %g\n", name, bad, found.size(), apart);
    return bad != 0 || !(apart < angle);
}

int main() {
    std::mt19937 dice(1);
    std::normal_distribution<float> normal;
    std::vector<uint16_t> q(SQ * H * D), kv(SKV * D), out(SQ * H * D);
    for (auto &x : q) x = bf16(normal(dice) / 10 + 0.01f);
    for (auto &x : kv) x = bf16(normal(dice) / 10 - 0.02f);
    std::vector<int> indices(TOPK);
    for (int i = 0; i < TOPK; ++i) indices[i] = i * 37 % SKV;
    for (int i : {5, 64, 127}) indices[i] = i == 64 ? 2147483647 : -1;  // nobody's

    std::vector<double> wanted(H * D), lse(H), largest(H);
    for (int h = 0; h < H; ++h) {
        std::vector<double> p(TOPK, -INFINITY);
        largest[h] = -INFINITY;
        for (int t = 0; t < TOPK; ++t) {
            if (indices[t] < 0 || indices[t] >= SKV) continue;
            double sum = 0;
            for (int d = 0; d < D; ++d) sum += double(f32(q[h * D + d])) * f32(kv[indices[t] * D + d]);
            p[t] = sum * 0.5;
            largest[h] = std::fmax(largest[h], p[t]);
        }
        double total = 0;
        for (double x : p) total += std::exp(x - largest[h]);
        lse[h] = largest[h] + std::log(total);
        for (int t = 0; t < TOPK; ++t)
            if (p[t] > -INFINITY)
                for (int d = 0; d < D; ++d) wanted[h * D + d] += std::exp(p[t] - lse[h]) * f32(kv[indices[t] * D + d]);
    }

    std::vector<float> zeros(SQ * H);
    using Element = cutlass::bfloat16_t;
    SparseAttnFwdParams p{};
    p.s_q = SQ, p.s_kv = SKV, p.h_q = H, p.h_kv = 1, p.d_qk = p.d_v = D, p.topk = TOPK;
    p.sm_scale = 0.5f, p.sm_scale_div_log2 = 0.5f * 1.44269504f;
    p.q = reinterpret_cast<Element *>(on_device(q)), p.kv = reinterpret_cast<Element *>(on_device(kv)), p.indices = on_device(indices);
    p.stride_q_s_q = H * D, p.stride_q_h_q = p.stride_kv_s_kv = p.stride_kv_h_kv = D, p.stride_indices_s_q = p.stride_indices_h_kv = TOPK;
    p.out = reinterpret_cast<Element *>(on_device(out)), p.max_logits = on_device(zeros), p.lse = on_device(zeros), p.num_sm = 148;
    sm100::fwd::NAMESPACE::run_fwd_phase1_kernel<512>(p);
    if (cudaError_t error = cudaDeviceSynchronize()) {
        std::printf("%s\n", cudaGetErrorString(error));
        return 2;
    }
    std::vector<float> found(H * D);
    auto raw = back(reinterpret_cast<uint16_t *>(p.out), found.size());
    for (size_t i = 0; i < found.size(); ++i) found[i] = f32(raw[i]);
    int failed = wrong("out", found, wanted, 8e-4, 3.01 / 128, 7e-6);
    failed |= wrong("max_logits", back(p.max_logits, H), largest, 1e-6, 2.01 / 65536, 1e-7);
    failed |= wrong("lse", back(p.lse, H), lse, 1e-6, 2.01 / 65536, 1e-7);
    return failed;
}
