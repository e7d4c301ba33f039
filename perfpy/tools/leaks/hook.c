/* The allocator hook of `perfpy leaks COMMAND`: a library that is loaded into the command (LD_PRELOAD).
 *
 * It stands before malloc, free and mmap, and adds up for each stack what is held now, what was held when the process held most, and
 * what was allocated in all. The sums are in a file that perfpy reads after the end, so that a killed process has them, too.
 *
 * The sums of the highest moment cost nothing at each new maximum: a stack stores its sums when it changes for the first time after
 * one (`epoch`). Stacks that have not changed since are still at their highest moment.
 *
 * CPython's objects of up to 512 bytes lie in arenas, which tell nothing about the lines that hold them. One in SMALL_STEP bytes of them
 * is followed: the first at a distance drawn between half and three halves of that. As a small object never contains two of these
 * bytes, each followed one stands for SMALL_STEP bytes, without bias.
 *
 * Python frames are read from this thread's own interpreter state, which stands still while C code runs in the thread. perfpy puts the
 * offsets (LAYOUTS, DESCRIBED) and the layout of the file before this text. Other threads and programs are unwound.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <unwind.h>

#define EXPORT __attribute__((visibility("default")))
#define LIKELY(x) __builtin_expect(!!(x), 1)

typedef struct { uint64_t live, live_count, peak, peak_count, epoch, total, count, temporary, most, first, depth; } stack_t_;
typedef struct { uint64_t code, offset; } frame_t_; /* code: number of the Python code object, or of the module | NATIVE */
typedef struct { uint64_t name, name_size, file, file_size, lines, lines_size, first_line; } code_t_;
typedef struct {
    char magic[8];
    uint64_t pid, parent, python, stacks, frames, codes, pool, text, live, peak, epoch, total, count, temporary, lost, began, peaked, ended;
    uint64_t small, arenas, most_arenas; /* small objects in all, bytes of arenas */
} head_t_;

static struct {
    void *(*malloc)(size_t), *(*calloc)(size_t, size_t), *(*realloc)(void *, size_t), (*free)(void *);
    int (*posix_memalign)(void **, size_t, size_t);
    void *(*aligned_alloc)(size_t, size_t), *(*memalign)(size_t, size_t), *(*valloc)(size_t), *(*pvalloc)(size_t);
    void *(*mmap)(void *, size_t, int, int, int, off_t), *(*mremap)(void *, size_t, size_t, int, ...);
    int (*munmap)(void *, size_t);
} real;

static __thread int busy __attribute__((tls_model("initial-exec")));
static __thread uintptr_t newest __attribute__((tls_model("initial-exec")));
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char folder[4000];
static char program[4096]; /* its path: the loader only knows argv[0] */
static int enabled;
static void follow_small_objects(void);
static char *file; /* the sums */
static head_t_ *head;
static stack_t_ *stacks;
static uint32_t *pool;
static frame_t_ *frames;
static code_t_ *codes;
static char *text;

/* Tables from 64-bit keys to numbers; 0 is no key. A hash of that length stands for its value: of a million stacks two share one with
 * a chance of 1 in 30 million. */
typedef struct { uint64_t key, value; } slot_t_;
typedef struct { slot_t_ *slots; uint64_t mask; } table_t_;
static table_t_ stack_table, frame_table, code_table;

typedef struct { uintptr_t address; uint64_t size, stack; } live_t_;
typedef struct { live_t_ *slots; uint64_t mask, used; } lives_t_;
static lives_t_ live, followed; /* allocations, and the chosen small objects */

/* How many of the followed small objects have this hash of their address; 255 stands for more, and stays. */
#define IN_FILTER(address) (((uintptr_t)(address) >> 4) * 0x9E3779B97F4A7C15ull >> (64 - FILTER_BITS))
static uint8_t may_be_followed[1 << FILTER_BITS];

/* Mappings, by address: few, and parts of them may be unmapped. */
static live_t_ *maps;
static uint64_t maps_used, maps_room;

static void *pages(size_t size) { /* not counted */
    void *result = (void *)syscall(SYS_mmap, NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0L);
    return result == MAP_FAILED ? NULL : result;
}

static uint64_t mixed(uint64_t sum, uint64_t word) {
    sum = (sum ^ word) * 0x9E3779B97F4A7C15ull;
    return sum ^ (sum >> 29);
}

