"""Call frame information (.eh_frame, .debug_frame, .ARM.exidx): addresses to rules.

Modules:

encoded            numbers and pointers of .eh_frame
frame_entries      CIEs and FDEs
frame_program      the instructions of an FDE, run to rules
arm_tables         .ARM.exidx of 32-bit Arm programs
call_frames        the call frame information of a file
kept_rules         rules cached between runs
"""
