/* What stands in for cuBLAS and cuBLASLt, which are machine code and cannot run here: the products that programs compare their kernels with. The process
 * that has the device computes them (`calls/products.py`). They are references: nothing is launched, and the log says so. All other functions answer
 * "not supported" (15), each is named once. Built once for each library, as WHICH says. Names, structures and codes: cublas_api.h, cublasLt.h of CUDA 13. */
#include "door.h"
#include <stdlib.h>
#include <string.h>

#define CUBLAS 1
#define CUBLASLT 2

enum { SUCCESS = 0, UNINITIALIZED = 1, NO_MEMORY = 3, INVALID = 7, FAILED = 13, UNSUPPORTED = 15 };
enum { R32F = 0, R64F = 1, R16F = 2, R8I = 3, R32I = 10, R16BF = 14 };                            /* cudaDataType_t */
enum { C16F = 64, C16F_PEDANTIC = 65, C64F = 70, C64F_PEDANTIC = 71, C32I = 72, C32I_PEDANTIC = 73, C32F = 68 }; /* cublasComputeType_t */

typedef struct { U address; int64_t type, ld, stride, order; } matrix;
typedef struct {
    int64_t op_a, op_b, m, n, k, batch, scalars_on_card, compute, scale, epilogue, bias, bias_type, scale_a, scale_b;
    matrix a, b, c, d;
    unsigned char alpha[16], beta[16];
} product_call;

static int status_of(R code) {
    return code == 0 ? SUCCESS : code == INVALID_VALUE ? INVALID : code == NOT_SUPPORTED ? UNSUPPORTED : code == NOT_INITIALIZED ? UNINITIALIZED : FAILED;
}
int smemsim_not_there(const char *name) {
    smemsim_unknown_as(name, "15 (CUBLAS_STATUS_NOT_SUPPORTED)");
    return UNSUPPORTED;
}
static size_t scalar_size(int64_t scale) { return scale == R64F ? 8 : scale == R16F ? 2 : 4; }
static int compute_product(const char *name, product_call *p, const void *alpha, const void *beta, U stream) {
    if (!alpha || !beta) return INVALID;
    if (p->scalars_on_card) {
        memcpy(p->alpha, &alpha, sizeof alpha);
        memcpy(p->beta, &beta, sizeof beta);
    } else {
        memcpy(p->alpha, alpha, scalar_size(p->scale));
        memcpy(p->beta, beta, scalar_size(p->scale));
    }
    return status_of(smemsim_call("product", "sib", name, stream, p, sizeof *p));
}
static const char *text_of(int code) {
    switch (code) {
    case SUCCESS: return "CUBLAS_STATUS_SUCCESS";
    case UNINITIALIZED: return "CUBLAS_STATUS_NOT_INITIALIZED";
    case NO_MEMORY: return "CUBLAS_STATUS_ALLOC_FAILED";
    case INVALID: return "CUBLAS_STATUS_INVALID_VALUE";
    case FAILED: return "CUBLAS_STATUS_EXECUTION_FAILED";
    case UNSUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
    default: return "CUBLAS_STATUS_INTERNAL_ERROR";
    }
}

#if WHICH == CUBLAS
typedef struct { U stream; int math, scalars_on_card, atomics, sms; } handle;
R cuMemcpy(U to, U from, size_t bytes);

