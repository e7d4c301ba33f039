"""The perf.data file: read and write its header, features and records, in order of delivery.

Modules:

Packages: container (header, features, writer), records (walk, delivery order, batches, side-band), tracepoints (formats).
"""
