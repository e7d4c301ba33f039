"""`perfpy kwork`.

Modules:

command   the command and its actions
options   the options of each action
record    kwork record
work      the events of the input, with names, CPUs and times that the options select
report    kwork report, latency and timehist
top       kwork top
"""