API int cublasCreate_v2(handle **made) {
    if (!made) return INVALID;
    if (smemsim_start()) return UNINITIALIZED;
    smemsim_make_current();
    return (*made = calloc(1, sizeof **made)) ? SUCCESS : NO_MEMORY;
}
API int cublasDestroy_v2(handle *h) { free(h); return h ? SUCCESS : UNINITIALIZED; }
#define SETTER(name, type, field) API int cublasSet##name(handle *h, type value) { if (!h) return UNINITIALIZED; h->field = value; return SUCCESS; }
#define GETTER(name, type, field) API int cublasGet##name(handle *h, type *value) { if (!h) return UNINITIALIZED; if (!value) return INVALID; *value = h->field; return SUCCESS; }
SETTER(Stream_v2, U, stream)
GETTER(Stream_v2, U, stream)
SETTER(MathMode, int, math)
GETTER(MathMode, int, math)
SETTER(PointerMode_v2, int, scalars_on_card)
GETTER(PointerMode_v2, int, scalars_on_card)
SETTER(AtomicsMode, int, atomics)
GETTER(AtomicsMode, int, atomics)
SETTER(SmCountTarget, int, sms)
GETTER(SmCountTarget, int, sms)
API int cublasSetWorkspace_v2(handle *h, void *at, size_t bytes) { (void)at; (void)bytes; return h ? SUCCESS : UNINITIALIZED; }
API int cublasGetVersion_v2(handle *h, int *version) { (void)h; if (!version) return INVALID; *version = MAJOR * 10000 + 9900; return SUCCESS; }
API int cublasGetProperty(int which, int *value) { if (!value) return INVALID; *value = which == 0 ? MAJOR : which == 1 ? 99 : 0; return SUCCESS; }
API size_t cublasGetCudartVersion(void) { return MAJOR * 1000; }
API const char *cublasGetStatusString(int code) { return text_of(code); }
API const char *cublasGetStatusName(int code) { return text_of(code); }

static int plain(const char *name, handle *h, int64_t op_a, int64_t op_b, int64_t m, int64_t n, int64_t k, const void *alpha, matrix a, matrix b, const void *beta,
                 matrix c, int64_t batch, int64_t compute) {
    if (!h) return UNINITIALIZED;
    int64_t scale = compute == C64F || compute == C64F_PEDANTIC || compute == R64F ? R64F
                    : compute == C16F || compute == C16F_PEDANTIC || compute == R16F ? R16F
                    : compute == C32I || compute == C32I_PEDANTIC || compute == R32I ? R32I : R32F; /* older programs give a cudaDataType_t */
    product_call p = {op_a, op_b, m, n, k, batch, h->scalars_on_card, compute, scale, 1, 0, 0, 0, 0, a, b, c, c};
    return compute_product(name, &p, alpha, beta, h->stream);
}
#define GEMM(name, I, type, compute)                                                                                                          \
    API int cublas##name(handle *h, int ta, int tb, I m, I n, I k, const void *alpha, U a, I lda, U b, I ldb, const void *beta, U c, I ldc) {  \
        return plain("cublas" #name, h, ta, tb, m, n, k, alpha, (matrix){a, type, lda}, (matrix){b, type, ldb}, beta, (matrix){c, type, ldc}, 1, compute); \
    }
#define BATCHED(name, I, type, compute)                                                                                                       \
    API int cublas##name(handle *h, int ta, int tb, I m, I n, I k, const void *alpha, U a, I lda, long long sa, U b, I ldb, long long sb,      \
                         const void *beta, U c, I ldc, long long sc, I batch) {                                                               \
        return plain("cublas" #name, h, ta, tb, m, n, k, alpha, (matrix){a, type, lda, sa}, (matrix){b, type, ldb, sb}, beta,                  \
                     (matrix){c, type, ldc, sc}, batch, compute);                                                                             \
    }
