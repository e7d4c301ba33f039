"""Read CPython's frames from memory.

A process's memory and the address of its _PyRuntime lead to the frames of a thread, innermost first, each with its code object and the
current instruction; a code object has a name, a file and lines.

The memory is not trusted: lists may be endless, pointers invalid, sizes wrong. Each walk has a bound, and each value is checked.

Modules:

process         the frames of one process's threads
threads         thread states, by the kernel's thread ids
thread_names    the names of Python's threads
frames          the frames of a thread
event_loops     how long an asyncio event loop has been running callbacks
awaiting_tasks  the coroutines that await the running task
published_tasks which task awaits another, since 3.14
task_callbacks  which task awaits another, before 3.14
code_objects    names, files and instructions of code objects
objects         strings, dictionaries, attributes
line_tables     the source lines of instructions
layouts         offsets of fields, by version
debug_offsets   the offsets that CPython 3.13 and newer publish
memory          access to another process's memory
"""
