/* Single-steps a program and its threads and children: writes the address of every instruction, and what a kernel records beside a trace.
 *
 * single_step OUTPUT MAXIMUM COMMAND...
 * single_step OUTPUT MAXIMUM -p TID (a thread that runs)
 *
 * Output: records { u32 kind, tid; u64 a, b, c; }: STEP (address; 16 bytes of code in b and c if no file is mapped there), MAP (start, length, offset; a path of 256 bytes follows), COMM (16 bytes
 * follow), FORK (child, 1 for a process), EXIT, SIGNAL (number). MAXIMUM: of steps, after which everything is killed.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STEP, MAP, COMM, FORK, EXIT, SIGNAL };

struct record { uint32_t kind, tid; uint64_t a, b, c; };
struct task { pid_t tid, pid; uint64_t maps; char comm[16]; int changed; };

static struct { uint64_t start, end; } unnamed[64]; /* code in no file, of any task */
static int unnamed_count;
static struct task tasks[64];
static int task_count;
static FILE *out;

static void put(int kind, pid_t tid, uint64_t a, uint64_t b, uint64_t c) {
    struct record record = { kind, tid, a, b, c };
    fwrite(&record, sizeof record, 1, out);
}

static struct task *task_of(pid_t tid) {
    for (int i = 0; i < task_count; i++)
        if (tasks[i].tid == tid)
            return tasks + i;
    if (task_count == 64)
        exit(3);
    tasks[task_count] = (struct task){ tid, tid, 0, "", 1 };
    return tasks + task_count++;
}

static void put_state(struct task *task) {
    char path[64], line[600];
    snprintf(path, sizeof path, "/proc/%d/comm", task->tid);
    FILE *file = fopen(path, "r");
    if (!file)
        return;
    char comm[16] = "";
    if (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        memcpy(comm, line, strnlen(line, 15));
    }
    fclose(file);
    if (memcmp(comm, task->comm, 16)) {
        memcpy(task->comm, comm, 16);
        put(COMM, task->tid, 0, 0, 0);
        fwrite(comm, 16, 1, out);
    }
    uint64_t hash = 0;
    for (int round = 0; round < 2; round++) {
        uint64_t now = 1469598103934665603u;
        snprintf(path, sizeof path, "/proc/%d/maps", task->tid);
        file = fopen(path, "r");
        if (!file)
            return;
        while (fgets(line, sizeof line, file)) {
            uint64_t start, end, offset;
            char prot[8], name[256] = "";
            if (sscanf(line, "%lx-%lx %7s %lx %*s %*s %255[^\n]", &start, &end, prot, &offset, name) < 4 || prot[2] != 'x')
                continue;
            for (char *p = line; *p; p++)
                now = (now ^ (unsigned char)*p) * 1099511628211u;
            if (round && strcmp(name, "[vsyscall]")) {
                put(MAP, task->tid, start, end - start, offset);
                fwrite(name, 256, 1, out);
                if (!*name && unnamed_count < 64) {
                    unnamed[unnamed_count].start = start;
                    unnamed[unnamed_count++].end = end;
                }
            }
        }
        fclose(file);
        if (!round && now == task->maps)
            return;
        hash = now;
    }
    task->maps = hash;
}

/* Write the address of the next instruction; note a system call, which may map code. */
static void put_step(struct task *task, uint64_t rip) {
    uint64_t code = ptrace(PTRACE_PEEKTEXT, task->tid, rip, 0), first = 0, second = 0;
    for (int i = 0; i < unnamed_count; i++)
        if (rip >= unnamed[i].start && rip < unnamed[i].end) {
            first = code;
            second = ptrace(PTRACE_PEEKTEXT, task->tid, rip + 8, 0);
            break;
        }
    put(STEP, task->tid, rip, first, second);
    task->changed = (code & 0xffff) == 0x050f;
}

int main(int argc, char **argv) {
    if (argc < 4 || !(out = fopen(argv[1], "wb")))
        return 2;
    long left = atol(argv[2]);
    int attaches = !strcmp(argv[3], "-p");
    pid_t first = attaches ? atoi(argv[4]) : fork();
    if (attaches && ptrace(PTRACE_ATTACH, first, 0, 0))
        return 4;
    if (!first) {
        personality(ADDR_NO_RANDOMIZE);
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        execv(argv[3], argv + 3);
        _exit(127);
    }
    int status, alive = 1, wanted = PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL;
    waitpid(first, &status, __WALL);
    ptrace(PTRACE_SETOPTIONS, first, 0, attaches ? 0 : wanted);
    put_state(task_of(first));
    struct user_regs_struct regs;
    ptrace(PTRACE_GETREGS, first, 0, &regs);
    put_step(task_of(first), regs.rip);
    ptrace(PTRACE_SINGLESTEP, first, 0, 0);
    while (alive && left > 0) {
        pid_t tid = waitpid(-1, &status, __WALL);
        if (tid < 0)
            break;
        struct task *task = task_of(tid);
        if (WIFEXITED(status) || WIFSIGNALED(status)) {
            put(EXIT, tid, 0, 0, 0);
            task->tid = -1;
            alive = 0;
            for (int i = 0; i < task_count; i++)
                alive |= tasks[i].tid > 0;
            continue;
        }
        int signal = WSTOPSIG(status), event = status >> 16;
        if (event == PTRACE_EVENT_CLONE || event == PTRACE_EVENT_FORK || event == PTRACE_EVENT_VFORK) {
            unsigned long child = 0;
            ptrace(PTRACE_GETEVENTMSG, tid, 0, &child);
            put(FORK, tid, child, event != PTRACE_EVENT_CLONE, 0);
            struct task *new = task_of(child);
            new->pid = event == PTRACE_EVENT_CLONE ? task->pid : (pid_t)child;
            memcpy(new->comm, task->comm, 16);
            new->maps = task->maps;
            signal = 0;
        } else if (event == PTRACE_EVENT_EXEC) {
            task->maps = 0;
            task->comm[0] = 0;
            put_state(task);
            signal = 0;
        } else if (signal == SIGTRAP || signal == SIGSTOP) {
            ptrace(PTRACE_GETREGS, tid, 0, &regs);
            if (task->changed) {
                put_state(task);
                task->changed = 0;
            }
            put_step(task, regs.rip);
            left--;
            signal = 0;
        } else {
            put(SIGNAL, tid, signal, 0, 0);
        }
        ptrace(PTRACE_SINGLESTEP, tid, 0, signal);
    }
    return fclose(out) != 0;
}
