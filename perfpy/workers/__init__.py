"""Parallel work in processes.

Modules:

jobs             how many processes to use
forked           forked processes that return results
ordered_writers  forked processes that write results themselves, in order
freed_memory     glibc's handling of freed memory
"""
