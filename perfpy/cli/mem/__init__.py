"""`perfpy mem`.

Modules:

command   the command and its actions
options   the options of each action
report    mem report
samples   mem report -D: every access on a line
record    mem record; also the events of c2c record
"""
