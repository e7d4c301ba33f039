"""`perfpy kmem`.

Modules:

command   the command and its actions
options   its options, and those that belong to one of two tables
record    kmem record
stat      kmem stat
"""
