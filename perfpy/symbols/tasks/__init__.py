"""Tasks over time: the one replay of fork, exec, comm and mmap, and who was where when."""
