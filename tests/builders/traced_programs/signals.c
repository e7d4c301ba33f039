/* Signals by kill, by a fault, from nested handlers; setjmp and longjmp. */
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static volatile int seen;
static sigjmp_buf back;

static void nested(int number) {
    seen += number;
}

static void outer(int number) {
    seen += number;
    raise(SIGUSR2);
}

static void fault(int number) {
    seen += number;
    siglongjmp(back, 1);
}

int main(void) {
    signal(SIGUSR1, outer);
    signal(SIGUSR2, nested);
    signal(SIGSEGV, fault);
    for (int turn = 0; turn < 3; turn++) {
        kill(getpid(), SIGUSR1);
        if (!sigsetjmp(back, 1))
            *(volatile int *)8 = turn;
    }
    return seen == 0;
}
