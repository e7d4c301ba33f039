"""Unwind user stacks to callchains: call frame information, and a stepper that unwinds all samples together.

Samples have registers and a copy of the stack; a Symbolizer has the mappings. Callchains begin with the innermost frame.

Modules, from the bottom up:

architectures      registers and conventions of each architecture
rules              all rules, as columns
expressions        DWARF expressions, for many samples together
memory             the known memory of a process: stack copies and mapped files
code_rules         the rules of addresses
saved_registers    the places of callers' registers
known_callers      a cache of callers by state
continued_callchains  callchains that continue as others did
stepper            one step outwards for all samples together
callchains         batches of samples with complete callchains
truncated_stacks   the note on stack copies that are too short
call_frame_info/   call frame information (.eh_frame, .debug_frame, .ARM.exidx): addresses to rules
"""
