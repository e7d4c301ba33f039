"""`record --python`: the functions and lines of Python programs, read from the memory of their interpreters.

Three processes take part. The recorder empties the rings, and tells the reader with each write what is new. The reader reads the
Python frames of the sampled threads at once (perfpy.capture.unwinding.frame_reading); it is a process of its own, as a page of a
hostile program can make its reader wait for ever. The unwinding process (perfpy.capture.unwinding) has meanwhile the sample itself,
with registers and a copy of the stack, and puts both together (`merging`).

How a recording holds Python frames: a code object has a range of addresses of its own, from FIRST_ADDRESS (`functions`) on, the same
one in all processes. An address in it is the instruction that runs: the range's beginning plus the instruction's offset in bytes,
plus two; the beginning alone says that the function is known, but not the line. Callchains hold these addresses after that of the
evaluation loop's frame that ran the function, so the loop stands in front of its Python frames. An MMAP2 record maps the ranges into each
process; its file, jitted-0-1.so in a folder of its own below the build-id cache, is an ELF image without code: symbols
`py::QUALNAME:FILE` as CPython's own perf maps have them, and .debug_line. The image is kept in the recording (kept_files), too, so that
reports on other machines, and perf on this one, have names and lines.
"""
