/* The evaluator of Python frames that perfpy installs into CPython 3.8 to 3.11 (PEP 523).
 *
 * What enters: a frame that the interpreter wants to run. What leaves: the same frame run by the interpreter's own
 * _PyEval_EvalFrameDefault, called through a few instructions that are this code object's alone. The address of those
 * instructions lies on the stack while the function runs, and /tmp/perf-PID.map says whose it is: what CPython 3.12
 * and later do themselves with -X perf.
 *
 * This file becomes cpython_startup/perfpy_machine_code.py (by scripts/build_evaluator.py): one piece of position-independent code without
 * relocations and without a C library, 64 KiB long, with the state in the memory after it. startup/perfpy_trampolines.py
 * puts both into a process and fills in what is known of the interpreter. No Python code is run from here, so nothing
 * here can be traced, interrupted, or called by an interpreter that is going away; the caller holds the GIL always.
 */

#define ENTRY __attribute__((section(".text.entry")))
#define SLOW __attribute__((noinline))

typedef unsigned long word;
typedef long number;
typedef void *object;
typedef object evaluator(object, object, object, word);

enum { ARENA = 65536, MOST_ARENAS = 128, REMEMBERED = 4096, LONGEST_NAME = 480, LONGEST_FILE = 1000 };

struct state {
    /* filled in by the installer, in this order */
    word frame_code;  /* offset of the code object in a frame */
    word code_extra;  /* offset of co_extra in a code object */
    word index;       /* which extra of a code object is its trampoline */
    word name_index;  /* which is its qualified name, where the interpreter has none (3.8 to 3.10) */
    word has_qualname;
    word code_type;
    word default_evaluator;
    number (*set_extra)(object code, number index, object value);
    number (*get_extra)(object code, number index, object *value);
    object (*attribute)(object, const char *);
    const char *(*utf8)(object, number *size);
    object (*format)(const char *, ...);
    number (*tuple_size)(object);
    object (*tuple_item)(object, number);
    word (*integer)(object);
    void (*error_fetch)(object *, object *, object *);
    void (*error_restore)(object, object, object);
    void (*error_clear)(void);
    void (*retain)(object);
    void (*release)(object);
    word file;      /* the perf map: its descriptor, and who it is */
    word device, inode;
    word process;   /* whose map it is */
    word written;   /* bytes of it */
    /* our own */
    word off;
    word arenas;
    char *next, *end; /* trampolines that wait for an owner */
    struct { word name; char *trampoline; } remembered[REMEMBERED];
};

static struct state state;

#if defined(__x86_64__)
enum { READ = 17, WRITE = 1, OPEN = 257, CLOSE = 3, STAT = 5, MAP = 9, PROTECT = 10, UNMAP = 11, GETPID = 39, UNLINK = 263, FCNTL = 72 };
enum { NO_FOLLOW = 0400000 };
/* endbr64; push rbp; mov rbp, rsp; call *rcx; pop rbp; ret: 12 bytes */
static const unsigned TRAMPOLINE[] = {0xfa1e0ff3, 0xe5894855, 0xc35dd1ff};
enum { STRIDE = 16, LENGTH = 12 };

static number system_call(number which, number a, number b, number c, number d, number e, number f)
{
    register number r10 __asm__("r10") = d;
    register number r8 __asm__("r8") = e;
    register number r9 __asm__("r9") = f;
    number result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(which), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9) : "rcx", "r11", "memory");
    return result;
}

static void make_visible(char *code, number size) { (void)code, (void)size; }
#elif defined(__aarch64__)
enum { READ = 67, WRITE = 64, OPEN = 56, CLOSE = 57, STAT = 80, MAP = 222, PROTECT = 226, UNMAP = 215, GETPID = 172, UNLINK = 35, FCNTL = 25 };
enum { NO_FOLLOW = 0100000 };
/* stp x29, x30, [sp, #-16]!; mov x29, sp; blr x3; ldp x29, x30, [sp], #16; ret */
static const unsigned TRAMPOLINE[] = {0xa9bf7bfd, 0x910003fd, 0xd63f0060, 0xa8c17bfd, 0xd65f03c0};
enum { STRIDE = 32, LENGTH = 20 };

