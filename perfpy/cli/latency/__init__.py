"""`perfpy latency`: how long the calls of a function take.

command    options, and the order of the steps
measuring  the recording of entries and returns
"""
