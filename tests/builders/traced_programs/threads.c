/* Four threads with a mutex, a library's functions, and clocks from the vDSO. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long total;

static int compare(const void *one, const void *two) {
    return *(const int *)one - *(const int *)two;
}

static void *work(void *given) {
    int numbers[60];
    for (int turn = 0; turn < 3; turn++) {
        for (int i = 0; i < 60; i++)
            numbers[i] = (i * 7919 + turn * 13 + (int)(long)given) % 101;
        qsort(numbers, 60, sizeof *numbers, compare);
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        pthread_mutex_lock(&lock);
        total += numbers[3] + (now.tv_nsec >= 0);
        pthread_mutex_unlock(&lock);
    }
    return 0;
}

int main(void) {
    pthread_t threads[4];
    for (long i = 0; i < 4; i++)
        pthread_create(threads + i, 0, work, (void *)i);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], 0);
    return total == 0;
}
