"""Write bytes of ring buffers to files: perf.data, folders, pipes.

Modules:

attention           inputs besides ring buffers: signals, times, commands; wakeups: signals as something to poll
draining            copies the ring buffers; threaded_draining: with several threads
moved_text_watch    records of text that processes move
output              one output, in rounds; output_switch: when the next one begins
data_file           the perf.data around the records
folder_output, ring_files   a folder with a file for the ring buffers of each CPU
unwound_output      records rewritten by the unwinding process; stack_file: the raw stacks beside them
"""
