"""`perfpy timechart`.

Modules:

command   the command and its action
options   its options
record    timechart record
draw      the chart of a recording
"""
