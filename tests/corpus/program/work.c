/* What the recordings measure: one program of known functions, without a C library, for five architectures.
 *
 *     work WORD [NUMBER] ...      each word is done NUMBER times (1):
 *
 *     spin     one function that computes        chain    outer -> middle -> inner, which compute
 *     recurse  a function in itself, eight deep  faults   first touches of pages
 *     sleep    a millisecond each                name     changes the name of the task
 *     fork     a child does the rest             exec     starts itself anew with the rest
 *     probe    calls probed(), which does little
 */
typedef unsigned long word;

#if defined(__x86_64__)
enum { NANOSLEEP = 35, CLONE = 56, EXECVE = 59, EXIT = 60, WAIT4 = 61, PRCTL = 157 };
__asm__(".globl _start\n_start: mov %rsp, %rdi\n xor %ebp, %ebp\n and $-16, %rsp\n call start\n hlt\n");
static word call(word number, word a, word b, word c, word d, word e) {
    register word r10 __asm__("r10") = d, r8 __asm__("r8") = e;
    __asm__ volatile("syscall" : "+a"(number) : "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8) : "rcx", "r11", "memory");
    return number;
}
#elif defined(__aarch64__)
enum { NANOSLEEP = 101, CLONE = 220, EXECVE = 221, EXIT = 93, WAIT4 = 260, PRCTL = 167 };
__asm__(".globl _start\n_start: mov x0, sp\n mov x29, 0\n mov x30, 0\n bl start\n");
static word call(word number, word a, word b, word c, word d, word e) {
    register word x8 __asm__("x8") = number, x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c;
    register word x3 __asm__("x3") = d, x4 __asm__("x4") = e;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4) : "memory");
    return x0;
}
#elif defined(__riscv)
enum { NANOSLEEP = 101, CLONE = 220, EXECVE = 221, EXIT = 93, WAIT4 = 260, PRCTL = 167 };
__asm__(".globl _start\n_start: mv a0, sp\n li s0, 0\n call start\n");
static word call(word number, word a, word b, word c, word d, word e) {
    register word a7 __asm__("a7") = number, a0 __asm__("a0") = a, a1 __asm__("a1") = b, a2 __asm__("a2") = c;
    register word a3 __asm__("a3") = d, a4 __asm__("a4") = e;
    __asm__ volatile("ecall" : "+r"(a0) : "r"(a7), "r"(a1), "r"(a2), "r"(a3), "r"(a4) : "memory");
    return a0;
}
#elif defined(__powerpc64__)
enum { NANOSLEEP = 162, CLONE = 120, EXECVE = 11, EXIT = 1, WAIT4 = 114, PRCTL = 171 };
__asm__(".globl _start\n.type _start, @function\n_start: addis 2, 12, .TOC.-_start@ha\n addi 2, 2, .TOC.-_start@l\n"
        " mr 3, 1\n clrrdi 1, 1, 4\n li 0, 0\n stdu 0, -64(1)\n bl start\n nop\n");
static word call(word number, word a, word b, word c, word d, word e) {
    register word r0 __asm__("r0") = number, r3 __asm__("r3") = a, r4 __asm__("r4") = b, r5 __asm__("r5") = c;
    register word r6 __asm__("r6") = d, r7 __asm__("r7") = e;
    __asm__ volatile("sc" : "+r"(r3), "+r"(r0), "+r"(r4), "+r"(r5), "+r"(r6), "+r"(r7)
                     : : "r8", "r9", "r10", "r11", "r12", "cr0", "ctr", "memory");
    return r3;
}
#elif defined(__s390x__)
enum { NANOSLEEP = 162, CLONE = 120, EXECVE = 11, EXIT = 1, WAIT4 = 114, PRCTL = 172 };
__asm__(".globl _start\n_start: lgr %r2, %r15\n aghi %r15, -160\n xc 0(8,%r15), 0(%r15)\n brasl %r14, start\n");
static word call(word number, word a, word b, word c, word d, word e) {
    register word r1 __asm__("r1") = number, r2 __asm__("r2") = a, r3 __asm__("r3") = b, r4 __asm__("r4") = c;
    register word r5 __asm__("r5") = d, r6 __asm__("r6") = e;
    __asm__ volatile("svc 0" : "+d"(r2) : "d"(r1), "d"(r3), "d"(r4), "d"(r5), "d"(r6) : "memory");
    return r2;
}
#endif

#define APART __attribute__((noinline, noclone))
enum { PAGE = 4096, PAGES = 32, SIGCHLD = 17, PR_SET_NAME = 15 };
static volatile char pages[PAGES * PAGE];
volatile word sum;

APART word spin(word turns) {
    for (word i = 0; i < turns * 1000000; i++)
        sum += i ^ (sum >> 3);
    return sum;
}
APART word inner(word turns) { return spin(turns) + 1; }
APART word middle(word turns) { word some = inner(turns); for (word i = 0; i < turns * 300000; i++) sum ^= i; return some + 2; }
APART word outer(word turns) { return middle(turns) + 3; }
APART word recurse(word depth) { return depth ? recurse(depth - 1) + 1 : spin(4); }
APART word probed(word value) { sum += value; return sum & 7; }
APART void touch(void) { for (int i = 0; i < PAGES; i++) pages[i * PAGE] += 1; }
APART void doze(void) { word time[2] = {0, 1000000}; call(NANOSLEEP, (word)time, 0, 0, 0, 0); }
APART void leave(word status) { for (;;) call(EXIT, status, 0, 0, 0, 0); }

static int is(const char *a, const char *b) { while (*a && *a == *b) a++, b++; return *a == *b; }
static word number(const char *text) { word n = 0; while (*text) n = n * 10 + (word)(*text++ - '0'); return n; }

APART static void fork_here(void) {
#if defined(__s390x__)
    word child = call(CLONE, 0, SIGCHLD, 0, 0, 0);
#else
    word child = call(CLONE, SIGCHLD, 0, 0, 0, 0);
#endif
    if (child) {
        call(WAIT4, child, 0, 0, 0, 0);
        leave(0);
    }
}

APART void once(const char *what, char **all, char **rest) {
    if (is(what, "spin")) spin(1);
    else if (is(what, "chain")) outer(1);
    else if (is(what, "recurse")) recurse(8);
    else if (is(what, "faults")) touch();
    else if (is(what, "sleep")) doze();
    else if (is(what, "probe")) probed(sum);
    else if (is(what, "name")) call(PRCTL, PR_SET_NAME, (word) "renamed", 0, 0, 0);
    else if (is(what, "fork")) fork_here();
    else if (is(what, "exec")) {
        rest[-1] = all[0];
        char *none = 0;
        call(EXECVE, (word)all[0], (word)(rest - 1), (word)&none, 0, 0);
        leave(1);
    }
}

void start(word *stack) {
    char **all = (char **)(stack + 1);
    for (char **word_ = all + 1; *word_; word_++) {
        char *what = *word_;
        word times = 1;
        if (word_[1] && word_[1][0] >= '0' && word_[1][0] <= '9') times = number(*++word_);
        for (word i = 0; i < times; i++) once(what, all, word_ + 1);
    }
    leave(0);
}
