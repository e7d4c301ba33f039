"""`perfpy ftrace`.

Modules:

command   the command and its actions
options   the options of each action
tracing   one measurement: the tracer's settings, the program, and the lines of the trace
actions   trace, latency and profile
"""
