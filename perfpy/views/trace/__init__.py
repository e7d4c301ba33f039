"""perf trace's text: lines of system calls, and tables of their times.

Modules:

lines             the lines of calls
call_text         a call's name, arguments and result
argument_texts    the text of one argument, by kind
summary_text      the tables of -s
recorded_calls    the calls of a recording
"""
