# PyObject *read(void): reads a counter of the calling thread from its mapped page, struct perf_event_mmap_page in
# linux/perf_event.h, as bytes: count, enabled, running; b"" where the page does not tell. The addresses are put in when the
# counter is known. Beside what is returned it leaves the page's lock, and why it found nothing: 1 the kernel does not allow it,
# 2 the counter is in no register now, 3 the page keeps changing, 4 the time since the page was written is not told,
# 5 this is not the thread that called it first.
        .text
        movabs  $0x1111111111111111, %rdi       # the page
        movabs  $0x2222222222222222, %rsi       # what was found: count, enabled, running, lock; why not; thread
        mov     %fs:0, %rax
        mov     40(%rsi), %rdx
        test    %rdx, %rdx
        jz      first
        cmp     %rdx, %rax
        jne     foreign
start:
        mov     $100, %r11d                     # tries
again:  mov     8(%rdi), %r8d                   # lock
        test    $1, %r8d                        # odd: the kernel is writing
        jnz     retry
        mov     40(%rdi), %r9d                  # capabilities
        mov     %r9d, %eax
        and     $6, %eax                        # bit0_is_deprecated, cap_user_rdpmc
        cmp     $6, %eax
        jne     refused
        mov     12(%rdi), %ecx                  # index
        test    %ecx, %ecx
        jz      nowhere
        dec     %ecx
        rdpmc
        shl     $32, %rdx
        or      %rdx, %rax
        mov     $64, %ecx
        sub     48(%rdi), %cx                   # pmc_width
        shl     %cl, %rax                       # a register counts up from a negative start
        sar     %cl, %rax
        add     16(%rdi), %rax                  # offset
        mov     %rax, (%rsi)
        mov     24(%rdi), %rax                  # time_enabled
        mov     32(%rdi), %rdx                  # time_running
        mov     %rax, 8(%rsi)
        mov     %rdx, 16(%rsi)
        cmp     %rdx, %rax
        je      check                           # it never shared the PMU
        test    $8, %r9b                        # cap_user_time
        jz      timeless
        rdtsc
        shl     $32, %rdx
        or      %rdx, %rax
        test    $32, %r9b                       # cap_user_time_short
        jz      long
        mov     80(%rdi), %r10                  # time_cycles
        sub     %r10, %rax
        and     88(%rdi), %rax                  # time_mask
        add     %r10, %rax
long:   movzwl  50(%rdi), %ecx                  # time_shift
        mov     %rax, %rdx
        shr     %cl, %rdx                       # in two parts, so that nothing is lost at the top
        mov     %rdx, %r10
        shl     %cl, %r10
        sub     %r10, %rax
        mov     52(%rdi), %r10d                 # time_mult
        imul    %r10, %rax
        shr     %cl, %rax
        imul    %r10, %rdx
        add     %rdx, %rax
        add     56(%rdi), %rax                  # time_offset
        add     %rax, 8(%rsi)
        add     %rax, 16(%rsi)
check:  cmp     8(%rdi), %r8d
        jne     retry
        mov     %r8, 24(%rsi)
        mov     %rsi, %rdi
        mov     $24, %esi
        jmp     leave
first:  mov     %rax, 40(%rsi)
        jmp     start
retry:  dec     %r11d
        jnz     again
        mov     $3, %eax
        jmp     fail
refused:
        mov     $1, %eax
        jmp     fail
nowhere:
        mov     $2, %eax
        jmp     fail
timeless:
        mov     $4, %eax
        jmp     fail
foreign:
        mov     $5, %eax
fail:   mov     %rax, 32(%rsi)
        mov     %rsi, %rdi
        xor     %esi, %esi
leave:  movabs  $0x3333333333333333, %rax       # PyBytes_FromStringAndSize
        jmp     *%rax
