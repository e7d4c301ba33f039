"""`perfpy why`: who waits for whom.

options    the options
command    checks, and the output
measuring  the recording
watching   threads seen through /proc, without access to tracepoints
"""
