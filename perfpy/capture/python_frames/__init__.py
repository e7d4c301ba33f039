"""`record --python`: functions and lines of Python programs, read from the memory of their interpreters.

Three processes take part. The recorder empties the ring buffers, and tells the reader with each write what is new. The reader
(perfpy.capture.unwinding.frame_reading) has the Python frames of the sampled threads; it is a separate process, because a page of a hostile
program can block its reader for ever. The unwinding process (perfpy.capture.unwinding) has the sample itself, with registers and a stack
copy, and merges both.

With permission to load BPF programs, the kernel copies the frames in the interrupt of the sample (frame_program, sampled_frames). Otherwise
the reader reads them at once when it hears of a sample, and the unwinding process judges which of them still fit it.

How a recording stores Python frames: each code object has a range of addresses, from FIRST_ADDRESS (`functions`) on, the same in all
processes. An address in it is the current instruction: the range's start plus the instruction's offset in bytes, plus two; the start alone
means that the line is unknown. Callchains contain these addresses after the frame of the evaluation loop that ran the function. An MMAP2
record maps the ranges into each process. Its file, jitted-0-1.so in a new folder below the build-id cache, is an ELF image without code: it
has symbols `py::QUALNAME:FILE` as in CPython's own perf maps, and .debug_line. The recording also stores the image (kept_files), so that
reports on other machines, and perf on this one, have names and lines.

Modules:

choices          default clock, callchains, frequency and ring buffers
locating         the interpreter of a process: _PyRuntime, version, evaluation loop
process_memory   the memory of a recorded process
frame_program    the BPF program that copies frames
sampled_frames   its maps; copies and their samples
answers          the reader's messages to the unwinding process
merging          a callchain with its Python frames
sample_frames    callchains with Python frames for batches of samples
asyncio_section  how _asyncio describes its tasks
blocked_loops    turns of event loops that last long
functions        Python functions as code at addresses
thread_names     names of threads as COMM records
image_file       the image's file, and its copy in finished recordings
current_stacks   the stacks of all threads at this moment (perfpy stacks)
notes            the note on the quality of Python frames
"""