static slot_t_ *slot_of(table_t_ *table, uint64_t key) {
    uint64_t at = key * 0x9E3779B97F4A7C15ull >> 20 & table->mask;
    while (table->slots[at].key && table->slots[at].key != key) at = (at + 1) & table->mask;
    return &table->slots[at];
}

static uint64_t clock_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ull + now.tv_nsec;
}

/* ---- Python: where this thread's frames are ---- */

static const layout_t *layout;
static layout_t described;
static void *(*thread_state)(void);
static void *code_type;

static void find_python(void) {
    const char *(*version)(void) = (const char *(*)(void))dlsym(RTLD_DEFAULT, "Py_GetVersion");
    char *runtime = dlsym(RTLD_DEFAULT, "_PyRuntime");
    thread_state = (void *(*)(void))dlsym(RTLD_DEFAULT, "PyGILState_GetThisThreadState");
    code_type = dlsym(RTLD_DEFAULT, "PyCode_Type");
    if (!version || !thread_state || !code_type) return;
    int major = 0, minor = 0;
    if (sscanf(version(), "%d.%d", &major, &minor) != 2) return;
    head->python = (uint64_t)major << 8 | (uint64_t)minor;
    for (size_t i = 0; i < sizeof LAYOUTS / sizeof *LAYOUTS; i++)
        if (LAYOUTS[i].version == head->python) layout = &LAYOUTS[i];
    for (size_t i = 0; runtime && i < sizeof DESCRIBED / sizeof *DESCRIBED; i++)
        if (DESCRIBED[i].version == head->python && !memcmp(runtime, "xdebugpy", 8)) {
            const uint64_t *words = (const uint64_t *)runtime;
            if (words[2] & 1) return; /* no GIL: other structures */
            described = DESCRIBED[i];
            int32_t *values = &described.thread_frame;
            for (size_t at = 0; at < DESCRIBED_FIELDS; at++) {
                uint64_t value = words[values[at]];
                if (value > 1 << 16) return;
                values[at] = (int32_t)value;
            }
            layout = &described;
        }
}

typedef struct { uint64_t key; uintptr_t code; int64_t offset; } raw_t_; /* code 0: native, and the offset is an address */

#define AT(type, address, offset) (*(type *)((char *)(address) + (offset)))

/* A code object: its address and what it points to may be those of a freed one, but not its name, too. */
static uint64_t identity_of(uintptr_t code) {
    const layout_t *l = layout;
    const char *name = AT(const char *, code, l->code_name);
    uint64_t hash = AT(uint64_t, name, 24);
    if (hash == ~0ull) hash = AT(uint64_t, name, 16) ^ AT(uint64_t, name, l->ascii_text); /* not computed yet: its length and begin */
    return mixed(mixed(AT(uint64_t, code, l->code_lines) ^ hash, code), AT(uint32_t, code, l->code_first_line));
}

static int python_frames(raw_t_ *raw) {
    char *state = layout ? thread_state() : NULL;
    if (!state) return 0;
    const layout_t *l = layout;
    char *frame = l->thread_cframe >= 0 ? AT(char *, state, l->thread_cframe) : state;
    if (!frame) return 0;
    frame = AT(char *, frame, l->thread_frame);
    int depth = 0;
    for (; frame && depth < MOST_FRAMES; frame = AT(char *, frame, l->frame_previous)) {
        if (l->frame_owner >= 0 && AT(uint8_t, frame, l->frame_owner) >= l->shims) continue;
        uintptr_t code = AT(uintptr_t, frame, l->frame_code) & ~(uintptr_t)l->tag_mask;
        if (!code || AT(void *, code, 8) != code_type) continue;
        int64_t offset = l->is_inline ? AT(int64_t, frame, l->frame_instruction) - (int64_t)(code + l->code_code)
                                      : AT(int32_t, frame, l->frame_instruction) * l->unit;
        raw_t_ *one = &raw[depth++];
        one->code = code;
        one->offset = offset < 0 ? 0 : offset;
        one->key = mixed(identity_of(code), (uint64_t)one->offset + 1) | 1;
    }
    return depth;
}

typedef struct { raw_t_ *raw; int depth, skip; } walk_t_;

static _Unwind_Reason_Code native_frame(struct _Unwind_Context *context, void *data) {
    walk_t_ *walk = data;
    uintptr_t address = _Unwind_GetIP(context);
    if (walk->skip-- > 0) return _URC_NO_REASON;
    if (!address || walk->depth >= MOST_NATIVE) return _URC_END_OF_STACK;
    raw_t_ *one = &walk->raw[walk->depth++];
    one->code = 0;
    one->offset = (int64_t)address - 1; /* in the call */
    one->key = mixed(0x6E6174697665ull, address) | 1;
    return _URC_NO_REASON;
}

