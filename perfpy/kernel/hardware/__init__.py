"""What the kernel tells about the machine's hardware.

Modules:

topology         socket, die, core, NUMA node and caches of a CPU
cpu_identity     the CPU's name in event tables
"""
