"""Points in programs and their variables, as definitions for the kernel's dynamic probes.

Modules, from the text to the definition:
"""
