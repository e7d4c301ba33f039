"""Symbols from other sources than ordinary files: the kernel, perf maps and jitdumps.

Modules:

kernel_symbols   the kernel and its modules
kallsyms         /proc/kallsyms
perf_map         /tmp/perf-PID.map
jitdump          jitdump files, and an ELF file for each function
jit_regions      jitdumps as few images
jit_lines        source lines of JIT-compiled code, as DWARF
mapped_dump      jitdumps that recorded processes mapped
v8_log           V8's log of code: lines and inlined functions
missing_symbols  the note on missing symbols
"""
