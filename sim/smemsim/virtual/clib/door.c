/* The connection to the process that has the device: calls, shared memory, forks. */
#define _GNU_SOURCE
#include "door.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static int channel = -1, is_forked, is_tried, why;
static U device_base, range_bytes;
static char *device_here; /* where this process touches device memory: its own addresses fault, as on hardware */
static __thread char *buffer;
static __thread size_t used, room;
/* Where this process has the device itself (Python programs with torch): what answers a message, in place of the other process. */
static const char *(*answer)(const char *message, size_t size);
static int is_over;

API void smemsim_tell(const char *text, ...) {
    char line[2048];
    va_list list;
    va_start(list, text);
    vsnprintf(line, sizeof line, text, list);
    va_end(list);
    dprintf(2, "smemsim: %s\n", line);
}

API void *smemsim_here(U address) {
    if (address - device_base < range_bytes && device_here) return device_here + (address - device_base);
    return (void *)address;
}

/* A message */

static void put(const void *data, size_t size) {
    if (used + size > room) {
        room = (used + size) * 2 + 4096;
        buffer = realloc(buffer, room);
    }
    memcpy(buffer + used, data, size);
    used += size;
}

static int send_all(const char *data, size_t size) {
    while (size) {
        ssize_t n = send(channel, data, size, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return -1;
        data += n, size -= n;
    }
    return 0;
}

static ssize_t receive_some(char *to, size_t most) {
    ssize_t n;
    do n = recv(channel, to, most, 0);
    while (n < 0 && errno == EINTR);
    return n;
}

/* A reply without its length: in `near`, or in memory of its own where that is too small. Nothing comes behind it, since this side speaks next. */
static char *receive(char *near, size_t room) {
    size_t have = 0;
    uint32_t size;
    while (have < sizeof size) {
        ssize_t n = receive_some(near + have, room - have);
        if (n <= 0) return 0;
        have += n;
    }
    memcpy(&size, near, sizeof size);
    if (have - sizeof size > size) return 0;
    char *to = near;
    if (size + sizeof size > room) {
        if (!(to = malloc(size + sizeof size))) return 0;
        memcpy(to, near, have);
    }
    while (have < size + sizeof size) {
        ssize_t n = receive_some(to + have, size + sizeof size - have);
        if (n <= 0) { if (to != near) free(to); return 0; }
        have += n;
    }
    return to;
}

static int is_settled; /* of the last reply: a call that synchronises the device would succeed, and change nothing but that launches are over */
static int has_synchronised; /* such a call since the last launch, which the server has not got: what was launched is over */

static int connected(const char *ending) { /* a socket of the process that makes devices (`telling.py`, `sessions.py`); -1 where it does not answer */
    const char *name = getenv("SMEMSIM_SOCKET");
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    size_t length = strlen(name), more = strlen(ending);
    if (length + more + 1 > sizeof at.sun_path) return errno = ENAMETOOLONG, -1;
    memcpy(at.sun_path + 1, name, length), memcpy(at.sun_path + 1 + length, ending, more);
    int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (s < 0 || !connect(s, (struct sockaddr *)&at, offsetof(struct sockaddr_un, sun_path) + 1 + length + more)) return s;
    int error = errno;
    close(s), errno = error;
    return -1;
}

static int receive_whole(int s, void *to, size_t bytes, int *file);

/* A line in the journal (`telling.py`): this process has no device any more. The device cannot say so, since it sees no more than that its program is gone. */
static void note_lost(void) {
    char line[512], last;
    int file, s = getenv("SMEMSIM_SOCKET") ? connected("-launches") : -1;
    if (s < 0) return;
    int size = snprintf(line, sizeof line, "\n{\"who\": \"%d lost\", \"not_simulated\": \"process %d has lost its connection to the device; its calls after that failed with error 999\"}\n", (int)getpid(), (int)getpid());
    if (receive_whole(s, &last, 1, &file)) {
        ssize_t written = write(file, line, size);
        (void)written, close(file);
    }
    close(s);
}

static int lost(void) {
    if (channel >= 0) smemsim_tell("the process that has the device has ended, or this one has closed its connection"), note_lost(), close(channel);
    channel = -1, why = UNKNOWN, is_settled = 0;
    return UNKNOWN;
}

API void smemsim_answer_here(const char *(*how)(const char *, size_t)) {
    if (how && channel >= 0) return; /* this process has a device elsewhere already */
    is_over = answer && !how;        /* the interpreter ends, and destructors still come */
    answer = how;
}

/* What the server asks this process to do: copies of its memory, calls of its functions, its output. */
static void act(const char *at, uint32_t count) {
    while (count--) {
        unsigned char kind = *at++;
        U a[3];
        memcpy(a, at, sizeof a);
        at += sizeof a;
        if (kind == 1) memmove(smemsim_here(a[0]), smemsim_here(a[1]), a[2]);
        if (kind == 2) ((void (*)(void *))a[0])((void *)a[1]);
        if (kind == 3) fwrite(at, 1, a[0], a[1] ? stderr : stdout), fflush(a[1] ? stderr : stdout), at += a[0];
        if (kind == 4) ((void (*)(void *, int, void *))a[0])((void *)a[1], 0, (void *)a[2]);
    }
}

/* The error of a reply, and its results where the caller wants them; `format` is at the bar, or at its end. */
static R take(const char *reply, const char *format, va_list list) {
    R error;
    uint32_t bytes, size;
    memcpy(&error, reply + 1, 4), memcpy(&bytes, reply + 9, 4);
    const char *at = reply + 13 + bytes;
    for (format += *format == '|'; !error && *format; format++) {
        if (*format == 'I') {
            U *to = va_arg(list, U *);
            if (to) memcpy(to, at, 8);
            at += 8;
        } else {
            char *to = va_arg(list, char *);
            size_t most = va_arg(list, size_t);
            memcpy(&size, at, 4), at += 4;
            if (to) memcpy(to, at, size < most ? size : most);
            at += size;
        }
    }
    return error;
}

API int smemsim_is_over(void) { return is_over; }

/* Of what is given back when the device is gone, nothing is left: the driver takes it as long as the process lives. */
static int gives_back(const char *op) {
    static const char *const all[] = {"free", "free_async", "unload", "unregister", "stream_destroy", "event_destroy", "graph_destroy", "node_destroy",
                                      "pool_destroy", "physical_release", "range_free", "range_unmap", "user_object_release", "graph_let_go", "synchronize",
                                      "event_synchronize"};
    for (unsigned n = 0; n < sizeof all / sizeof *all; n++) if (!strcmp(op, all[n])) return 1;
    return 0;
}

/* Is there a text and are there bytes wherever `format` has them, and no more than a message holds? A count that goes far beyond its array is found. */
static int is_whole(const char *format, va_list list) {
    va_list own;
    va_copy(own, list);
    int whole = 1;
    for (; *format && *format != '|'; format++) {
        if (*format == 'i') { (void)va_arg(own, U); continue; }
        const void *data = va_arg(own, const void *);
        size_t size = *format == 'b' ? va_arg(own, size_t) : 1;
        if ((!data && size) || size >> 31 || (size > 1 << 16 && !smemsim_is_mapped((U)data, size))) whole = 0;
    }
    va_end(own);
    return whole;
}

/* A message: its length; the length of a head, which is `op`, a zero and the kinds of its arguments; a word for each argument, the number itself or a count of
   bytes; these bytes. */
static void write_message(const char *op, const char *format, va_list list) {
    va_list again;
    va_copy(again, list);
    uint32_t total = 0;
    size_t kinds = strcspn(format, "|"), length = strlen(op);
    unsigned char head = length + 1 + kinds;
    used = 0;
    put(&total, 4), put(&head, 1), put(op, length + 1), put(format, kinds);
    for (const char *kind = format; kind < format + kinds; kind++) {
        U word = 0;
        if (*kind == 'i') word = va_arg(list, U);
        if (*kind == 's') word = strlen(va_arg(list, const char *));
        if (*kind == 'b') (void)va_arg(list, const void *), word = va_arg(list, size_t);
        put(&word, 8);
    }
    for (const char *kind = format; kind < format + kinds; kind++) {
        if (*kind == 'i') (void)va_arg(again, U);
        if (*kind == 's') { const char *text = va_arg(again, const char *); put(text, strlen(text)); }
        if (*kind == 'b') { const void *data = va_arg(again, const void *); put(data, va_arg(again, size_t)); }
    }
    va_end(again);
    total = used - 4;
    memcpy(buffer, &total, 4);
}

static __thread int is_asked; /* this thread runs a function of the program for the server, which waits for it */

static void act_on(const char *reply) {
    uint32_t actions;
    memcpy(&actions, reply + 5, 4);
    act(reply + 13, actions);
}

/* Send what is written, and do what the server asks for until its last reply, which is what comes back; 0 where the server is gone. */
static char *exchange(char *near, size_t room) {
    is_settled = 0;
    if (send_all(buffer, used)) return 0;
    for (;;) {
        char *reply = receive(near, room);
        if (!reply) return 0;
        if (reply[4] & 1) {
            is_settled = reply[4] >> 1;
            return reply;
        }
        is_asked = 1, act_on(reply + 4), is_asked = 0;
        if (reply != near) free(reply);
        if (send_all("\0\0\0\0", 4)) return 0;
    }
}

API R smemsim_call(const char *op, const char *format, ...) {
    R error = is_over && gives_back(op) ? 0 : smemsim_start();
    if (is_over) return error;
    if (error) return error;
    if (is_asked) return NOT_PERMITTED; /* as in CUDA */
    int is_here = answer != 0;
    va_list list, results;
    va_start(list, format);
    va_start(results, format);
    int whole = is_whole(format, list);
    if (whole) write_message(op, format, list);
    for (; *format && *format != '|'; format++) { /* what comes back stands behind what is given */
        if (*format == 'i') (void)va_arg(results, U);
        if (*format != 'i') (void)va_arg(results, const void *);
        if (*format == 'b') (void)va_arg(results, size_t);
    }
    if (!whole) error = INVALID_VALUE;
    else if (is_here) { /* without a lock: it may wait for the interpreter's own one */
        const char *reply = answer(buffer + 4, used - 4);
        error = reply ? take(reply, format, results) : UNKNOWN;
    } else {
        char near[2048];
        pthread_mutex_lock(&lock);
        char *reply = channel < 0 ? 0 : exchange(near, sizeof near);
        if (!reply) error = lost();
        pthread_mutex_unlock(&lock);
        if (reply) { /* functions of the program may wait for its other threads */
            act_on(reply + 4);
            error = take(reply + 4, format, results);
            if (reply != near) free(reply);
        }
    }
    va_end(list);
    va_end(results);
    return error;
}

/* Who waits for a mutex keeps the interpreter's own lock, if he has it: there, Python's lock of the device is the one. */
API int smemsim_enter(void) {
    int is_here = answer != 0;
    if (is_here) smemsim_call("enter", "");
    else pthread_mutex_lock(&lock);
    return is_here;
}
API void smemsim_leave(int is_here) {
    if (is_here) smemsim_call("leave", "");
    else pthread_mutex_unlock(&lock);
}

API int smemsim_is_card(const char *bus_id) {
    unsigned own[3], told[3];
    sscanf(BUS_ID, "%x:%x:%x", own, own + 1, own + 2);
    int count = bus_id ? sscanf(bus_id, "%x:%x:%x", told, told + 1, told + 2) : 0;
    return count >= 2 && !memcmp(told, own + 3 - count, count * sizeof *own);
}

/* Is there memory at all pages of a range? */
API int smemsim_is_mapped(U address, size_t bytes) {
    unsigned char seen[4096];
    U page = sysconf(_SC_PAGESIZE), most = page * sizeof seen, end = address + bytes;
    if (!bytes || end < address) return 0;
    for (U at = address / page * page; at < end; at += most)
        if (mincore((void *)at, end - at < most ? end - at : most, seen)) return 0;
    return 1;
}

API R smemsim_card_name(char *name, size_t room) {
    char text[256] = "";
    R error = smemsim_call("device_name", "|B", text, sizeof text - 1);
    if (!error) snprintf(name, room, "%s", text);
    return error;
}

/* Nothing is sent where the last reply has said that everything is over and well. */
API R smemsim_synchronize(U stream) {
    if (!is_settled || stream >= OWN_STREAMS) return smemsim_call("synchronize", "i", stream);
    has_synchronised = 1;
    return 0;
}

/* The connection */

static void in_child(void) {
    if (channel >= 0) close(channel), is_forked = 1;
    channel = -1, is_settled = has_synchronised = 0;
    pthread_mutex_t fresh = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
    lock = fresh;
}

/* The first of so many places for `bytes`, one behind the other, at which this process has nothing: it is taken, and faults when it is touched. 0 where there is none. */
static U reserve(U base, U bytes, U places) {
    for (U at = base; at < base + places * bytes; at += bytes) {
        void *found = mmap((void *)at, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
        if (found == (void *)at) return at;
        if (found != MAP_FAILED) munmap(found, bytes);
    }
    return 0;
}

static int receive_whole(int s, void *to, size_t bytes, int *file) {
    char control[CMSG_SPACE(sizeof(int))];
    struct iovec part = {to, bytes};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    ssize_t n;
    do n = recvmsg(s, &message, MSG_WAITALL | MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n != (ssize_t)bytes) return 0;
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    if (file) memcpy(file, head && head->cmsg_type == SCM_RIGHTS ? CMSG_DATA(head) : (void *)&(int){-1}, sizeof *file);
    return !file || *file >= 0;
}

/* Where device memory and the host's lie is what this process chooses; the server has the file. */
static R share(int s) {
    U hello[4]; /* device base, host base, bytes of each, places */
    int file;
    if (!receive_whole(s, hello, sizeof hello, 0)) {
        smemsim_tell("the process that has the device ended before it answered");
        return NO_DEVICE;
    }
    U bytes = hello[2], bases[2] = {reserve(hello[0], bytes, hello[3]), reserve(hello[1], bytes, hello[3])};
    if (!bases[0] || !bases[1]) {
        smemsim_tell("no room for the device's addresses in this process; is there a limit of virtual memory (ulimit -v)?");
        return UNKNOWN;
    }
    char last;
    if (send(s, bases, sizeof bases, MSG_NOSIGNAL) != sizeof bases || !receive_whole(s, &last, 1, &file)) {
        smemsim_tell("the process that has the device ended before it answered");
        return NO_DEVICE;
    }
    device_base = bases[0], range_bytes = bytes;
    device_here = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
    void *host = mmap((void *)bases[1], bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, file, bytes);
    close(file);
    if (device_here == MAP_FAILED || host == MAP_FAILED) {
        smemsim_tell("no room for the device's memory in this process: %s", strerror(errno));
        return UNKNOWN;
    }
    madvise(device_here, bytes, MADV_DONTFORK);
    return 0;
}

static R connect_now(void) {
    const char *name = getenv("SMEMSIM_SOCKET"), *visible = getenv("CUDA_VISIBLE_DEVICES");
    if (!name || !*name) {
        smemsim_tell("this is smemsim's libcuda, and no device is behind it: start the program with smemsim exec --arch sm_90a -- PROGRAM");
        return NO_DEVICE;
    }
    if (visible && (!*visible || *visible == '-')) {
        smemsim_tell("CUDA_VISIBLE_DEVICES=%s takes the card away from the program: unset it", visible);
        return NO_DEVICE;
    }
    int s = connected("");
    if (s < 0) {
        smemsim_tell("the process that has the device does not answer: %s", strerror(errno));
        return NO_DEVICE;
    }
    R error = share(s);
    if (error) close(s);
    else channel = s;
    return error;
}

API R smemsim_start(void) {
    if (answer) return 0;
    if (is_over) return DEINITIALIZED;
    if (channel >= 0) return 0;
    if (is_forked) return NOT_INITIALIZED; /* as in CUDA: a context does not outlive a fork */
    pthread_mutex_lock(&lock);
    if (channel < 0 && !is_tried) {
        is_tried = 1;
        pthread_atfork(0, 0, in_child);
        why = connect_now();
    }
    pthread_mutex_unlock(&lock);
    return channel >= 0 ? 0 : why;
}

/* The context works again, whatever trapped: where this process has one at all. */
API void smemsim_renew(void) {
    if (channel >= 0 && !answer) smemsim_call("renew", "");
}

/* Names */

API const char *smemsim_caller(void *address, char *text, size_t room) {
    Dl_info info;
    if (!dladdr(address, &info) || !info.dli_fname) return "";
    snprintf(text, room, "%s+0x%zx", info.dli_fname, (size_t)((char *)address - (char *)info.dli_fbase));
    return text;
}

static const char *named[512];
static unsigned named_count;

API R smemsim_unknown(const char *name) { return smemsim_unknown_as(name, "801 (not supported)"); }
API R smemsim_unknown_as(const char *name, const char *answer) {
    pthread_mutex_lock(&lock);
    unsigned n = 0;
    while (n < named_count && strcmp(named[n], name)) n++;
    if (n == named_count && n < 512) {
        named[named_count++] = name;
        smemsim_tell("%s is not there in the virtual GPU; it answers %s", name, answer);
    }
    pthread_mutex_unlock(&lock);
    return NOT_SUPPORTED;
}

/* Launches: parameters from pointers to them, or as one buffer; attributes as the launch structures of driver and runtime have them */

#define KNOWN 4096
static smemsim_layout *layouts[KNOWN];

API R smemsim_layout_of(U function, smemsim_layout *out) {
    unsigned slot = function / 16 % KNOWN;
    smemsim_layout *found = __atomic_load_n(&layouts[slot], __ATOMIC_ACQUIRE);
    if (!found || found->function != function) {
        U count = 0, bytes = 0;
        uint32_t places[2 * 4096];
        R error = smemsim_call("function_layout", "i|IIB", function, &count, &bytes, places, sizeof places);
        if (error) return error;
        uint32_t *own = malloc(count * 8 + 8);
        memcpy(own, places, count * 8);
        found = malloc(sizeof *found);
        *found = (smemsim_layout){function, count, own, bytes};
        __atomic_store_n(&layouts[slot], found, __ATOMIC_RELEASE); /* an older one stays: somebody may be reading it */
    }
    *out = *found;
    return 0;
}

typedef struct { uint32_t id, pad; union { uint32_t numbers[16]; U words[8]; } value; } attribute;

API R smemsim_launch(U function, const unsigned *grid, const unsigned *block, unsigned shared, U stream, void **arguments, void **extra,
                     const void *attributes, unsigned count) {
    smemsim_layout layout;
    R error = smemsim_layout_of(function, &layout);
    if (error) return error;
    U cluster[3] = {0, 0, 0}, cooperative = 0, dependent = 0;
    const attribute *given = attributes;
    if (count && (!given || (count > 64 && !smemsim_is_mapped((U)given, product(count, sizeof *given))))) return INVALID_VALUE;
    for (unsigned n = 0; n < count; n++) {
        if (given[n].id == 4) for (int k = 0; k < 3; k++) cluster[k] = given[n].value.numbers[k];
        if (given[n].id == 2) cooperative = given[n].value.numbers[0];
        if (given[n].id == 6) dependent = given[n].value.numbers[0]; /* programmatic stream serialization */
    }
    unsigned bytes = layout.bytes;
    char *bank = calloc(1, bytes + 8);
    if (arguments) {
        for (unsigned n = 0; n < layout.count; n++)
            if (!arguments[n]) return free(bank), INVALID_VALUE;
            else memcpy(bank + layout.places[2 * n], arguments[n], layout.places[2 * n + 1]);
    } else if (extra) {
        const void *from = 0;
        size_t size = 0;
        for (; *extra; extra += 2) {
            if (extra[0] == (void *)1) from = extra[1];
            if (extra[0] == (void *)2) size = *(size_t *)extra[1];
        }
        if (from) memcpy(bank, from, size < bytes ? size : bytes);
    } else if (layout.count) {
        free(bank);
        return INVALID_VALUE;
    }
    U begins = (dependent != 0) | (U)has_synchronised << 1;
    has_synchronised = 0;
    error = smemsim_call("launch", "iiiiiiiiiiiiiib", function, (U)grid[0], (U)grid[1], (U)grid[2], (U)block[0], (U)block[1], (U)block[2],
                         cluster[0], cluster[1], cluster[2], (U)shared, stream, cooperative, begins, bank, (size_t)bytes);
    free(bank);
    return error;
}
