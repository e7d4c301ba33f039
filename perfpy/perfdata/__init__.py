"""The perf.data file: read and write its header, features and records, in order of delivery.

Modules:

reader              PerfData: one recording of any kind, opened for reading
sample_source       the protocol that analysis reads samples through
file_preamble       events and features around the data of a file
recording_folder    recordings that are folders (perf record --threads)
copied_features     feature sections of one recording, encoded for another
sample_columns      all samples as one column per field
tracepoint_columns  all samples of one tracepoint, with its fields as columns
tracepoint_rows     selected fields of several tracepoints, read in one pass
thread_rates        periods of an event as nanoseconds on the CPU
skeleton            a recording without its samples, and the reverse
tables_folder       recognize folders of tables (perfpy export --parquet)
bounded_tables      open Parquet files of untrusted origin within a memory limit
aux_pieces          locate AUX data in a recording
byte_cursor         read and write the primitive fields of feature sections

Packages: container (header, features, writer), records (walk, delivery order, batches, side-band), tracepoints (formats).
"""
