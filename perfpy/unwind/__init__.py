"""Unwind user stacks to callchains: call frame information, and a stepper that unwinds all samples together.

Samples have registers and a copy of the stack; a Symbolizer has the mappings. Callchains begin with the innermost frame.

Modules, from the bottom up:
"""
