// Textures and surfaces: reads cases (texture_cases.py) and kernels (texture_ops.py), makes each one's array and texture or surface object, executes one instruction for each
// sample, and writes what every step returned, the results, and of surfaces the array behind them. It ends with the first case that traps.
#include <cuda.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

struct Case {
    int32_t number, resource, width, height, depth, flags, levels, bits[4], kind, address[3], filter, read, srgb, normalized;
    float border[4];
    int32_t anisotropy, mip_filter;
    float bias, least, most;
    int32_t no_trilinear, seamless, op, samples, bytes, pitch, is_surface, no_object, room;
};

template <class T> static T *device(const void *from, size_t bytes) {
    void *p = nullptr;
    if (cudaMalloc(&p, bytes + 512)) exit(3);
    cudaMemset(p, 0, bytes + 512);
    if (from) cudaMemcpy(p, from, bytes, cudaMemcpyDefault);
    return (T *)p;
}
static size_t at_least_one(size_t n) { return n ? n : 1; }

// Copy between the host's bytes and an array's level: rows one behind the other, planes one behind the other.
static cudaError_t copy(const Case &c, cudaArray_t array, char *host, int level, size_t texel, bool to_array) {
    bool layered = c.flags & (cudaArrayLayered | cudaArrayCubemap);
    size_t w = at_least_one(c.width >> level), h = at_least_one(c.height >> level), d = layered ? c.depth : at_least_one(c.depth >> level);
    cudaMemcpy3DParms p = {};
    cudaPitchedPtr own = make_cudaPitchedPtr(host, w * texel, w, h);
    if (to_array) p.srcPtr = own, p.dstArray = array;
    else p.dstPtr = own, p.srcArray = array;
    p.extent = make_cudaExtent(w, h, at_least_one(d));
    p.kind = to_array ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost;
    return cudaMemcpy3D(&p);
}

// The driver's own entry points, which the runtime finds.
template <class F> static F *entry(const char *name) {
    void *found = nullptr;
    cudaDriverEntryPointQueryResult how;
    if (cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &how) || !found) exit(5);
    return (F *)found;
}
#define ENTRY(NAME) static auto *NAME##_ = entry<decltype(NAME)>(#NAME)

// Kernels by number: the driver compiles each one when it is first asked for, and again in a new context.
static std::vector<const char *> texts;
static std::vector<CUfunction> functions;
static int loaded(int op, CUfunction *f) {
    int error = 0;
    if (!functions[op]) {
        ENTRY(cuModuleLoadData);
        ENTRY(cuModuleGetFunction);
        CUmodule module;
        error = cuModuleLoadData_(&module, texts[op]);
        if (!error) error = cuModuleGetFunction_(&functions[op], module, "probe");
    }
    *f = functions[op];
    return error;
}

