"""CPython from memory: layouts by version, thread states, frames, code objects, line tables.

What enters: a way to read a process's memory, and the address of its _PyRuntime. What leaves: the frames of a thread, innermost
first, each with its code object and the instruction that it runs; of a code object its name, file and lines.

Nothing that is read may be believed: lists may be endless, pointers lead anywhere, sizes be wrong. Each walk has a bound, and each
value is checked before it is used.
"""
