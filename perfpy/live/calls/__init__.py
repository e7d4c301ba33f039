"""Live system calls: `perfpy trace` of a program, of running tasks or of all CPUs.

Modules, in the order of the data:

text_program     the BPF programs that copy strings and structures of arguments
call_strings     loads them, and reads what they copy
copied_texts     the copies as columns, and the call of each
open_files       the descriptors and folders that processes have now
draining         a thread that empties the ring buffers while calls are printed
record_queue     records that are read and not yet printed
waiting_files    those beyond the limit of memory, on disk
followed_files   the files of descriptors and the strings of calls
live_code        the mappings and symbols of running tasks
session          the events of the ring buffers as pairs of entry and return, with names of threads and files
"""
