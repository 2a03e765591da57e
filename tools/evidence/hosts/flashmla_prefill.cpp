// A host for FlashMLA's sparse prefill kernels (deepseek-ai/FlashMLA, csrc/sm100/prefill/sparse/fwd): its own is an extension of torch's CUDA build. Sizes, inputs,
// reference and tolerances are those of tests/test_flash_mla_sparse_prefill.py. -DNAMESPACE=head64 -DHEADS=64 or head128 and 128, D_QK = 512.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <random>
#include <vector>

#include <cuda_runtime.h>

struct SparseAttnFwdParams {  // csrc/params.h
    int s_q, s_kv, h_q, h_kv, d_qk, d_v, topk;
    float sm_scale, sm_scale_div_log2;
    void *q, *kv;
    int *indices;
    float *attn_sink;
    int *topk_length;
    int stride_q_s_q, stride_q_h_q, stride_kv_s_kv, stride_kv_h_kv, stride_indices_s_q, stride_indices_h_kv;
    void *out;
    float *max_logits, *lse;
    int num_sm;
    cudaStream_t stream;
};

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
    SparseAttnFwdParams p{SQ, SKV, H, 1, D, D, TOPK, 0.5f, 0.5f * 1.44269504f, on_device(q), on_device(kv), on_device(indices), nullptr, nullptr,
                          H * D, D, D, D, TOPK, TOPK, on_device(out), on_device(zeros), on_device(zeros), 148, nullptr};
    sm100::fwd::NAMESPACE::run_fwd_phase1_kernel<512>(p);
    if (cudaError_t error = cudaDeviceSynchronize()) {
        std::printf("%s\n", cudaGetErrorString(error));
        return 2;
    }
    std::vector<float> found(H * D);
    auto raw = back(static_cast<uint16_t *>(p.out), found.size());
    for (size_t i = 0; i < found.size(); ++i) found[i] = f32(raw[i]);
    int failed = wrong("out", found, wanted, 8e-4, 3.01 / 128, 7e-6);
    failed |= wrong("max_logits", back(p.max_logits, H), largest, 1e-6, 2.01 / 65536, 1e-7);
    failed |= wrong("lse", back(p.lse, H), lse, 1e-6, 2.01 / 65536, 1e-7);
    return failed;
}
