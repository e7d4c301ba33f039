"""Merge the Python frames of a thread into the callchain of a sample.

Modules:

callchains    a callchain with its Python frames
evaluation    the Python frame and instruction in an evaluation loop's frame
registers     the registers of the frames of a callchain
home_slots    the stack slot in which an evaluation loop saves its instruction
seen_callers  callers from other readings of a thread
"""
