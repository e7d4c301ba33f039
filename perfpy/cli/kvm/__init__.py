"""`perfpy kvm`.

Modules:

command   the command and its actions
options   the options of each action
report    kvm stat report
record    kvm stat record
"""
