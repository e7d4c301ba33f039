"""`record --python`: functions and lines of Python programs, read from the memory of their interpreters.

The recorder tells a reader (perfpy.capture.unwinding.python_reader) which samples are new. With permission to load BPF programs, the kernel
copies the frames in the interrupt of the sample (kernel_frames); otherwise the reader reads them at once. The unwinding process judges
which frames fit the sample's stack, and merges them into its callchain (merging, recorded_frames).
"""
