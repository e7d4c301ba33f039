/* Code that is in no file: functions compiled at run time, one of them twice at the same address and one moved, with a jitdump in the folder
 * argv[1]; and code of the vDSO and of shared libraries, which call back into the compiled code and leave it by longjmp().
 *
 * A nop with MARK stands before each time that is written to the dump: the recording gives times to them.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define MARK() __asm__ volatile("nopl 0x6a697431(%rax)")

typedef int function(int, int (*)(int));

static int dump;
static uint64_t loaded;
static jmp_buf outside;

/* push rbx; mov ebx,edi; xor eax,eax; add eax,ebx; dec ebx; jnz; pop rbx; ret */
static const unsigned char sum[] = {0x53, 0x89, 0xfb, 0x31, 0xc0, 0x01, 0xd8, 0xff, 0xcb, 0x75, 0xfa, 0x5b, 0xc3};
/* the same, with another distance: nop; ... add eax,ebx; sub ebx,1; jg */
static const unsigned char sum_again[] = {0x53, 0x89, 0xfb, 0x31, 0xc0, 0x90, 0x01, 0xd8, 0x83, 0xeb, 0x01, 0x7f, 0xf9, 0x5b, 0xc3};
/* push rbx; mov rbx,rsi; call rbx; test eax,eax; jz +2; call rbx; pop rbx; ret */
static const unsigned char caller[] = {0x53, 0x48, 0x89, 0xf3, 0xff, 0xd3, 0x85, 0xc0, 0x74, 0x02, 0xff, 0xd3, 0x5b, 0xc3};

static void put(uint32_t kind, const void *body, uint32_t size, const char *name, const void *code, uint32_t code_size) {
    uint32_t total = 16 + size + (name ? strlen(name) + 1 : 0) + code_size;
    struct { uint32_t kind, size; uint64_t time; } prefix = {kind, total, 0};
    MARK();
    write(dump, &prefix, sizeof prefix);
    write(dump, body, size);
    if (name)
        write(dump, name, strlen(name) + 1);
    write(dump, code, code_size);
}

static function *load(unsigned char *at, const char *name, const unsigned char *code, uint32_t size) {
    memcpy(at, code, size);
    struct { uint32_t pid, tid; uint64_t vma, address, size, index; } body = {getpid(), getpid(), (uintptr_t)at, (uintptr_t)at, size, ++loaded};
    put(0, &body, sizeof body, name, code, size);
    return (function *)at;
}

static void move(unsigned char *from, unsigned char *to, uint32_t size, uint64_t index) {
    struct { uint32_t pid, tid; uint64_t vma, old, new, size, index; } body = {getpid(), getpid(), (uintptr_t)to, (uintptr_t)from,
                                                                             (uintptr_t)to, size, index};
    memcpy(to, from, size);
    memset(from, 0xcc, size);
    put(1, &body, sizeof body, 0, "", 0);
}

static int count_time(int depth) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_nsec >= 0 && depth >= 0;
}

static int leave(int number) {
    (void)number;
    longjmp(outside, 1);
}

static function *compiled;
static int compare(const void *left, const void *right) {
    return compiled(3, 0) + *(const int *)left - *(const int *)right;
}

int main(int argc, char **argv) {
    char path[4096];
    struct { uint32_t magic, version, size, machine, pad, pid; uint64_t time, flags; } head = {0x4A695444, 1, 40, 62, 0, getpid(), 0, 1};
    snprintf(path, sizeof path, "%s/jit-%d.dump", argc > 1 ? argv[1] : ".", getpid());
    dump = open(path, O_CREAT | O_TRUNC | O_RDWR, 0600);
    write(dump, &head, sizeof head);
    if (mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, dump, 0) == MAP_FAILED)
        return 1;
    unsigned char *code = mmap(0, 1 << 16, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int total = 0, numbers[] = {5, 3, 9, 1, 7, 2};
    compiled = load(code, "sum", sum, sizeof sum);
    for (int turn = 1; turn < 20; turn++)
        total += compiled(turn, 0);
    function *call = load(code + 64, "caller", caller, sizeof caller);
    total += call(1, count_time);
    qsort(numbers, 6, sizeof numbers[0], compare);
    compiled = load(code, "sum_again", sum_again, sizeof sum_again);
    for (int turn = 1; turn < 20; turn++)
        total += compiled(turn, 0);
    if (!setjmp(outside))
        call(1, leave);
    move(code + 64, code + 8192, sizeof caller, 2);
    total += ((function *)(code + 8192))(1, count_time);
    qsort(numbers, 6, sizeof numbers[0], compare);
    return total == 0;
}
