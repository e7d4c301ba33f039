"""The order in which records are delivered, and parts of a recording that can be delivered on their own.

Modules:

order            the order of delivery, as one key per record
keys             chunks with events, times and keys
sample_order     the order of delivery of all samples
spans            parts of a recording that can be read independently
"""
