// PyObject *read(void): as that of x86_64.s. The addresses are the last words, which are put in when the counter is known.
        .arch   armv8-a
        .text
        ldr     x0, page
        ldr     x1, found
        mrs     x9, tpidr_el0
        ldr     x10, [x1, #40]
        cbz     x10, first
        cmp     x9, x10
        b.ne    foreign
start:
        mov     w11, #100
again:  ldr     w2, [x0, #8]                    // lock
        tbnz    w2, #0, retry
        dmb     ishld
        ldr     x3, [x0, #40]                   // capabilities
        and     x4, x3, #6
        cmp     x4, #6
        b.ne    refused
        ldr     w4, [x0, #12]                   // index: 32 is the cycle counter
        cbz     w4, nowhere
        sub     w4, w4, #1
        cmp     w4, #31
        b.hi    nowhere
        adr     x5, table
        add     x5, x5, x4, lsl #3
        isb
        br      x5
        .macro  event number
        mrs     x6, s3_3_c14_c\number           // PMEVCNTRn_EL0
        b       have
        .endm
table:  .irp    high, 8, 9, 10, 11
        .irp    low, 0, 1, 2, 3, 4, 5, 6, 7
        .if     \high * 8 + \low < 95
        event   \high\()_\low
        .endif
        .endr
        .endr
        mrs     x6, pmccntr_el0
have:   ldrh    w4, [x0, #48]                   // pmc_width
        mov     w7, #64
        sub     w4, w7, w4
        lsl     x6, x6, x4
        asr     x6, x6, x4
        ldr     x7, [x0, #16]                   // offset
        add     x6, x6, x7
        str     x6, [x1]
        ldr     x6, [x0, #24]                   // time_enabled
        ldr     x7, [x0, #32]                   // time_running
        cmp     x6, x7
        b.eq    store
        tbz     w3, #3, timeless                // cap_user_time
        isb
        mrs     x4, cntvct_el0
        tbz     w3, #5, long                    // cap_user_time_short
        ldr     x5, [x0, #80]                   // time_cycles
        ldr     x8, [x0, #88]                   // time_mask
        sub     x4, x4, x5
        and     x4, x4, x8
        add     x4, x4, x5
long:   ldrh    w5, [x0, #50]                   // time_shift
        ldr     w8, [x0, #52]                   // time_mult
        lsr     x9, x4, x5
        lsl     x10, x9, x5
        sub     x4, x4, x10
        mul     x4, x4, x8
        lsr     x4, x4, x5
        madd    x4, x9, x8, x4
        ldr     x9, [x0, #56]                   // time_offset
        add     x4, x4, x9
        add     x6, x6, x4
        add     x7, x7, x4
store:  stp     x6, x7, [x1, #8]
        dmb     ishld
        ldr     w4, [x0, #8]
        cmp     w4, w2
        b.ne    retry
        str     x2, [x1, #24]
        mov     x0, x1
        mov     x1, #24
        b       leave
first:  str     x9, [x1, #40]
        b       start
retry:  subs    w11, w11, #1
        b.ne    again
        mov     x2, #3
        b       fail
refused:
        mov     x2, #1
        b       fail
nowhere:
        mov     x2, #2
        b       fail
timeless:
        mov     x2, #4
        b       fail
foreign:
        mov     x2, #5
fail:   str     x2, [x1, #32]
        mov     x0, x1
        mov     x1, #0
leave:  ldr     x16, make
        br      x16
        .balign 8
page:   .quad   0x1111111111111111
found:  .quad   0x2222222222222222
make:   .quad   0x3333333333333333              // PyBytes_FromStringAndSize
