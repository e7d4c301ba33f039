"""Compute which memory the kernel allocated: objects of the slab allocator, and pages.

Modules:

slab        objects by call site and by address
pages       pages by call site and by number, and what was freed
call_sites  the functions that asked for pages
"""
