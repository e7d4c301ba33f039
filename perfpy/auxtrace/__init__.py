"""Decoders of AUX data: what hardware wrote into memory beside the kernel's records -> numbers.

What enters: the bytes that follow AUXTRACE records, in the order of their
offsets. What leaves: tables of columns, or packets. Each kind of hardware has its decoder,
with the layout of its data; views make text of them.
"""
