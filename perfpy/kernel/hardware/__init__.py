"""The machine's hardware, as the kernel describes it.

Modules:

topology         socket, die, core, NUMA node and caches of a CPU
cpu_identity     the CPU's name in event tables
"""