static number system_call(number which, number a, number b, number c, number d, number e, number f)
{
    register number x8 __asm__("x8") = which;
    register number x0 __asm__("x0") = a;
    register number x1 __asm__("x1") = b;
    register number x2 __asm__("x2") = c;
    register number x3 __asm__("x3") = d;
    register number x4 __asm__("x4") = e;
    register number x5 __asm__("x5") = f;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
    return x0;
}

/* data and instruction caches are two: the lines of new code are written back, then dropped */
static void make_visible(char *code, number size)
{
    for (char *line = code; line < code + size; line += 16)
        __asm__ volatile("dc cvau, %0" ::"r"(line) : "memory");
    __asm__ volatile("dsb ish" ::: "memory");
    for (char *line = code; line < code + size; line += 16)
        __asm__ volatile("ic ivau, %0" ::"r"(line) : "memory");
    __asm__ volatile("dsb ish\n\tisb" ::: "memory");
}
#endif

enum { NONE = -100 /* AT_FDCWD */, READ_ONLY = 0, APPEND = 1 | 02000, CREATE = 0100 | 0200, CLOSE_ON_EXEC = 02000000 };
enum { DUPLICATE = 1030 /* F_DUPFD_CLOEXEC */, OUT_OF_THE_WAY = 200 };

/* --- text --- */

static char *put_number(char *to, word value, word base)
{
    char digits[24];
    number count = 0;
    do {
        digits[count++] = "0123456789abcdef"[value % base];
        value /= base;
    } while (value);
    while (count)
        *to++ = digits[--count];
    return to;
}

static char *put(char *to, const char *text, number most)
{
    for (; *text && most; most--, text++)
        *to++ = (unsigned char)*text < ' ' || *text == 127 ? '?' : *text; /* a line stays one line */
    return to;
}

static void map_path(char *path, word process)
{
    path = put_number(put(path, "/tmp/perf-", 16), process, 10);
    *put(path, ".map", 16) = 0;
}

/* --- the map --- */

static number open_file(const char *path, number flags)
{
    return system_call(OPEN, NONE, (number)path, flags | NO_FOLLOW | CLOSE_ON_EXEC, 0600, 0, 0);
}

static number same_file(void)
{
    word about[32]; /* struct stat: st_dev and st_ino come first */
    return system_call(STAT, (number)state.file, (number)about, 0, 0, 0, 0) == 0 && about[0] == state.device && about[1] == state.inode;
}

static number take_file(number file)
{
    word about[32];
    number high = system_call(FCNTL, file, DUPLICATE, OUT_OF_THE_WAY, 0, 0, 0); /* low numbers are the program's */
    if (high >= 0) {
        system_call(CLOSE, file, 0, 0, 0, 0, 0);
        file = high;
    }
    if (system_call(STAT, file, (number)about, 0, 0, 0, 0))
        return 0;
    state.file = (word)file;
    state.device = about[0];
    state.inode = about[1];
    return 1;
}

/* The program may have closed our descriptor, and given its number to a file of its own. */
static number find_file_again(void)
{
    char path[64];
    word device = state.device, inode = state.inode;
    map_path(path, state.process);
    number file = open_file(path, APPEND);
    return file >= 0 && take_file(file) && state.device == device && state.inode == inode;
}

static number write_all(number file, const char *text, number size)
{
    while (size > 0) {
        number written = system_call(WRITE, file, (number)text, size, 0, 0, 0);
        if (written <= 0 && written != -4 /* EINTR */)
            return 0;
        if (written > 0)
            text += written, size -= written;
    }
    return 1;
}

/* The first `state.written` bytes of the parent's map hold for the child as well: it has the same memory. */
static void copy_lines(number from, number to)
{
    char piece[2048];
    word offset = 0;
    while (offset < state.written) {
        word wanted = state.written - offset;
        number size = system_call(READ, from, (number)piece, wanted < sizeof piece ? (number)wanted : (number)sizeof piece, (number)offset, 0, 0);
        if (size <= 0 || !write_all(to, piece, size))
            break;
        offset += (word)size;
    }
    state.written = offset;
}

