"""The records between header and features: find them, and deliver them in order as batches and side-band.

Modules, in the order of the data:

walk                 find the records in a buffer
chunk                a range of records in one buffer
stream               the records of a file, chunk by chunk
decompression        COMPRESSED records -> the records inside them
event_table          the event and the time of each record
delivery             the order of delivery, and parts that can be read independently
record_index         the first pass: side-band, counts, and the order to read chunks in
raw_records          records before they are decoded
side_band            records other than samples, decoded in order
raw_data             the raw data of samples where they lie in the buffer
batches              samples as columns, in order of delivery
scans                all passes over the records of a recording
group_reads          samples with counter readings -> one row per counter
deferred_callchains  user callchains that follow their samples
embedded_waits       waits in the raw data of BPF output samples
pipe_preamble        events and features of a pipe
"""
