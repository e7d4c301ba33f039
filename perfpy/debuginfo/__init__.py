"""Source lines and inlined calls of addresses, from DWARF debug information.

Modules, from the file to the answers:
"""