/* A child of fork() has a map of its own, and takes no more trampolines from an arena that is its parent's as well. */
static number start_child(word process)
{
    char path[64];
    map_path(path, state.process);
    number lines = open_file(path, READ_ONLY);
    map_path(path, process);
    number file = open_file(path, APPEND | CREATE);
    if (file == -17 /* EEXIST: of an earlier process of this number */) {
        system_call(UNLINK, NONE, (number)path, 0, 0, 0, 0);
        file = open_file(path, APPEND | CREATE);
    }
    if (lines >= 0 && file >= 0)
        copy_lines(lines, file);
    if (lines >= 0)
        system_call(CLOSE, lines, 0, 0, 0, 0, 0);
    state.next = state.end = 0;
    state.process = process;
    return file >= 0 && take_file(file);
}

/* --- trampolines --- */

static number start_arena(void)
{
    if (state.arenas++ >= MOST_ARENAS)
        return 0;
    char *arena = (char *)system_call(MAP, 0, ARENA, 3 /* read, write */, 0x22 /* private, anonymous */, -1, 0);
    if ((word)arena > (word)-4096)
        return 0;
    for (char *code = arena; code < arena + ARENA; code += STRIDE)
        for (number i = 0; i < LENGTH / 4; i++)
            ((unsigned *)code)[i] = TRAMPOLINE[i];
    make_visible(arena, ARENA);
    if (system_call(PROTECT, (number)arena, ARENA, 5 /* read, execute */, 0, 0, 0)) {
        system_call(UNMAP, (number)arena, ARENA, 0, 0, 0, 0);
        return 0;
    }
    state.next = arena;
    state.end = arena + ARENA;
    return 1;
}

static word fingerprint(const char *name, const char *end)
{
    word value = 0xcbf29ce484222325;
    for (; name < end; name++)
        value = (value ^ (unsigned char)*name) * 0x100000001b3;
    return value | 1;
}

/* The next trampoline, with its line in the map; the one before where the same name was asked for (code that is
 * compiled again and again has always the same). */
static char *trampoline_named(const char *name, const char *end)
{
    char line[2048], *to;
    word mark = fingerprint(name, end), slot = mark / 2 % REMEMBERED;
    if (state.remembered[slot].name == mark)
        return state.remembered[slot].trampoline;
    if (state.next == state.end && !start_arena())
        return 0;
    to = put_number(line, (word)state.next, 16);
    *to++ = ' ';
    to = put_number(to, LENGTH, 16);
    *to++ = ' ';
    to = put(to, name, end - name);
    *to++ = '\n';
    if ((!same_file() && !find_file_again()) || !write_all((number)state.file, line, to - line))
        return 0;
    state.written += (word)(to - line);
    state.remembered[slot].name = mark;
    state.remembered[slot].trampoline = state.next;
    state.next += STRIDE;
    return state.remembered[slot].trampoline;
}

/* --- names --- */

static object attribute(object code, const char *name)
{
    object value = state.attribute(code, name);
    if (!value)
        state.error_clear();
    return value;
}

/* A new reference to what the code object is called, within what it was defined in where that is known. */
static object qualified_name(object code)
{
    object name = 0;
    if (state.has_qualname)
        return attribute(code, "co_qualname");
    if (state.get_extra(code, (number)state.name_index, &name) == 0 && name) {
        state.retain(name);
        return name;
    }
    state.error_clear();
    return attribute(code, "co_name");
}

static word flags(object code)
{
    object value = attribute(code, "co_flags");
    word result = value ? state.integer(value) : 0;
    if (value)
        state.release(value);
    return result;
}

static number is_module(object name)
{
    const char *text = state.utf8(name, 0);
    for (const char *module = "<module>"; text && *module == *text; module++, text++)
        if (!*module)
            return 1;
    return 0;
}

/* 3.8 to 3.10 keep the qualified name with the function, which a frame does not know. But code is run before what is
 * defined in it: it tells the code objects among its constants. */
