// Integer loops: CRC-32 with a table in shared memory, Philox 4x32-10, SHA-256's compression of one block.
#include "common.cuh"
__constant__ u32 K[16] = {0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
                          0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174};
__device__ inline u32 rotated(u32 x, int n) { return __funnelshift_r(x, x, n); }
KERNEL crc_philox(const u8 *in, u32 bytes, u32 *out) {
    __shared__ u32 table[256];
    int slot = 0;
    for (u32 i = threadIdx.x; i < 256; i += blockDim.x) {
        u32 c = i;
        for (int k = 0; k < 8; k++) c = c & 1 ? c >> 1 ^ 0xedb88320 : c >> 1;
        table[i] = c;
    }
    __syncthreads();
    u32 crc = ~0u;
    for (u32 i = 0; i < bytes; i++) crc = crc >> 8 ^ table[(crc ^ in[THREAD * bytes + i]) & 255];
    PUT(~crc);
    uint4 c = make_uint4(THREAD, 1, 2, 3);
    uint2 key = make_uint2(0xdeadbeef, THREAD);
    for (int round = 0; round < 10; round++) {
        u32 h0 = __umulhi(0xD2511F53, c.x), h1 = __umulhi(0xCD9E8D57, c.z);
        c = make_uint4(h1 ^ c.y ^ key.x, 0xCD9E8D57 * c.z, h0 ^ c.w ^ key.y, 0xD2511F53 * c.x);
        key.x += 0x9E3779B9, key.y += 0xBB67AE85;
    }
    PUT(c.x); PUT(c.y); PUT(c.z); PUT(c.w);
    u32 a = crc, b = c.x, d = c.y, e = c.z, f = c.w, g = 0x1f83d9ab, h = 0x5be0cd19, m = 0x6a09e667;
    for (int i = 0; i < 16; i++) {
        u32 t1 = h + (rotated(e, 6) ^ rotated(e, 11) ^ rotated(e, 25)) + ((e & f) ^ (~e & g)) + K[i] + c.x * i;
        u32 t2 = (rotated(a, 2) ^ rotated(a, 13) ^ rotated(a, 22)) + ((a & b) ^ (a & m) ^ (b & m));
        h = g; g = f; f = e; e = d + t1; d = m; m = b; b = a; a = t1 + t2;
    }
    PUT(a ^ b ^ m ^ d); PUT(e ^ f ^ g ^ h);
}