int main(int count, char **names) {
    if (count < 5) return 2;
    useconds_t wait = atoi(names[4]);  // between the synchronisation and the copy of the results: a trap can be reported late
    std::vector<char> ptx;
    FILE *kernels = fopen(names[3], "rb");
    for (int byte; (byte = fgetc(kernels)) != EOF;) ptx.push_back((char)byte);
    for (size_t at = 0; at < ptx.size(); at += strlen(&ptx[at]) + 1) texts.push_back(&ptx[at]);
    functions.resize(texts.size());
    cudaFree(nullptr);
    FILE *in = fopen(names[1], "rb"), *out = fopen(names[2], "wb");
    Case c;
    while (fread(&c, sizeof c, 1, in) == 1) {
        std::vector<char> data(c.bytes + 1);
        std::vector<uint32_t> samples(16 * c.samples + 1);
        if (c.bytes && fread(data.data(), c.bytes, 1, in) != 1) return 4;
        if (c.samples && fread(samples.data(), 64 * c.samples, 1, in) != 1) return 4;
        int32_t said[6] = {};
        cudaChannelFormatDesc channel = cudaCreateChannelDesc(c.bits[0], c.bits[1], c.bits[2], c.bits[3], (cudaChannelFormatKind)c.kind);
        size_t texel = (c.bits[0] + c.bits[1] + c.bits[2] + c.bits[3]) / 8;
        cudaArray_t array = nullptr;
        cudaMipmappedArray_t mips = nullptr;
        cudaResourceDesc resource = {};
        void *memory = nullptr;
        if (c.resource < 2) {
            memory = device<void>(data.data(), c.bytes);
            if (c.resource == 0) resource.resType = cudaResourceTypeLinear, resource.res.linear = {memory, channel, (size_t)c.bytes};
            else resource.resType = cudaResourceTypePitch2D, resource.res.pitch2D = {memory, channel, (size_t)c.width, (size_t)c.height, (size_t)c.pitch};
        } else if (c.resource == 2) {
            said[0] = cudaMalloc3DArray(&array, &channel, make_cudaExtent(c.width, c.height, c.depth), c.flags);
            if (!said[0] && c.bytes) said[1] = copy(c, array, data.data(), 0, texel, true);
            resource.resType = cudaResourceTypeArray, resource.res.array.array = array;
        } else {
            said[0] = cudaMallocMipmappedArray(&mips, &channel, make_cudaExtent(c.width, c.height, c.depth), c.levels, c.flags);
            char *from = data.data();
            for (int n = 0; !said[0] && n < c.levels && from < data.data() + c.bytes; n++) {
                cudaArray_t level;
                said[1] = cudaGetMipmappedArrayLevel(&level, mips, n);
                if (!said[1]) said[1] = copy(c, level, from, n, texel, true);
                bool layered = c.flags & (cudaArrayLayered | cudaArrayCubemap);
                from += at_least_one(c.width >> n) * at_least_one(c.height >> n) * (layered ? c.depth : at_least_one(c.depth >> n)) * texel;
            }
            resource.resType = cudaResourceTypeMipmappedArray, resource.res.mipmap.mipmap = mips;
        }
        cudaTextureDesc how = {};
        for (int n = 0; n < 3; n++) how.addressMode[n] = (cudaTextureAddressMode)c.address[n];
        how.filterMode = (cudaTextureFilterMode)c.filter, how.readMode = (cudaTextureReadMode)c.read, how.sRGB = c.srgb, how.normalizedCoords = c.normalized;
        memcpy(how.borderColor, c.border, 16);
        how.maxAnisotropy = c.anisotropy, how.mipmapFilterMode = (cudaTextureFilterMode)c.mip_filter, how.mipmapLevelBias = c.bias;
        how.minMipmapLevelClamp = c.least, how.maxMipmapLevelClamp = c.most, how.disableTrilinearOptimization = c.no_trilinear, how.seamlessCubemap = c.seamless;
        unsigned long long object = 0;
        if (!said[0]) said[2] = c.is_surface ? cudaCreateSurfaceObject(&object, &resource) : cudaCreateTextureObject(&object, &resource, &how, nullptr);
        std::vector<uint32_t> results(4 * c.samples + 1);
        if (!said[0] && !said[2] && c.samples) {
            uint32_t *given = device<uint32_t>(samples.data(), 64 * c.samples);
            uint4 *to = device<uint4>(nullptr, 16 * c.samples);
            uint64_t handle = c.no_object ? 0 : object;
            void *arguments[] = {&handle, &c.samples, &given, &to};
            CUfunction f = nullptr;
            said[5] = loaded(c.op, &f);
            ENTRY(cuLaunchKernel);
            if (!said[5]) said[5] = cuLaunchKernel_(f, (c.samples + 127) / 128, 1, 1, 128, 1, 1, 0, nullptr, arguments, nullptr);
            said[3] = cudaDeviceSynchronize();
            if (wait) usleep(wait);
            cudaError_t read = cudaMemcpy(results.data(), to, 16 * c.samples, cudaMemcpyDefault);
            if (!said[3]) said[3] = read;  // a trap that the synchronisation did not report yet
            if (c.is_surface && !said[3]) said[4] = copy(c, array, data.data(), 0, texel, false);
            if (!said[3]) said[3] = cudaDeviceSynchronize();
            cudaFree(given), cudaFree(to);
        }
        if (said[3] || said[5]) fprintf(stderr, "case %d op %d: launch %s, end %s\n", c.number, c.op, cudaGetErrorName((cudaError_t)said[5]), cudaGetErrorName((cudaError_t)said[3]));
        bool trapped = said[3];
        if (trapped) object = 0, array = nullptr, mips = nullptr, memory = nullptr;
        if (!said[2] && object) c.is_surface ? cudaDestroySurfaceObject(object) : cudaDestroyTextureObject(object);
        if (array) cudaFreeArray(array);
        if (mips) cudaFreeMipmappedArray(mips);
        if (memory) cudaFree(memory);
        cudaGetLastError();
        fwrite(&c.number, 4, 1, out), fwrite(said, 4, 6, out), fwrite(results.data(), 16, c.samples, out);
        if (c.is_surface) fwrite(data.data(), 1, c.bytes, out);
        fflush(out);
        if (trapped) break;  // the context is dead: the next process goes on
    }
    fclose(out);
    return 0;
}