/* ---- Numbers of stacks, frames, code objects and modules: their first occurrence writes them into the file ---- */

static uint64_t put_text(const char *data, size_t size, uint64_t *stored) {
    uint64_t at = head->text;
    if (size > LONGEST_TEXT) size = LONGEST_TEXT;
    if (size > TEXT_ROOM - at) size = TEXT_ROOM - at;
    memcpy(text + at, data, size);
    head->text += size;
    *stored = size;
    return at;
}

/* A str object: ASCII and Latin-1 as they are, others as UTF-8. */
static uint64_t put_str(const char *object, uint64_t *stored) {
    uint64_t size = AT(uint64_t, object, 16);
    uint32_t state = AT(uint32_t, object, 32);
    static const int shifts[] = {2, 8, 16};
    *stored = 0;
    for (int i = 0; i < 3; i++) {
        uint32_t kind = state >> shifts[i] & 7, is_compact = state >> shifts[i] >> 3 & 1, is_ascii = state >> shifts[i] >> 4 & 1;
        if ((kind != 1 && kind != 2 && kind != 4) || !is_compact) continue;
        const char *data = object + (is_ascii ? layout->ascii_text : layout->other_text);
        if (size > 1024) size = 1024;
        if (is_ascii) return put_text(data, size, stored);
        char utf8[4096];
        size_t used = 0;
        for (uint64_t at = 0; at < size && used < sizeof utf8 - 4; at++) {
            uint32_t c = kind == 1 ? ((uint8_t *)data)[at] : kind == 2 ? ((uint16_t *)data)[at] : ((uint32_t *)data)[at];
            if (c < 0x80) utf8[used++] = (char)c;
            else if (c < 0x800) { utf8[used++] = (char)(0xC0 | c >> 6); utf8[used++] = (char)(0x80 | (c & 63)); }
            else if (c < 0x10000) {
                utf8[used++] = (char)(0xE0 | c >> 12); utf8[used++] = (char)(0x80 | (c >> 6 & 63)); utf8[used++] = (char)(0x80 | (c & 63));
            } else {
                utf8[used++] = (char)(0xF0 | c >> 18); utf8[used++] = (char)(0x80 | (c >> 12 & 63));
                utf8[used++] = (char)(0x80 | (c >> 6 & 63)); utf8[used++] = (char)(0x80 | (c & 63));
            }
        }
        return put_text(utf8, used, stored);
    }
    return 0;
}

static code_t_ *new_code(table_t_ *table, uint64_t key, uint64_t *number) {
    slot_t_ *slot = slot_of(table, key);
    if (slot->key) { *number = slot->value; return NULL; }
    if (head->codes >= MOST_CODES) { *number = UNKNOWN; return NULL; }
    slot->key = key;
    *number = slot->value = head->codes++;
    return &codes[*number];
}

static uint64_t code_number(uintptr_t object) {
    uint64_t number, lines = AT(uint64_t, object, layout->code_lines), first_line = AT(uint32_t, object, layout->code_first_line);
    code_t_ *code = new_code(&code_table, identity_of(object) | 1, &number);
    if (!code) return number;
    code->first_line = first_line;
    code->name = put_str(AT(char *, object, layout->code_name), &code->name_size);
    code->file = put_str(AT(char *, object, layout->code_filename), &code->file_size);
    if (lines) code->lines = put_text((char *)lines + 32, AT(uint64_t, lines, 16), &code->lines_size);
    return number;
}

static uint64_t module_number(const char *path) {
    if (*path != '/') path = program;
    uint64_t number, key = 0x6D6F64756C65ull;
    for (const char *at = path; *at; at++) key = mixed(key, (uint8_t)*at);
    code_t_ *code = new_code(&code_table, key | 1, &number);
    if (code) code->file = put_text(path, strlen(path), &code->file_size);
    return number;
}

