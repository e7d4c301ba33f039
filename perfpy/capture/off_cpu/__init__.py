"""record --off-cpu: the time that threads spend off the CPU, the reason, and the thread that wakes them.

Modules:

sources         the events to open
limit           the limit of stacks per second
piece_waits     switches -> waits, piece by piece
wait_samples    waits -> SAMPLE records
"""
