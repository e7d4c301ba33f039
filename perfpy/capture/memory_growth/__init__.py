"""`perfpy leaks`: memory that a Python program allocates and keeps, by Python line.

Probes on the functions of the C library that allocate and free memory run BPF programs. An allocation that is chosen enters a map, by its
address, with the Python frames of its thread; it leaves the map when it is freed. So nothing is recorded for memory that lives shortly.

Allocations are chosen by bytes: one for each INTERVAL bytes that small ones add up to, and each large one. A chosen small one stands for
INTERVAL bytes. Sums are therefore right on average, whatever the sizes.

Modules:

programs    the BPF programs
allocators  the functions of a process that allocate memory, and the probes on them
growth      the allocations that remain, with functions and lines
"""