/* Return the number of a stack, with the lock held. Names of modules take the loader's lock, so ours is released meanwhile. */
static uint64_t stack_number(raw_t_ *raw, int depth) {
    uint64_t key = (uint64_t)depth + 1;
    for (int i = 0; i < depth; i++) key = mixed(key, raw[i].key);
    key |= 1;
    slot_t_ *slot = slot_of(&stack_table, key);
    if (LIKELY(slot->key)) return slot->value;
    Dl_info modules[MOST_NATIVE];
    if (depth && !raw[0].code) {
        pthread_mutex_unlock(&lock);
        for (int i = 0; i < depth; i++) if (!dladdr((void *)raw[i].offset, &modules[i])) modules[i].dli_fname = NULL;
        pthread_mutex_lock(&lock);
        slot = slot_of(&stack_table, key);
        if (slot->key) return slot->value;
    }
    if (head->stacks >= MOST_STACKS || head->pool + (uint64_t)depth > POOL_ROOM) { head->lost++; return 0; }
    uint64_t number = head->stacks, first = head->pool;
    for (int i = 0; i < depth; i++) {
        slot_t_ *known = slot_of(&frame_table, raw[i].key);
        if (!known->key) {
            if (head->frames >= MOST_FRAME_NUMBERS) { head->lost++; return 0; }
            frame_t_ *frame = &frames[head->frames];
            if (raw[i].code) {
                frame->code = code_number(raw[i].code);
                frame->offset = (uint64_t)raw[i].offset;
            } else {
                int is_known = modules[i].dli_fname != NULL;
                frame->code = (is_known ? module_number(modules[i].dli_fname) : UNKNOWN) | NATIVE;
                frame->offset = (uint64_t)raw[i].offset - (is_known ? (uint64_t)modules[i].dli_fbase : 0);
            }
            known->key = raw[i].key;
            known->value = head->frames++;
        }
        pool[first + (uint64_t)i] = (uint32_t)known->value;
    }
    head->pool += (uint64_t)depth;
    stacks[number].first = first;
    stacks[number].depth = (uint64_t)depth;
    slot->key = key;
    slot->value = number;
    head->stacks++;
    return number;
}

/* ---- Sums ---- */

static void store_peak(stack_t_ *stack) {
    if (stack->epoch != head->epoch) {
        stack->epoch = head->epoch;
        stack->peak = stack->live;
        stack->peak_count = stack->live_count;
    }
}

static void add(uint64_t number, uint64_t size, uint64_t is_new) { /* is_new: the number of allocations */
    stack_t_ *stack = &stacks[number];
    store_peak(stack);
    stack->live += size;
    if (stack->live > stack->most) stack->most = stack->live;
    stack->live_count += is_new;
    stack->total += size;
    stack->count += is_new;
    head->total += size;
    head->count += is_new;
    head->live += size;
    if (head->live > head->peak) {
        head->peak = head->live;
        head->epoch++;
        if (!(head->count & 255) || size > 1 << 20) head->peaked = clock_now();
    }
}

static void subtract(uint64_t number, uint64_t size, uint64_t is_gone) {
    stack_t_ *stack = &stacks[number];
    store_peak(stack);
    stack->live -= size;
    stack->live_count -= is_gone;
    head->live -= size;
}

static uint64_t place_of(const lives_t_ *table, uintptr_t address) {
    return (address >> 4) * 0x9E3779B97F4A7C15ull >> 24 & table->mask;
}

static void put_live(lives_t_ *table, live_t_ one) {
    uint64_t at = place_of(table, one.address);
    while (table->slots[at].address) at = (at + 1) & table->mask;
    table->slots[at] = one;
}

static int make_lives(lives_t_ *table, uint64_t count) {
    table->mask = count - 1;
    table->used = 0;
    table->slots = pages(count * sizeof *table->slots);
    return table->slots != NULL;
}

static int has_room(lives_t_ *table) {
    if (LIKELY(table->used * 4 < table->mask * 3)) return 1;
    lives_t_ bigger;
    if (!make_lives(&bigger, 2 * (table->mask + 1))) return 0;
    for (uint64_t i = 0; i <= table->mask; i++) if (table->slots[i].address) put_live(&bigger, table->slots[i]);
    bigger.used = table->used;
    syscall(SYS_munmap, table->slots, (table->mask + 1) * sizeof *table->slots);
    *table = bigger;
    return 1;
}

/* Remove an allocation; address 0: unknown. */
static live_t_ take_live(lives_t_ *table, uintptr_t address) {
    live_t_ *slots = table->slots;
    uint64_t mask = table->mask, at = place_of(table, address);
    while (slots[at].address && slots[at].address != address) at = (at + 1) & mask;
    live_t_ one = slots[at];
    if (!one.address) return one;
    table->used--;
    for (uint64_t next = (at + 1) & mask; slots[next].address; next = (next + 1) & mask) {
        uint64_t place = place_of(table, slots[next].address);
        if (((next - place) & mask) >= ((next - at) & mask)) { slots[at] = slots[next]; at = next; }
    }
    slots[at].address = 0;
    return one;
}

