/* NVRTC and nvJitLink leave PTX in the cubins that they make when they are asked for line information: so they are asked, whoever calls them and
   however the call was found. The dynamic linker tells of every binding (LD_AUDIT, rtld-audit(7)); two functions are bound to those here, which
   add an option and call the library's own. It asks where libraries are, too: the driver is this one wherever a program believes it, and driver and runtime
   by their names are found without LD_LIBRARY_PATH. Nothing else is touched. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define API __attribute__((visibility("default")))
typedef int (*compile_call)(void *, int, const char *const *);
typedef int (*link_call)(void **, uint32_t, const char **);
static compile_call compile;
static link_call create;

static int has(int count, const char *const *options, const char *const *wanted) {
    for (int n = 0; n < count; n++)
        for (const char *const *w = wanted; *w; w++)
            if (options[n] && !strncmp(options[n], *w, strlen(*w))) return 1;
    return 0;
}
static int compile_with_lines(void *program, int count, const char *const *options) {
    static const char *const enough[] = {"-lineinfo", "--generate-line-info", "-G", "--device-debug", "-dlto", "--dlink-time-opt", 0};
    const char **more = has(count, options, enough) ? 0 : malloc((count + 1) * sizeof *more);
    if (!more) return compile(program, count, options);
    for (int n = 0; n < count; n++) more[n] = options[n];
    more[count] = "-lineinfo";
    int result = compile(program, count + 1, more);
    free(more);
    return result;
}
static int create_with_lines(void **handle, uint32_t count, const char **options) {
    static const char *const enough[] = {"-lineinfo", "-g", "-ptx", 0};
    const char **more = has((int)count, options, enough) ? 0 : malloc((count + 1) * sizeof *more);
    if (!more) return create(handle, count, options);
    for (uint32_t n = 0; n < count; n++) more[n] = options[n];
    more[count] = "-lineinfo";
    int result = create(handle, count + 1, more);
    free(more);
    return result;
}

API unsigned la_version(unsigned version) { return version < LAV_CURRENT ? version : LAV_CURRENT; }
static const char *base_of(const char *name) {
    const char *last = strrchr(name, '/');
    return last ? last + 1 : name;
}
API char *la_objsearch(const char *name, uintptr_t *cookie, unsigned when) {
    static char found[PATH_MAX];
    const char *base = base_of(name);
    int is_driver = !strcmp(base, "libcuda.so.1") || !strcmp(base, "libcuda.so");
    int is_runtime = base == name && (!strcmp(name, "libcudart.so.12") || !strcmp(name, "libcudart.so.13"));
    Dl_info own;
    (void)cookie;
    if (when != LA_SER_ORIG || !(is_driver || is_runtime) || !dladdr((void *)la_objsearch, &own) || !own.dli_fname) return (char *)name;
    int folder = base_of(own.dli_fname) - own.dli_fname, size = snprintf(found, sizeof found, "%.*s%s", folder, own.dli_fname, base);
    return size < (int)sizeof found ? found : (char *)name;
}
API unsigned la_objopen(struct link_map *map, Lmid_t space, uintptr_t *cookie) {
    (void)space, (void)cookie;
    const char *name = base_of(map->l_name ? map->l_name : "");
    int is_ours = (!strncmp(name, "libnvrtc.so", 11) || !strncmp(name, "libnvJitLink.so", 15));
    return LA_FLG_BINDFROM | (is_ours ? LA_FLG_BINDTO : 0);
}
static uintptr_t bound(uintptr_t at, const char *name) {
    if (!strcmp(name, "nvrtcCompileProgram")) return compile = (compile_call)at, (uintptr_t)compile_with_lines;
    if (!strncmp(name, "__nvJitLinkCreate", 17) || !strcmp(name, "nvJitLinkCreate")) return create = (link_call)at, (uintptr_t)create_with_lines;
    return at;
}
API uintptr_t la_symbind64(Elf64_Sym *symbol, unsigned index, uintptr_t *from, uintptr_t *to, unsigned *flags, const char *name) {
    (void)index, (void)from, (void)to, (void)flags;
    return bound(symbol->st_value, name);
}
/* For Python, in a process that was started without LD_AUDIT (`line_info.py`). */
API void *smemsim_dlsym(void *library, const char *name) {
    void *at = dlsym(library, name);
    return at ? (void *)bound((uintptr_t)at, name) : at;
}
