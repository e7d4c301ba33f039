"""Linux system calls: numbers, names, arguments, constants and error numbers of several machines, as tables.

The tables are facts of the kernel's published headers (include/uapi, asm/unistd.h of each machine), of its tracepoint formats
(events/syscalls/*/format) and of the manual pages of section 2. They ship with perfpy, because a recording may come from another machine.

Modules:

numbers     machine and number -> name, from numbers.tsv
arguments   name -> names and kinds of its arguments, from arguments.tsv
structures  name -> the structures that its arguments point to, from structures.tsv
constants   kind -> names of values and bits, from constants.tsv
results     name -> kind of its result
open_flags  the flags of open(2), by machine
ioctls      the commands of ioctl(2), from ioctls.tsv
errors      error number -> name and text, from errors.tsv
groups      names of groups of calls: file, network, process ...
tables      read the tables
"""