static uint64_t map_at(uintptr_t address) { /* the first mapping that ends after an address */
    uint64_t low = 0, high = maps_used;
    while (low < high) {
        uint64_t middle = (low + high) / 2;
        if (maps[middle].address + maps[middle].size > address) high = middle; else low = middle + 1;
    }
    return low;
}

static void put_map(uint64_t at, live_t_ one) {
    if (maps_used == maps_room) {
        live_t_ *bigger = pages(2 * maps_room * sizeof *maps);
        if (!bigger) { head->lost++; return; }
        memcpy(bigger, maps, maps_used * sizeof *maps);
        syscall(SYS_munmap, maps, maps_room * sizeof *maps);
        maps = bigger;
        maps_room *= 2;
    }
    memmove(maps + at + 1, maps + at, (maps_used - at) * sizeof *maps);
    maps[at] = one;
    maps_used++;
}

static void unmapped(uintptr_t begin, uint64_t size) {
    uintptr_t end = begin + ((size + 4095) & ~4095ull);
    for (uint64_t at = map_at(begin); at < maps_used && maps[at].address < end;) {
        live_t_ one = maps[at];
        uintptr_t from = one.address > begin ? one.address : begin, to = one.address + one.size < end ? one.address + one.size : end;
        live_t_ after = {to, one.address + one.size - to, one.stack};
        maps[at].size = from - one.address;
        subtract(one.stack, to - from, !maps[at].size && !after.size);
        if (!maps[at].size) {
            memmove(maps + at, maps + at + 1, (maps_used - at - 1) * sizeof *maps);
            maps_used--;
        } else at++;
        if (after.size) { put_map(at, after); at++; }
    }
}

/* ---- The file ---- */

static int open_tables(void) {
    char path[sizeof folder + 64];
    snprintf(path, sizeof path, "%s/%ld.memory", folder, (long)getpid());
    int descriptor = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (descriptor < 0) return 0;
    int is_long = ftruncate(descriptor, FILE_SIZE) == 0;
    char *address = is_long ? (char *)syscall(SYS_mmap, NULL, FILE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, descriptor, 0L)
                            : MAP_FAILED;
    syscall(SYS_close, descriptor);
    if (address == MAP_FAILED) return 0;
    file = address;
    head = (head_t_ *)file;
    stacks = (stack_t_ *)(file + STACKS_AT);
    frames = (frame_t_ *)(file + FRAMES_AT);
    codes = (code_t_ *)(file + CODES_AT);
    pool = (uint32_t *)(file + POOL_AT);
    text = file + TEXT_AT;
    table_t_ *tables[] = {&stack_table, &frame_table, &code_table};
    uint64_t sizes[] = {2 * MOST_STACKS, 2 * MOST_FRAME_NUMBERS, 2 * MOST_CODES};
    for (int i = 0; i < 3; i++) {
        tables[i]->slots = pages(sizes[i] * sizeof(slot_t_));
        tables[i]->mask = sizes[i] - 1;
        if (!tables[i]->slots) return 0;
    }
    maps_used = 0;
    maps_room = 1 << 12;
    maps = pages(maps_room * sizeof *maps);
    if (!make_lives(&live, 1 << 16) || !make_lives(&followed, 1 << 12) || !maps) return 0;
    head->pid = (uint64_t)getpid();
    head->parent = (uint64_t)getppid();
    head->python = layout ? layout->version : 0;
    head->began = clock_now();
    head->stacks = 1; /* number 0: stacks for which there is no room */
    head->epoch = 1;
    int line = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    if (line >= 0) {
        syscall(SYS_read, line, file + COMMAND_AT, COMMAND_SIZE);
        syscall(SYS_close, line);
    }
    memcpy(head->magic, "PERFPYM\1", 8);
    return 1;
}

static void before_fork(void) { pthread_mutex_lock(&lock); }
static void after_fork(void) { pthread_mutex_unlock(&lock); }

