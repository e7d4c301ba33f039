"""Memory accesses and the cache lines that CPUs share.

Modules:

access_kinds   what an access was, as counters
accesses       the accesses of a recording as columns, and the nodes of its machine
cache_lines    accesses by cache line
line_rows      the accesses of one line by offset and code
"""