GEMM(Sgemm_v2, int, R32F, C32F)
GEMM(Sgemm_v2_64, int64_t, R32F, C32F)
GEMM(Dgemm_v2, int, R64F, C64F)
GEMM(Dgemm_v2_64, int64_t, R64F, C64F)
GEMM(Hgemm, int, R16F, C16F)
GEMM(Hgemm_64, int64_t, R16F, C16F)
BATCHED(SgemmStridedBatched, int, R32F, C32F)
BATCHED(SgemmStridedBatched_64, int64_t, R32F, C32F)
BATCHED(DgemmStridedBatched, int, R64F, C64F)
BATCHED(DgemmStridedBatched_64, int64_t, R64F, C64F)
BATCHED(HgemmStridedBatched, int, R16F, C16F)
BATCHED(HgemmStridedBatched_64, int64_t, R16F, C16F)
#define EXTENDED(suffix, I)                                                                                                                    \
    API int cublasGemmEx##suffix(handle *h, int ta, int tb, I m, I n, I k, const void *alpha, U a, int at, I lda, U b, int bt, I ldb,           \
                                 const void *beta, U c, int ct, I ldc, int compute, int algorithm) {                                           \
        (void)algorithm;                                                                                                                      \
        return plain("cublasGemmEx" #suffix, h, ta, tb, m, n, k, alpha, (matrix){a, at, lda}, (matrix){b, bt, ldb}, beta, (matrix){c, ct, ldc}, 1, compute); \
    }                                                                                                                                         \
    API int cublasSgemmEx##suffix(handle *h, int ta, int tb, I m, I n, I k, const void *alpha, U a, int at, I lda, U b, int bt, I ldb,          \
                                  const void *beta, U c, int ct, I ldc) {                                                                     \
        return plain("cublasSgemmEx" #suffix, h, ta, tb, m, n, k, alpha, (matrix){a, at, lda}, (matrix){b, bt, ldb}, beta, (matrix){c, ct, ldc}, 1, C32F); \
    }                                                                                                                                         \
    API int cublasGemmStridedBatchedEx##suffix(handle *h, int ta, int tb, I m, I n, I k, const void *alpha, U a, int at, I lda, long long sa, U b, int bt, \
                                               I ldb, long long sb, const void *beta, U c, int ct, I ldc, long long sc, I batch, int compute, int algorithm) { \
        (void)algorithm;                                                                                                                      \
        return plain("cublasGemmStridedBatchedEx" #suffix, h, ta, tb, m, n, k, alpha, (matrix){a, at, lda, sa}, (matrix){b, bt, ldb, sb}, beta, \
                     (matrix){c, ct, ldc, sc}, batch, compute);                                                                               \
    }
EXTENDED(, int)
EXTENDED(_64, int64_t)
/* A matrix by a vector: a product of one column, if the vectors lie without gaps. */
#define GEMV(name, I, type, compute)                                                                                                          \
    API int cublas##name(handle *h, int op, I m, I n, const void *alpha, U a, I lda, U x, I incx, const void *beta, U y, I incy) {             \
        int64_t rows = op ? n : m, k = op ? m : n;                                                                                            \
        if (incx != 1 || incy != 1) return smemsim_not_there("cublas" #name " with gaps between the elements of a vector");                   \
        return plain("cublas" #name, h, op, 0, rows, 1, k, alpha, (matrix){a, type, lda}, (matrix){x, type, k}, beta, (matrix){y, type, rows}, 1, compute); \
    }
GEMV(Sgemv_v2, int, R32F, C32F)
GEMV(Sgemv_v2_64, int64_t, R32F, C32F)
GEMV(Dgemv_v2, int, R64F, C64F)
GEMV(Dgemv_v2_64, int64_t, R64F, C64F)

static int copied(U from, int64_t from_step, U to, int64_t to_step, int64_t size, int64_t count) {
    for (int64_t n = 0; n < count; n++) {
        R code = cuMemcpy(to + n * to_step, from + n * from_step, size);
        if (code) return status_of(code);
    }
    return SUCCESS;
}
#define VECTOR(name)                                                                                                                          \
    API int cublas##name(int n, int size, U from, int from_step, U to, int to_step) {                                                          \
        if (from_step == 1 && to_step == 1) return copied(from, 0, to, 0, (int64_t)n * size, 1);                                              \
        return copied(from, (int64_t)from_step * size, to, (int64_t)to_step * size, size, n);                                                 \
    }
VECTOR(SetVector)
VECTOR(GetVector)
#define MATRIX(name)                                                                                                                          \
    API int cublas##name(int rows, int columns, int size, U from, int from_ld, U to, int to_ld) {                                              \
        return copied(from, (int64_t)from_ld * size, to, (int64_t)to_ld * size, (int64_t)rows * size, columns);                               \
    }
MATRIX(SetMatrix)
MATRIX(GetMatrix)

#else
/* The opaque structures of cublasLt.h are larger than these, so that programs may have them as their own variables. */
typedef struct { int32_t type, order, batch, mode; uint64_t rows, columns; int64_t ld, stride; } layout;
typedef struct { int32_t compute, scale, scalars_on_card, op_a, op_b, op_c, epilogue, bias_type; U bias, scale_a, scale_b; int32_t others, pad; } description;
typedef struct { U algorithm[8]; size_t workspace; int state; float waves; int reserved[4]; } heuristic; /* cublasLtMatmulHeuristicResult_t */
enum { EPILOGUE_NONE = 1, EPILOGUE_BIAS = 4 };
static char the_handle;

