"""What a recording says beside its samples: the machine, its tasks and files, the events.

synthesis           records about tasks and mappings that exist already; kernel_extent: the bounds of the kernel's text
event_records       events and features as records, in front of the samples
recorded_features   feature sections of the header; tracing_data: the formats of tracepoints
build_id_table      build-ids of the files that samples hit; unpacked: the content of compressed files
frame_pointer_hint  whether callchains end too early, for a hint
kernel_copy         the kernel's code and symbols (--kcore)
"""
