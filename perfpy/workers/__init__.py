"""Parallel work in processes, and what the kernel and glibc give them.

Modules:

jobs             how many processes to use
forked           forked processes that return results
ordered_writers  forked processes that write results themselves, in order
priority         a higher priority for some time
freed_memory     glibc's handling of freed memory
"""
