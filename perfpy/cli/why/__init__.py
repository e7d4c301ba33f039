"""`perfpy why`: why a program is slow, and which thread waits for which.

options    the options
command    checks, and the output
measuring  the recording
watching   threads seen through /proc, without access to tracepoints
"""
