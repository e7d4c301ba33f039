/* The programs that perf's shell tests measure, in place of `perf test -w NAME`: a perf without symbols has none that they could find.
 *
 * perf-workloads NAME [SECONDS [THREADS]]: burns time in a function that is called like NAME, or as the tests expect it.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile long spent;

static double now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec + at.tv_nsec / 1e9;
}

static double until;

__attribute__((noinline)) void noploop(void)
{
    while (now() < until)
        for (int i = 0; i < 100000; i++)
            spent++;
}

__attribute__((noinline)) void test_loop(void)
{
    while (now() < until)
        for (int i = 0; i < 100000; i++)
            spent++;
}

__attribute__((noinline)) void leaf(volatile int turns)
{
    while (turns--)
        spent++;
}

__attribute__((noinline)) void parent(void)
{
    while (now() < until)
        leaf(100000);
}

static void *thfunc(void *ignored)
{
    test_loop();
    return ignored;
}

__attribute__((noinline)) void thloop(int threads)
{
    pthread_t others[64];
    int count = threads - 1 < 64 ? threads - 1 : 64;
    for (int i = 0; i < count; i++)
        pthread_create(&others[i], NULL, thfunc, NULL);
    test_loop();
    for (int i = 0; i < count; i++)
        pthread_join(others[i], NULL);
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    until = now() + (argc > 2 ? atof(argv[2]) : 1);
    if (!strcmp(name, "noploop")) {
        noploop();
    } else if (!strcmp(name, "thloop")) {
        thloop(argc > 3 ? atoi(argv[3]) : 2);
    } else if (!strcmp(name, "leafloop")) {
        parent();
    } else if (!strcmp(name, "sqrtloop")) {
        pid_t child = fork();
        if (!child) {
            noploop();
            _exit(0);
        }
        waitpid(child, NULL, 0);
    } else {
        fprintf(stderr, "no workload %s\n", name);
        return 1;
    }
    return 0;
}