API int cublasLtCreate(void **made) {
    if (!made) return INVALID;
    if (smemsim_start()) return UNINITIALIZED;
    smemsim_make_current();
    *made = &the_handle;
    return SUCCESS;
}
API int cublasLtDestroy(void *h) { (void)h; return SUCCESS; }
API size_t cublasLtGetVersion(void) { return MAJOR * 10000 + 9900; }
API size_t cublasLtGetCudartVersion(void) { return MAJOR * 1000; }
API int cublasLtGetProperty(int which, int *value) { if (!value) return INVALID; *value = which == 0 ? MAJOR : which == 1 ? 99 : 0; return SUCCESS; }
API const char *cublasLtGetStatusString(int code) { return text_of(code); }
API const char *cublasLtGetStatusName(int code) { return text_of(code); }
API int cublasLtLoggerSetLevel(int level) { (void)level; return SUCCESS; }
API int cublasLtLoggerSetMask(int mask) { (void)mask; return SUCCESS; }
API int cublasLtLoggerForceDisable(void) { return SUCCESS; }

API int cublasLtMatrixLayoutInit_internal(layout *l, size_t size, int type, uint64_t rows, uint64_t columns, int64_t ld) {
    if (!l || size < sizeof *l) return INVALID;
    *l = (layout){type, 0, 1, 0, rows, columns, ld, 0};
    return SUCCESS;
}
API int cublasLtMatrixLayoutCreate(layout **made, int type, uint64_t rows, uint64_t columns, int64_t ld) {
    if (!made) return INVALID;
    return (*made = malloc(sizeof **made)) ? cublasLtMatrixLayoutInit_internal(*made, sizeof **made, type, rows, columns, ld) : NO_MEMORY;
}
API int cublasLtMatrixLayoutDestroy(layout *l) { free(l); return SUCCESS; }
API int cublasLtMatmulDescInit_internal(description *d, size_t size, int compute, int scale) {
    if (!d || size < sizeof *d) return INVALID;
    *d = (description){compute, scale, 0, 0, 0, 0, EPILOGUE_NONE, -1};
    return SUCCESS;
}
API int cublasLtMatmulDescCreate(description **made, int compute, int scale) {
    if (!made) return INVALID;
    return (*made = malloc(sizeof **made)) ? cublasLtMatmulDescInit_internal(*made, sizeof **made, compute, scale) : NO_MEMORY;
}
API int cublasLtMatmulDescDestroy(description *d) { free(d); return SUCCESS; }

typedef struct { void *at; size_t size; } place;
static place of_layout(layout *l, int which) {
    switch (which) {
    case 0: return (place){&l->type, 4};
    case 1: return (place){&l->order, 4};
    case 2: return (place){&l->rows, 8};
    case 3: return (place){&l->columns, 8};
    case 4: return (place){&l->ld, 8};
    case 5: return (place){&l->batch, 4};
    case 6: return (place){&l->stride, 8};
    default: return (place){0, 0};
    }
}
static place of_description(description *d, int which) {
    switch (which) {
    case 0: return (place){&d->compute, 4};
    case 1: return (place){&d->scale, 4};
    case 2: return (place){&d->scalars_on_card, 4};
    case 3: return (place){&d->op_a, 4};
    case 4: return (place){&d->op_b, 4};
    case 5: return (place){&d->op_c, 4};
    case 7: return (place){&d->epilogue, 4};
    case 8: return (place){&d->bias, 8};
    case 17: return (place){&d->scale_a, 8};
    case 18: return (place){&d->scale_b, 8};
    case 26: return (place){&d->bias_type, 4};
    default: return (place){0, 0};
    }
}
static int is_harmless(int which) { return which == 6 || which == 15 || which == 25; } /* fill mode, number of SMs, fast accumulation */
static int put(place p, const void *from, size_t size, const char *what) {
    if (!p.at) return smemsim_not_there(what);
    if (!from || size < p.size) return INVALID;
    memcpy(p.at, from, p.size);
    return SUCCESS;
}
static int get(place p, void *to, size_t size, size_t *written) {
    if (!p.at) return UNSUPPORTED;
    if (written) *written = p.size;
    if (!to && !size && written) return SUCCESS;
    if (!to || size < p.size) return INVALID;
    memcpy(to, p.at, p.size);
    return SUCCESS;
}
API int cublasLtMatrixLayoutSetAttribute(layout *l, int which, const void *from, size_t size) {
    return l ? put(of_layout(l, which), from, size, "an attribute of cublasLtMatrixLayoutSetAttribute") : INVALID;
}
API int cublasLtMatrixLayoutGetAttribute(layout *l, int which, void *to, size_t size, size_t *written) { return l ? get(of_layout(l, which), to, size, written) : INVALID; }
API int cublasLtMatmulDescSetAttribute(description *d, int which, const void *from, size_t size) {
    if (!d) return INVALID;
    if (is_harmless(which)) return SUCCESS;
    int code = put(of_description(d, which), from, size, "an attribute of cublasLtMatmulDescSetAttribute");
    d->others |= code == UNSUPPORTED; /* the product is not what was asked for */
    return code;
}
API int cublasLtMatmulDescGetAttribute(description *d, int which, void *to, size_t size, size_t *written) { return d ? get(of_description(d, which), to, size, written) : INVALID; }
API int cublasLtMatmulPreferenceInit_internal(void *p, size_t size) { if (!p) return INVALID; memset(p, 0, size); return SUCCESS; }
API int cublasLtMatmulPreferenceCreate(void **made) { if (!made) return INVALID; return (*made = calloc(1, 128)) ? SUCCESS : NO_MEMORY; }
API int cublasLtMatmulPreferenceDestroy(void *p) { free(p); return SUCCESS; }
API int cublasLtMatmulPreferenceSetAttribute(void *p, int which, const void *from, size_t size) { (void)which; (void)size; return p && from ? SUCCESS : INVALID; }

