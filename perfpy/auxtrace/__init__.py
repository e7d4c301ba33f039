"""Decode AUX data, the traces that hardware writes beside the kernel's records.

Decoders read the bytes after AUXTRACE records in the order of their offsets, and return columns or packets. Each kind of hardware has its
own.

Modules:

hisi_pmcu       the layout of a HiSilicon PMCU's data
recorded_pmcu   a PMCU's data in a recording
intel_pt        packets of Intel PT
"""
