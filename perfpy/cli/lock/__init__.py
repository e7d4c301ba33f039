"""`perfpy lock`.

Modules:

command      the command and its actions
options      the options of each action
record       lock record
waits        the waits of the input, and names of locks and threads
report       lock report and lock info
contention   lock contention
"""
