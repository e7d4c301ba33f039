"""`perfpy c2c`.

Modules:

command   the command and its actions
options   the options of each action
report    c2c report
"""
