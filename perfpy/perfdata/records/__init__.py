"""The records between header and features: find them, and deliver them in order as batches and side-band.

Modules, in the order of the data:
"""
