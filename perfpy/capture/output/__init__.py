"""Bytes of ring buffers -> files: perf.data, folders of them, pipes.

attention           what a recording waits for beside its rings: signals, times, commands; wakeups: signals as something to poll
draining            copies what rings hold; threaded_draining: with several threads
output              one output, in rounds; output_switch: when the next one begins
data_file           the perf.data around the records; attr_size: attrs of the size that the machine's perf knows
folder_output, ring_files   a folder with a file for the rings of each CPU
unwound_output      records that go through the process that unwinds; stack_file: the file of raw stacks beside them
"""
