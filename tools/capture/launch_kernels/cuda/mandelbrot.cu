// Escape times: a loop whose threads leave at different times, in f32 and with packed halves.
#include "common.cuh"
KERNEL mandelbrot(u32 *out, u32 width, float left, float top, float step) {
    u32 x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, n = 0;
    float cr = left + step * x, ci = top + step * y, zr = 0, zi = 0;
    while (n < 60 && zr * zr + zi * zi < 4.0f) {
        float t = zr * zr - zi * zi + cr;
        zi = 2.0f * zr * zi + ci;
        zr = t;
        n++;
    }
    out[y * width + x] = n;
}
