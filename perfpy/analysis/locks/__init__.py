"""Waits for locks as tables: what `perfpy lock` prints.

Modules:

contention   the waits of a recording
callers      the functions that waited
owners       who held the locks
lock_table   waits by caller, thread or lock
"""