static const char *why_not(const description *d) {
    if (d->epilogue != EPILOGUE_NONE && d->epilogue != EPILOGUE_BIAS) return "cublasLtMatmul with an epilogue other than none and bias";
    if (d->op_c || d->others) return "cublasLtMatmul with such attributes";
    if (d->scalars_on_card > 1) return "cublasLtMatmul with vectors of alpha and beta";
    return 0;
}
API int cublasLtMatmulAlgoGetHeuristic(void *h, const description *d, const layout *a, const layout *b, const layout *c, const layout *e, void *preference,
                                       int wanted, heuristic *found, int *count) {
    (void)h; (void)preference;
    if (!d || !a || !b || !c || !e || !found || !count || wanted < 1) return INVALID;
    *count = 0;
    if (why_not(d)) return smemsim_not_there(why_not(d));
    memset(found, 0, sizeof *found);
    found->waves = 1;
    *count = 1;
    return SUCCESS;
}
API int cublasLtMatmulAlgoCheck(void *h, const description *d, const layout *a, const layout *b, const layout *c, const layout *e, const void *algorithm, heuristic *found) {
    int count;
    (void)algorithm;
    return cublasLtMatmulAlgoGetHeuristic(h, d, a, b, c, e, 0, 1, found, &count);
}
API int cublasLtMatmul(void *h, const description *d, const void *alpha, U a, const layout *la, U b, const layout *lb, const void *beta, U c, const layout *lc, U e,
                       const layout *le, const void *algorithm, void *workspace, size_t bytes, U stream) {
    (void)algorithm; (void)workspace; (void)bytes;
    if (!h) return UNINITIALIZED;
    if (!d || !la || !lb || !lc || !le) return INVALID;
    if (why_not(d)) return smemsim_not_there(why_not(d));
    int64_t bias_type = d->bias_type >= 0 ? d->bias_type : le->type;
    product_call p = {d->op_a, d->op_b, le->rows, le->columns, d->op_a ? la->rows : la->columns, le->batch, d->scalars_on_card, d->compute, d->scale, d->epilogue,
                      d->epilogue == EPILOGUE_BIAS ? d->bias : 0, bias_type, d->scale_a, d->scale_b,
                      {a, la->type, la->ld, la->stride, la->order}, {b, lb->type, lb->ld, lb->stride, lb->order},
                      {c, lc->type, lc->ld, lc->stride, lc->order}, {e, le->type, le->ld, le->stride, le->order}};
    return compute_product("cublasLtMatmul", &p, alpha, beta, stream);
}
#endif
