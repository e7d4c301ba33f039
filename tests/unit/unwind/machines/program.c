/* What is unwound: a program without a C library, so that it is small; chains end in _start.
 * Functions with call frame information of different kinds; silent.c has those without. */

unsigned long silent(unsigned long (*inner)(unsigned long), unsigned long n);

static volatile unsigned long sink;

static inline __attribute__((always_inline)) unsigned long mixed(unsigned long i)
{
	return i ^ sink << 3;
}

static inline __attribute__((always_inline)) void add(unsigned long i)
{
	sink += mixed(i);
}

__attribute__((noinline)) static unsigned long leaf(unsigned long n)
{
	for (unsigned long i = 0; i < n; i++)
		add(i);
	return sink;
}

__attribute__((noinline)) static unsigned long many_registers(unsigned long n)
{
	unsigned long a = n, b = n + 1, c = n + 2, d = n + 3, e = n + 4;
	for (int i = 0; i < 3; i++) {
		a += leaf(n * 40) ^ b;
		b += c ^ d;
		c += d + e;
		d ^= e;
		e += a;
	}
	return a + b + c + d + e;
}

/* its frame's size is known when it runs only */
__attribute__((noinline)) static unsigned long dynamic(unsigned long n)
{
	volatile char bytes[n * 8 + 16];
	for (unsigned long i = 0; i < n * 8; i++)
		bytes[i] = (char)i;
	return many_registers(n) + bytes[n];
}

__attribute__((noinline)) static unsigned long down(unsigned long n)
{
	volatile char bytes[48];
	bytes[n % 48] = (char)n;
	unsigned long deeper = n ? down(n - 1) : dynamic(60);
	return deeper + bytes[n % 48];
}

static unsigned long (*volatile const inner[])(unsigned long) = { leaf, down, dynamic };

__attribute__((noinline)) static unsigned long rounds(unsigned long n)
{
	unsigned long sum = 0;
	for (unsigned long i = 0; i < n; i++) {
		sum += inner[i % 3](i % 7 + 3);
		sum += silent(inner[1], i % 3);
	}
	return sum;
}

/* system calls: of four arguments, the number first */
static long call(long number, long a, long b, long c, long d)
{
#if defined(__aarch64__)
	register long x8 __asm__("x8") = number, x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c, x3 __asm__("x3") = d;
	__asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
	return x0;
#elif defined(__powerpc64__)
	register long r0 __asm__("r0") = number, r3 __asm__("r3") = a, r4 __asm__("r4") = b, r5 __asm__("r5") = c, r6 __asm__("r6") = d;
	__asm__ volatile("sc" : "+r"(r0), "+r"(r3), "+r"(r4), "+r"(r5), "+r"(r6) : : "memory", "cr0", "r7", "r8", "r9", "r10", "r11", "r12");
	return r3;
#elif defined(__s390x__)
	register long r1 __asm__("1") = number, r2 __asm__("2") = a, r3 __asm__("3") = b, r4 __asm__("4") = c, r5 __asm__("5") = d;
	__asm__ volatile("svc 0" : "+d"(r2) : "d"(r1), "d"(r3), "d"(r4), "d"(r5) : "memory");
	return r2;
#elif defined(__riscv)
	register long a7 __asm__("a7") = number, a0 __asm__("a0") = a, a1 __asm__("a1") = b, a2 __asm__("a2") = c, a3 __asm__("a3") = d;
	__asm__ volatile("ecall" : "+r"(a0) : "r"(a7), "r"(a1), "r"(a2), "r"(a3) : "memory");
	return a0;
#elif defined(__x86_64__)
	register long r10 __asm__("r10") = d;
	__asm__ volatile("syscall" : "+a"(number) : "D"(a), "S"(b), "d"(c), "r"(r10) : "memory", "rcx", "r11");
	return number;
#else /* Arm, whose r7 is the frame pointer of Thumb */
	register long r0 __asm__("r0") = a, r1 __asm__("r1") = b, r2 __asm__("r2") = c, r3 __asm__("r3") = d, r6 __asm__("r6") = number;
	__asm__ volatile("push {r7}; mov r7, r6; svc #0; pop {r7}" : "+r"(r0) : "r"(r1), "r"(r2), "r"(r3), "r"(r6) : "memory");
	return r0;
#endif
}

#if defined(__x86_64__)
enum { EXIT = 60, ACTION = 39, TIMER = 39 }; /* no signals: handlers want a restorer there */
#elif defined(__aarch64__) || defined(__riscv)
enum { EXIT = 93, ACTION = 134, TIMER = 103 };
#elif defined(__powerpc64__)
enum { EXIT = 1, ACTION = 173, TIMER = 104 };
#else
enum { EXIT = 1, ACTION = 174, TIMER = 104 };
#endif

static void on_signal(int signal)
{
	sink += leaf(200000 + signal);
}

/* SIGALRM every few milliseconds; struct sigaction is the kernel's, without a restorer */
static void signals(void)
{
	unsigned long action[8] = { (unsigned long)on_signal, 0, 0, 0, 0, 0, 0, 0 };
	unsigned long timer[4] = { 0, 7000, 0, 7000 };
	call(ACTION, 14, (long)action, 0, 8);
	call(TIMER, 0, (long)timer, 0, 0);
}

void _start(void)
{
	signals();
	sink = rounds(ROUNDS);
	call(EXIT, 0, 0, 0, 0);
	__builtin_unreachable();
}