/* A forked process has sums of its own. They begin with the first allocation: most children only execute another program. */
static void in_child(void) {
    pthread_mutex_init(&lock, NULL);
    if (!file) return;
    syscall(SYS_munmap, file, FILE_SIZE);
    syscall(SYS_munmap, stack_table.slots, (stack_table.mask + 1) * sizeof(slot_t_));
    syscall(SYS_munmap, frame_table.slots, (frame_table.mask + 1) * sizeof(slot_t_));
    syscall(SYS_munmap, code_table.slots, (code_table.mask + 1) * sizeof(slot_t_));
    syscall(SYS_munmap, live.slots, (live.mask + 1) * sizeof *live.slots);
    syscall(SYS_munmap, followed.slots, (followed.mask + 1) * sizeof *followed.slots);
    memset(may_be_followed, 0, sizeof may_be_followed);
    head = NULL;
    syscall(SYS_munmap, maps, maps_room * sizeof *maps);
    file = NULL;
}

static void find_real(void) {
#define FIND(name) *(void **)&real.name = dlsym(RTLD_NEXT, #name)
    busy++;
    FIND(free); FIND(calloc); FIND(malloc); FIND(realloc); FIND(posix_memalign); FIND(aligned_alloc); FIND(memalign); FIND(valloc);
    FIND(pvalloc); FIND(mmap); FIND(munmap); FIND(mremap);
    busy--;
}

__attribute__((constructor)) static void begin(void) {
    const char *name = getenv("PERFPY_LEAKS");
    if (!real.malloc) find_real();
    if (!name || strlen(name) >= sizeof folder) return;
    busy++;
    strcpy(folder, name);
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    program[length > 0 ? length : 0] = 0;
    if (open_tables()) {
        find_python();
        follow_small_objects();
        pthread_atfork(before_fork, after_fork, in_child);
        enabled = 1;
    }
    busy--;
}

__attribute__((destructor)) static void end(void) {
    if (file) head->ended = clock_now();
}

/* ---- What is counted ---- */

enum { MEMORY, MAPPING, SMALL_OBJECT };

static live_t_ forget(lives_t_ *table, uintptr_t address) { /* with the lock held */
    live_t_ one = take_live(table, address);
    if (!one.address) return one;
    if (table == &live) subtract(one.stack, one.size, 1);
    else {
        uint8_t *others = &may_be_followed[IN_FILTER(address)];
        *others -= *others < 255;
        subtract(one.stack, SMALL_STEP, SMALL_STEP / one.size);
    }
    return one;
}

static __attribute__((noinline)) void counted(void *result, uint64_t size, int kind) {
    raw_t_ raw[MOST_FRAMES > MOST_NATIVE ? MOST_FRAMES : MOST_NATIVE];
    busy++;
    int error = errno, depth = python_frames(raw);
    if (!depth) {
        walk_t_ walk = {raw, 0, 2};
        _Unwind_Backtrace(native_frame, &walk);
        depth = walk.depth;
    }
    pthread_mutex_lock(&lock);
    if (file || open_tables()) {
        live_t_ one = {(uintptr_t)result, size, stack_number(raw, depth)};
        lives_t_ *table = kind == SMALL_OBJECT ? &followed : &live;
        if (kind == MAPPING) {
            one.size = (size + 4095) & ~4095ull;
            unmapped(one.address, one.size); /* MAP_FIXED replaces */
            put_map(map_at(one.address), one);
            add(one.stack, one.size, 1);
        } else if (has_room(table)) {
            forget(table, one.address); /* freed unseen */
            table->used++;
            put_live(table, one);
            if (kind == MEMORY) {
                add(one.stack, size, 1);
                newest = one.address;
            } else {
                uint8_t *others = &may_be_followed[IN_FILTER(result)];
                *others += *others < 255;
                head->small += SMALL_STEP / size;
                add(one.stack, SMALL_STEP, SMALL_STEP / size);
            }
        } else head->lost++;
    }
    pthread_mutex_unlock(&lock);
    errno = error;
    busy--;
}

static live_t_ gone(void *address) {
    live_t_ one = {0, 0, 0};
    busy++;
    pthread_mutex_lock(&lock);
    if (file) one = forget(&live, (uintptr_t)address);
    if (one.address && newest == one.address) {
        stacks[one.stack].temporary++;
        head->temporary++;
    }
    pthread_mutex_unlock(&lock);
    newest = 0;
    busy--;
    return one;
}

#define COUNTS (LIKELY(enabled) && !busy)

/* ---- CPython's objects of up to 512 bytes: PyMem_SetAllocator and PyObject_SetArenaAllocator put these functions before its own ---- */

