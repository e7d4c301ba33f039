"""Decoders of AUX data: what hardware wrote into memory beside the kernel's records -> numbers.

What enters: the bytes that follow AUXTRACE records, in the order of their
offsets. What leaves: tables of columns. A decoder a kind of hardware, each
with the layout of its data; text is made of them by views.
"""
