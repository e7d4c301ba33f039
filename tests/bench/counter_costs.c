/* What a program in C pays to measure itself: CPU microseconds of each call, a name and a number a line. */
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { TASK_CLOCK = 1, PAGE_FAULTS = 2, MINOR_FAULTS = 5, TIMES = 3, GROUP = 15, CLOEXEC = 8 };

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return time.tv_sec * 1e6 + time.tv_nsec / 1e3;
}

static int counter(int event, int leader, int read_format, int disabled)
{
    struct perf_event_attr attr;
    memset(&attr, 0, sizeof attr);
    attr.size = sizeof attr;
    attr.type = PERF_TYPE_SOFTWARE;
    attr.config = event;
    attr.exclude_kernel = attr.exclude_hv = 1;
    attr.read_format = read_format;
    attr.disabled = disabled;
    return syscall(SYS_perf_event_open, &attr, 0, -1, leader, CLOEXEC);
}

static char answer[256];

static void block(void)
{
    int both[2] = {counter(TASK_CLOCK, -1, TIMES, 1), counter(PAGE_FAULTS, -1, TIMES, 1)};
    int i;
    for (i = 0; i < 2; i++) ioctl(both[i], PERF_EVENT_IOC_ENABLE, 0);
    for (i = 0; i < 2; i++) ioctl(both[i], PERF_EVENT_IOC_DISABLE, 0);
    for (i = 0; i < 2; i++) if (read(both[i], answer, 24) != 24) _exit(1);
    for (i = 0; i < 2; i++) close(both[i]);
}

#define COST(name, times, call) \
    do { \
        double start = now(); \
        for (int i = 0; i < (times); i++) { call; } \
        printf("%s %.4f\n", name, (now() - start) / (times)); \
    } while (0)

int main(void)
{
    int alone = counter(PAGE_FAULTS, -1, TIMES, 0);
    int leader = counter(PAGE_FAULTS, -1, GROUP, 0);
    if (alone < 0 || leader < 0 || counter(TASK_CLOCK, leader, GROUP, 0) < 0 || counter(MINOR_FAULTS, leader, GROUP, 0) < 0) return 1;
    COST("read", 50000, if (read(alone, answer, 24) != 24) return 1);
    COST("group", 50000, if (read(leader, answer, 256) < 24) return 1);
    COST("open", 5000, close(counter(PAGE_FAULTS, -1, TIMES, 0)));
    COST("block", 5000, block());
    return 0;
}
