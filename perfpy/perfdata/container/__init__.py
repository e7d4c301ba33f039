"""The file around the records: header, event table, feature sections and compression, read and written.

Modules:

header              the file header, the attr table and the pipe header
preamble            events and features, before any record is read
events              the events of a file, with their ids, names and groups
event_names         default names of events, from their attrs
features            feature sections <-> values
feature_values      the types of these values
machine_features    sections of CPUs, memory nodes, caches and scheduling domains
bpf_programs        functions of recorded BPF programs
kept_files          files stored inside of a recording
early_features      feature records of pipes of perf 3.x
source              random access to a file, a descriptor or a spooled pipe
writer              write a seekable perf.data or a pipe
compression         records -> COMPRESSED records
"""