typedef struct {
    void *context, *(*malloc)(void *, size_t), *(*calloc)(void *, size_t, size_t), *(*realloc)(void *, void *, size_t);
    void (*free)(void *, void *);
} allocator_t;
typedef struct { void *context, *(*alloc)(void *, size_t); void (*free)(void *, void *, size_t); } arenas_t;
static allocator_t python_own[3];
static arenas_t python_arenas;
static int64_t until_followed = SMALL_STEP; /* bytes; the interpreter's lock protects it */
static int has_small_calls, has_arenas;
static uint64_t draw = 0x9E3779B97F4A7C15ull;

static __attribute__((noinline)) void follow(void *result, size_t size) {
    draw ^= draw << 13; draw ^= draw >> 7; draw ^= draw << 17;
    until_followed += SMALL_STEP / 2 + (int64_t)(draw % SMALL_STEP);
    if (until_followed < 0) until_followed = 0;
    if (!COUNTS || !has_arenas) return; /* without arenas malloc has counted it */
    counted(result, size, SMALL_OBJECT);
}

#define CHOOSE(result, size) \
    do { if ((size) - 1 < SMALLEST && (until_followed -= (int64_t)(size)) < 0 && (result)) follow(result, size); } while (0)

static __attribute__((noinline)) void small_gone(void *address) {
    busy++;
    pthread_mutex_lock(&lock);
    if (file) forget(&followed, (uintptr_t)address);
    pthread_mutex_unlock(&lock);
    busy--;
}

static void *small_malloc(void *context, size_t size) {
    allocator_t *own = context;
    has_small_calls = 1;
    void *result = own->malloc(own->context, size);
    CHOOSE(result, size);
    return result;
}

static void *small_calloc(void *context, size_t number, size_t each) {
    allocator_t *own = context;
    has_small_calls = 1;
    void *result = own->calloc(own->context, number, each);
    CHOOSE(result, number * each);
    return result;
}

static void small_free(void *context, void *address) {
    allocator_t *own = context;
    if (may_be_followed[IN_FILTER(address)] && address && COUNTS) small_gone(address);
    own->free(own->context, address);
}

static void *small_realloc(void *context, void *address, size_t size) {
    allocator_t *own = context;
    if (may_be_followed[IN_FILTER(address)] && address && COUNTS) small_gone(address);
    void *result = own->realloc(own->context, address, size);
    CHOOSE(result, size);
    return result;
}

/* An arena is memory for objects that are counted themselves; if no call came by, something else has replaced our functions. */
static void *arena_alloc(void *context, size_t size) {
    (void)context;
    if (!has_small_calls || !COUNTS) return python_arenas.alloc(python_arenas.context, size);
    busy++;
    void *result = python_arenas.alloc(python_arenas.context, size);
    busy--;
    has_arenas |= result != NULL;
    if (result && head) {
        head->arenas += size;
        if (head->arenas > head->most_arenas) head->most_arenas = head->arenas;
    }
    return result;
}

static void arena_free(void *context, void *address, size_t size) {
    (void)context;
    if (COUNTS && head && head->arenas >= size) head->arenas -= size;
    python_arenas.free(python_arenas.context, address, size);
}

static void follow_small_objects(void) {
    void (*get)(int, allocator_t *) = (void (*)(int, allocator_t *))dlsym(RTLD_DEFAULT, "PyMem_GetAllocator");
    void (*set)(int, allocator_t *) = (void (*)(int, allocator_t *))dlsym(RTLD_DEFAULT, "PyMem_SetAllocator");
    void (*get_arenas)(arenas_t *) = (void (*)(arenas_t *))dlsym(RTLD_DEFAULT, "PyObject_GetArenaAllocator");
    void (*set_arenas)(arenas_t *) = (void (*)(arenas_t *))dlsym(RTLD_DEFAULT, "PyObject_SetArenaAllocator");
    if (!layout || !get || !set || !get_arenas || !set_arenas) return;
    get_arenas(&python_arenas);
    arenas_t arenas = {NULL, arena_alloc, arena_free};
    set_arenas(&arenas);
    for (int domain = 1; domain < 3; domain++) { /* PYMEM_DOMAIN_MEM, PYMEM_DOMAIN_OBJ */
        get(domain, &python_own[domain]);
        allocator_t ours = {&python_own[domain], small_malloc, small_calloc, small_realloc, small_free};
        set(domain, &ours);
    }
}

/* dlsym itself allocates before the real functions are known. */
static char early[1 << 16];
static size_t early_used;
static void *early_memory(size_t size) {
    size_t at = early_used;
    early_used += (size + 31) & ~(size_t)15;
    if (early_used > sizeof early) return NULL;
    *(size_t *)(early + at) = size;
    return early + at + 16;
}
#define IS_EARLY(p) ((char *)(p) >= early && (char *)(p) < early + sizeof early)
#define NEEDS(name) do { if (!real.name) { if (busy) return early_memory(size); find_real(); } } while (0)

