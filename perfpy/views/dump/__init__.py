"""report -D and script -D: the bytes and text of every record.

Modules:

recording      writes the dump
samples        samples
user_records   perf's own records
aux_data       AUX data of hardware tracers
intel_pt       packets of Intel PT
arm_spe        packets of Arm SPE
"""
