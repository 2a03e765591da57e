/* The C side of the virtual GPU: what libcuda and libcudart share. It marshals calls to the process that has the device, and decides nothing. */
#ifndef SMEMSIM_DOOR_H
#define SMEMSIM_DOOR_H
#include <stddef.h>
#include <stdint.h>

#define API __attribute__((visibility("default")))
typedef int R;      /* CUresult, cudaError_t */
typedef uint64_t U; /* a handle, an address or a number */

/* Call `op` of the server. `format` names the arguments: i a number, s a text, b bytes (pointer, size_t); behind a bar what comes back:
   I a number (U *, may be null), B bytes (pointer, size_t room). Returns the error code. */
API R smemsim_call(const char *op, const char *format, ...);
/* Around what is made once: the number is for `smemsim_leave`. */
API int smemsim_enter(void);
API void smemsim_leave(int how);
API R smemsim_synchronize(U stream);
API void *smemsim_here(U address);            /* where the host can touch an address: device memory lies elsewhere here */
API int smemsim_is_card(const char *bus_id);   /* with or without its domain and its function */
/* Bytes of memory; 0 for what is more than a number holds. */
static inline size_t product(size_t a, size_t b) { size_t all; return __builtin_mul_overflow(a, b, &all) ? 0 : all; }
static inline size_t pitch_of(size_t width) { return width > SIZE_MAX - 511 ? 0 : (width + 511) / 512 * 512; }
static inline int is_within(size_t begin, size_t count, size_t size) { return count <= size && begin <= size - count; }
API R smemsim_card_name(char *name, size_t room);
API R smemsim_start(void);                    /* 0, or why there is no device */
API int smemsim_is_over(void);                /* the device of this process is gone, and what it had may still be given back */
API void smemsim_tell(const char *text, ...); /* a sentence on stderr */
API const char *smemsim_caller(void *address, char *text, size_t room);
API U smemsim_context(void); /* the current context of this thread, 0 without one */
API void smemsim_make_current(void);
API R smemsim_reset(void);
API unsigned smemsim_resets(void); /* so far */
API int smemsim_is_mapped(U address, size_t bytes);
API void *smemsim_symbol(const char *name); /* of the driver's entry points */
API R smemsim_unknown(const char *name);    /* an entry point that is not there: named once, 801 */
API R smemsim_unknown_as(const char *name, const char *answer); /* the same of another library, with what it answers in words */

typedef struct {
    U function;
    unsigned count;
    const uint32_t *places; /* offset and size of each parameter, in the parameter bank */
    unsigned bytes;         /* of the bank */
} smemsim_layout;
API R smemsim_layout_of(U function, smemsim_layout *out);
API R smemsim_launch(U function, const unsigned *grid, const unsigned *block, unsigned shared, U stream, void **arguments, void **extra,
                     const void *attributes, unsigned count);

typedef struct { int number; const char *driver, *runtime, *text; } smemsim_error;
API const smemsim_error *smemsim_error_of(int number);

#define BUS_ID "0000:00:06.0" /* as the attributes pci_domain_id, pci_bus_id and pci_device_id say (spec/cards.py) */
#define OWN_STREAMS 3 /* 0, and what cuda.h calls the legacy and the per-thread stream, are no handles of streams that a program made */
#define NOT_INITIALIZED 3
#define DEINITIALIZED 4
#define NO_DEVICE 100
#define INVALID_CONTEXT 201
#define DESTROYED 709
#define INVALID_VALUE 1
#define NOT_FOUND 500
#define NOT_PERMITTED 800
#define NOT_SUPPORTED 801
#define UNKNOWN 999
#endif
