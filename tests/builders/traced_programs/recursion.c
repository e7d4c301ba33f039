/* Recursion, pointers to functions, string instructions, a switch by a table. */
#include <stdio.h>
#include <string.h>

static int fib(int n) {
    return n < 2 ? n : fib(n - 1) + fib(n - 2);
}

static int (*volatile chosen)(int) = fib;

static int __attribute__((noinline)) select_case(int n) {
    switch (n % 9) {
    case 0: return fib(2);
    case 1: return 17 * n;
    case 2: return n - 4;
    case 3: return n ^ 5;
    case 4: return n << 3;
    case 5: return fib(3);
    case 6: return ~n;
    case 7: return n / 3;
    }
    return 1;
}

int main(void) {
    char buffer[300];
    int total = 0;
    for (int i = 0; i < 12; i++) {
        total += chosen(i) + select_case(i * 5);
        memset(buffer, i, sizeof buffer);
        __asm__ volatile("cld; rep stosb" : : "D"(buffer), "c"(50), "a"(i) : "memory");
        total += (int)strlen(memchr(buffer, i, 10) ? "found" : "");
    }
    printf("%d\n", total);
    return 0;
}
