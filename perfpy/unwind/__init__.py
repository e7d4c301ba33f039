"""User stacks -> callchains: call frame information, and the stepper that unwinds all samples together.

What enters: the registers and the copy of the stack that samples carry, and a Symbolizer, which knows what was mapped where.
What leaves: the callchains of user space, innermost frame first. From the bottom up:

    architectures       registers and conventions of each architecture, as data
    encoded             numbers and pointers as .eh_frame writes them
    frame_entries       CIEs and FDEs; frame_index: which FDE an address belongs to
    frame_program       an FDE's instructions -> rules; rules: all rules that were met, as columns
    arm_tables          what 32-bit Arm programs have in place of .eh_frame
    expressions         DWARF expressions, for many samples together
    memory              what of a process's memory is known: the copied stack, the mapped files
    code_rules          addresses -> rules
    saved_registers     where callers keep their registers, of many chains at once
    known_callers       callers that were found before; followed: the chains that go on as others did
    stepper             one step outwards for all samples together, as often as there are callers
    callchains          batches of samples with longer callchains; truncated_stacks: what is said of copies that are too short
"""
