/* A child by fork that works, one that executes another program. */
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int depth(int n) {
    return n ? depth(n - 1) + 1 : 0;
}

int main(int argc, char **argv) {
    if (argc > 1)
        return depth(argc * 10) == 0;
    for (int turn = 0; turn < 2; turn++) {
        if (!fork()) {
            if (turn)
                execl(argv[0], argv[0], "again", (char *)0);
            _exit(depth(30) != 30);
        }
    }
    while (wait(0) > 0)
        ;
    return 0;
}
