"""Handle data that others control: the only way by which it becomes a path, a file, terminal text or memory.

Recordings, ELF files, /proc of other users' processes and answers of servers are data. tests/test_untrusted.py checks that the rest of
the package uses only these modules.
"""