static void name_constants(object code, object name)
{
    object constants = attribute(code, "co_consts");
    if (!constants)
        return;
    const char *between = flags(code) & 2 /* CO_NEWLOCALS: a function */ ? "%U.<locals>.%U" : "%U.%U";
    number module = is_module(name);
    for (number i = 0, count = state.tuple_size(constants); i < count; i++) {
        object constant = state.tuple_item(constants, i), inner, whole = 0;
        if (((word *)constant)[1] != state.code_type)
            continue;
        if (state.get_extra(constant, (number)state.name_index, &whole) == 0 && whole)
            continue;
        inner = attribute(constant, "co_name");
        if (!inner)
            continue;
        whole = module ? inner : state.format(between, name, inner);
        if (module)
            state.retain(inner);
        if (!whole || state.set_extra(constant, (number)state.name_index, whole)) {
            state.error_clear();
            if (whole)
                state.release(whole);
        }
        state.release(inner);
    }
    state.release(constants);
}

static char *name_of(char *to, object code)
{
    object name = qualified_name(code), file = attribute(code, "co_filename");
    const char *name_text = name ? state.utf8(name, 0) : 0, *file_text = file ? state.utf8(file, 0) : 0;
    to = put(to, "py::", 8);
    to = put(to, name_text ? name_text : "?", LONGEST_NAME);
    *to++ = ':';
    to = put(to, file_text ? file_text : "?", LONGEST_FILE);
    if (name && !state.has_qualname)
        name_constants(code, name);
    state.error_clear(); /* names that are no UTF-8 */
    if (name)
        state.release(name);
    if (file)
        state.release(file);
    return to;
}

/* --- the evaluator --- */

/* A code object that was never run: 0 where it gets no trampoline. */
static char *first_run(object code)
{
    char name[2048], *trampoline;
    object type, value, trace;
    word process;
    if (state.off)
        return 0;
    process = (word)system_call(GETPID, 0, 0, 0, 0, 0, 0);
    state.error_fetch(&type, &value, &trace); /* generator.throw() comes with an exception */
    if (process != state.process && !start_child(process))
        state.off = 1;
    trampoline = state.off ? 0 : trampoline_named(name, name_of(name, code));
    if (!trampoline)
        state.off = 1; /* no memory, no file: what has its name keeps it */
    else if (state.set_extra(code, (number)state.index, trampoline))
        state.error_clear();
    state.error_restore(type, value, trace);
    return trampoline;
}

/* The trampoline of the code object that a frame runs: 0 where it has none yet. */
static inline __attribute__((always_inline)) evaluator *trampoline_of(object frame)
{
    object code = *(object *)((char *)frame + state.frame_code);
    word *extra = *(word **)((char *)code + state.code_extra);
    if (!extra || extra[0] <= state.index) /* struct { Py_ssize_t ce_size; void *ce_extras[]; } */
        return 0;
    return (evaluator *)extra[1 + state.index];
}

static evaluator *made_for(object frame)
{
    char *trampoline = first_run(*(object *)((char *)frame + state.frame_code));
    return (evaluator *)(trampoline ? (word)trampoline : state.default_evaluator);
}

static SLOW object first_in_thread(object thread, object frame, object throws)
{
    return made_for(frame)(thread, frame, throws, state.default_evaluator);
}

/* 3.9 to 3.11: (PyThreadState *, frame, int throwflag) */
ENTRY object evaluate_in_thread(object thread, object frame, object throws)
{
    evaluator *trampoline = trampoline_of(frame);
    if (!trampoline)
        return first_in_thread(thread, frame, throws);
    return trampoline(thread, frame, throws, state.default_evaluator);
}

static SLOW object first(object frame, object throws)
{
    return made_for(frame)(frame, throws, 0, state.default_evaluator);
}

/* 3.8: (frame, int throwflag) */
ENTRY object evaluate(object frame, object throws)
{
    evaluator *trampoline = trampoline_of(frame);
    if (!trampoline)
        return first(frame, throws);
    return trampoline(frame, throws, 0, state.default_evaluator);
}
