"""Decode AUX data, the traces that hardware writes beside the kernel's records.

Decoders read the bytes after AUXTRACE records in the order of their offsets, and return columns or packets. Each kind of hardware has its
own.
"""
