"""Live views as text and on screens.

Modules:

rates   the numbers of an interval, and perf top's header line
text    perf top --stdio
"""
