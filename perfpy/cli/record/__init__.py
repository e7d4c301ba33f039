"""`perfpy record`.

Modules:

options             the options
command             the command
self_contained      --self-contained
"""