EXPORT void *malloc(size_t size) {
    NEEDS(malloc);
    void *result = real.malloc(size);
    if (result && COUNTS) counted(result, size, MEMORY);
    return result;
}

EXPORT void *calloc(size_t number, size_t each) {
    size_t size = number * each;
    NEEDS(calloc);
    void *result = real.calloc(number, each);
    if (result && COUNTS) counted(result, size, MEMORY);
    return result;
}

EXPORT void free(void *address) {
    if (!address || IS_EARLY(address)) return;
    if (!real.free) find_real();
    if (COUNTS) { int error = errno; gone(address); errno = error; }
    real.free(address);
}

EXPORT void *realloc(void *address, size_t size) {
    if (!address) return malloc(size);
    if (IS_EARLY(address)) {
        void *result = malloc(size);
        size_t before = *(size_t *)((char *)address - 16);
        if (result) memcpy(result, address, before < size ? before : size);
        return result;
    }
    NEEDS(realloc);
    if (!COUNTS) return real.realloc(address, size);
    live_t_ before = gone(address); /* first: another thread may get the address */
    void *result = real.realloc(address, size);
    if (result) counted(result, size, MEMORY);
    else if (size && before.address) counted(address, before.size, MEMORY);
    return result;
}

EXPORT void *reallocarray(void *address, size_t number, size_t each) {
    size_t size;
    if (__builtin_mul_overflow(number, each, &size)) { errno = ENOMEM; return NULL; }
    return realloc(address, size);
}

EXPORT int posix_memalign(void **address, size_t alignment, size_t size) {
    if (!real.posix_memalign) find_real();
    int error = real.posix_memalign(address, alignment, size);
    if (!error && COUNTS) counted(*address, size, MEMORY);
    return error;
}

#define ALIGNED(name)                                                    \
    EXPORT void *name(size_t alignment, size_t size) {                   \
        NEEDS(name);                                                     \
        void *result = real.name(alignment, size);                       \
        if (result && COUNTS) counted(result, size, MEMORY);                  \
        return result;                                                   \
    }
ALIGNED(aligned_alloc)
ALIGNED(memalign)

#define PAGED(name)                                                      \
    EXPORT void *name(size_t size) {                                     \
        NEEDS(name);                                                     \
        void *result = real.name(size);                                  \
        if (result && COUNTS) counted(result, size, MEMORY);                  \
        return result;                                                   \
    }
PAGED(valloc)
PAGED(pvalloc)

EXPORT void *mmap(void *address, size_t size, int protection, int flags, int descriptor, off_t offset) {
    if (!real.mmap) return (void *)syscall(SYS_mmap, address, size, protection, flags, descriptor, offset);
    void *result = real.mmap(address, size, protection, flags, descriptor, offset);
    if (result != MAP_FAILED && COUNTS && flags & MAP_ANONYMOUS && protection != PROT_NONE) counted(result, size, MAPPING);
    return result;
}

EXPORT void *mmap64(void *address, size_t size, int protection, int flags, int descriptor, off_t offset) {
    return mmap(address, size, protection, flags, descriptor, offset);
}

static void gone_map(void *address, size_t size) {
    busy++;
    int error = errno;
    pthread_mutex_lock(&lock);
    if (file) unmapped((uintptr_t)address, size);
    pthread_mutex_unlock(&lock);
    errno = error;
    busy--;
}

EXPORT int munmap(void *address, size_t size) {
    if (!real.munmap) return (int)syscall(SYS_munmap, address, size);
    if (COUNTS) gone_map(address, size);
    return real.munmap(address, size);
}

EXPORT void *mremap(void *address, size_t before, size_t size, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    void *where = flags & MREMAP_FIXED ? va_arg(rest, void *) : NULL;
    va_end(rest);
    void *result = (void *)syscall(SYS_mremap, address, before, size, flags, where);
    if (result != MAP_FAILED && COUNTS) {
        busy++;
        pthread_mutex_lock(&lock);
        uint64_t at = file ? map_at((uintptr_t)address) : 0;
        int is_counted = file && at < maps_used && maps[at].address <= (uintptr_t)address;
        pthread_mutex_unlock(&lock);
        busy--;
        if (is_counted) {
            gone_map(address, before);
            counted(result, size, MAPPING);
        }
    }
    return result;
}
