/* What the inputs of the option lines measure: frames, an inlined call, a thread, page faults, a library's function. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static volatile long sink;

static inline __attribute__((always_inline)) void folded(long n) {
    for (long i = 0; i < n; i++)
        sink += i ^ n;
}

__attribute__((noinline)) void inner(long n) {
    folded(n);
    sink++;
}

__attribute__((noinline)) void middle(long n) {
    for (int i = 0; i < 10; i++)
        inner(n / 10);
    sink++;
}

__attribute__((noinline)) void outer(long n) {
    middle(n);
    sink++;
}

static void *thread(void *n) {
    outer((long)n);
    return NULL;
}

int main(int count, char **words) {
    long n = count > 1 ? atol(words[1]) * 1000 : 1000000;
    pthread_t other;
    pthread_create(&other, NULL, thread, (void *)n);
    char *pages = malloc(1 << 20);
    memset(pages, 1, 1 << 20);
    outer(n);
    pthread_join(other, NULL);
    free(pages);
    return 0;
}
