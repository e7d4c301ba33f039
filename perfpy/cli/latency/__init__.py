"""`perfpy latency`: how long the calls of a function take.

options    the options
command    checks, and the order of the steps
measuring  the recording of entries and returns
kernel_latencies  distributions of a recording's latencies (--of)
"""
