"""SAMPLE records: bytes to columns and back.

Modules:

decoding            samples as columns
cursor, fields, branches, branch_flags    field by field
fixed_fields        the fields at the beginning of samples
record_starts       one field of many records
encoding            one sample as bytes
rows                many samples as bytes
registers           names of sampled registers
pace                whether samples are drawn by time or by count
"""
