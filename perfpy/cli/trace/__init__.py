"""`perfpy trace`: system calls as they happen, or from a recording.

Modules:

command     which of its forms a line asks for
options     perf trace's options
selection   -e: system calls, groups of them, and other events
replay      a recording as lines and tables
live        a program or running tasks
output      where the lines go
"""
