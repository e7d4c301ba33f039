"""What a recording says of its tracepoints: the fields of their raw data and how the kernel would print them."""
