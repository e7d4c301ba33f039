# Functions of overflows.py, which has them as bytes, so that no assembler is needed where it runs:
#   powerpc64le-linux-gnu-as -mpower8 -o handler.o handler.S && powerpc64le-linux-gnu-objcopy -O binary handler.o handler.bin
# Special registers of a program (Power ISA 2.07): 771 PMC1 ... 776 PMC6, 779 MMCR0, 800 BESCRS, 802 BESCRR, 804 EBBHR, 806 BESCR.
# MMCR0: FC freezes counters (bit 31 from the right), PMAE lets the next overflow come (26), PMAO says that one came (7).
# BESCR: GE branches at all (63), PME at overflows (32), PMEO one came (0).

# +0x00 begin(handler): branch to `handler` at overflows
	mtspr	804, 3
	li	4, 1
	sldi	4, 4, 63
	li	5, 1
	sldi	5, 5, 32
	or	4, 4, 5
	mtspr	806, 4
	blr
# +0x20 arm(value): PMC1 = value, and count
	mtspr	771, 3
	mfspr	4, 779
	clrldi	4, 4, 33		# FC
	li	5, 0x80
	andc	4, 4, 5			# PMAO
	oris	4, 4, 0x0400		# PMAE
	mtspr	779, 4
	blr
# +0x40 turn(times): a loop
	mtctr	3
1:	bdnz	1b
	blr
	nop
# +0x50 end(): no branches, and stand still
	li	3, 0
	mtspr	806, 3
	mfspr	4, 779
	oris	4, 4, 0x8000
	mtspr	779, 4
	blr
	nop
	nop
# +0x70 pmc1(): its value
	mfspr	3, 771
	blr
	nop
	nop
# +0x80 mmcr0(): its value
	mfspr	3, 779
	blr
	nop
	nop
# +0x90 handler: count the overflow, arm anew, go back. What a function may leave below the stack pointer (288 bytes) stays untouched.
handler:
	std	3, -512(1)
	std	4, -504(1)
	std	5, -496(1)
	mfcr	3
	std	3, -488(1)
	mflr	3
	std	3, -480(1)
	bcl	20, 31, 2f
2:	mflr	3
	ld	3, data-2b(3)		# where the two numbers are
	ld	4, 0(3)			# overflows so far
	addi	4, 4, 1
	std	4, 0(3)
	ld	4, 8(3)			# what PMC1 begins with
	mtspr	771, 4
	mfspr	4, 779
	clrldi	4, 4, 33
	li	5, 0x80
	andc	4, 4, 5
	oris	4, 4, 0x0400
	mtspr	779, 4
	li	4, 1
	mtspr	802, 4			# PMEO has been seen
	sldi	4, 4, 32
	mtspr	800, 4			# PME: the next one may come
	ld	3, -480(1)
	mtlr	3
	ld	3, -488(1)
	mtcr	3
	ld	5, -496(1)
	ld	4, -504(1)
	ld	3, -512(1)
	rfebb	1
	.balign	8
data:	.quad	0
