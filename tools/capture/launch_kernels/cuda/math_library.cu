// Functions of CUDA's math library: polynomials, tables, slow paths with local memory.
#include "common.cuh"
KERNEL math_library(const float *A, const float *B, float *out, double *doubles) {
    int slot = 0;
    float a = A[THREAD], b = B[THREAD];
    PUT(expf(a)); PUT(exp2f(a)); PUT(logf(fabsf(a))); PUT(log1pf(fabsf(b))); PUT(powf(fabsf(a), b)); PUT(sinf(a * 1000.0f)); PUT(cosf(b)); PUT(tanf(b)); PUT(sinf(a * 1e8f));
    PUT(tanhf(a)); PUT(erff(b)); PUT(cbrtf(a)); PUT(rsqrtf(fabsf(a))); PUT(atan2f(a, b)); PUT(hypotf(a, b)); PUT(1.0f / (1.0f + __expf(-a))); PUT(__sinf(b)); PUT(__powf(fabsf(a), b)); PUT(__fdividef(a, b));
    PUT(fmodf(a, b)); PUT(ldexpf(a, (int)threadIdx.x - 64)); PUT(__half2float(__hdiv(__float2half(a), __float2half(b)))); PUT(__low2float(h2exp(__floats2half2_rn(b, a))));
    double d = a, e = b;
    doubles[THREAD] = exp(d * 0.5);
    doubles[THREADS + THREAD] = log(fabs(e));
    doubles[2 * THREADS + THREAD] = sin(d) * rsqrt(fabs(e));
}
