/* A JIT compiler in small (x86-64): makes two functions, tells perf their names, runs them.
 *
 *     jit map     names in /tmp/perf-PID.map           jit dump    names and code in ./jit-PID.dump (jitdump)
 */
#include <elf.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* mov $TURNS, %ecx; again: dec %ecx; jnz again; ret */
static const unsigned char CODE[] = {0xb9, 0, 0, 0, 0, 0xff, 0xc9, 0x75, 0xfc, 0xc3};
static const char *const NAMES[] = {"jitted_short", "jitted_long"};
static const uint32_t TURNS[] = {2000000, 10000000};
enum { APART = 64 };

struct header { uint32_t magic, version, size, machine, pad, pid; uint64_t time, flags; };
struct load { uint32_t id, size; uint64_t time; uint32_t pid, tid; uint64_t vma, address, code_size, index; };

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static FILE *open_dump(void) {
    char name[64];
    snprintf(name, sizeof name, "jit-%d.dump", (int)getpid());
    FILE *dump = fopen(name, "w+");
    struct header header = {0x4a695444, 1, sizeof header, EM_X86_64, 0, (uint32_t)getpid(), now(), 0};
    fwrite(&header, sizeof header, 1, dump);
    fflush(dump);
    mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fileno(dump), 0); /* perf finds the file by this mapping */
    return dump;
}

static FILE *open_map(void) {
    char name[64];
    snprintf(name, sizeof name, "/tmp/perf-%d.map", (int)getpid());
    return fopen(name, "w");
}

int main(int count, char **words) {
    int dumps = count > 1 && !strcmp(words[1], "dump");
    FILE *names = dumps ? open_dump() : open_map();
    unsigned char *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 2; i++) {
        unsigned char *at = code + i * APART;
        memcpy(at, CODE, sizeof CODE);
        memcpy(at + 1, &TURNS[i], 4);
        struct load load = {0, (uint32_t)(sizeof load + strlen(NAMES[i]) + 1 + sizeof CODE), now(), (uint32_t)getpid(), (uint32_t)getpid(),
                            (uintptr_t)at, (uintptr_t)at, sizeof CODE, (uint64_t)i};
        if (dumps) {
            fwrite(&load, sizeof load, 1, names);
            fwrite(NAMES[i], strlen(NAMES[i]) + 1, 1, names);
            fwrite(at, sizeof CODE, 1, names);
        } else
            fprintf(names, "%lx %zx %s\n", (unsigned long)at, sizeof CODE, NAMES[i]);
    }
    fclose(names);
    for (int turn = 0; turn < 3; turn++)
        for (int i = 0; i < 2; i++)
            ((void (*)(void))(code + i * APART))();
}
