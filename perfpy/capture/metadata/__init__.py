"""The recording's data besides samples: the machine, its tasks and files, the events.

Modules:

synthesis           records about running tasks and their mappings; the bounds of the kernel's text
event_records       events and features as records before the samples
recorded_features   feature sections of the header; tracing_data: the formats of tracepoints
build_id_table      build-ids of the hit files; unpacked: the records in compressed files
frame_pointer_hint  a hint if callchains end too early
moved_text          text that processes have moved to other memory at its own address
kernel_copy         the kernel's code and symbols (--kcore)
"""
