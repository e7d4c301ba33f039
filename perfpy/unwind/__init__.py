"""Unwind user stacks to callchains: call frame information, and a stepper that unwinds all samples together.

Samples have registers and a copy of the stack; a Symbolizer has the mappings. Callchains begin with the innermost frame.

Modules, from the bottom up:

architectures      registers and conventions of each architecture
encoded            numbers and pointers of .eh_frame
frame_entries      CIEs and FDEs
frame_index        the FDE of an address
frame_program      the instructions of an FDE, run to rules
rules              all rules, as columns
arm_tables         .ARM.exidx of 32-bit Arm programs
call_frames        the call frame information of a file
kept_rules         rules cached between runs
expressions        DWARF expressions, for many samples together
memory             the known memory of a process: stack copies and mapped files
code_rules         the rules of addresses
trampolines        Python's trampolines without frame pointers
saved_registers    the places of callers' registers
known_callers      a cache of callers by state
followed           callchains that continue as others did
stepper            one step outwards for all samples together
callchains         batches of samples with complete callchains
truncated_stacks   the note on stack copies that are too short
"""
