"""What others control, made safe: the only doors between their data and this machine.

A recording, an ELF file, /proc of another user's process and a server's answer
are data. What they say becomes

    a path            in untrusted.paths
    an open file      in untrusted.files (regular files only, of trusted owners) and, inside the root
                     of another process, untrusted.process_root (with the rights of its user: untrusted.other_user)
    a folder to write in untrusted.folders (ours alone, no links followed)
    terminal text     in untrusted.text and untrusted.terminal
    memory            in untrusted.expansion (decompression with a limit) and untrusted.mapped_files (files that shrink)

and nowhere else; tests/test_untrusted.py holds the rest of the package to it.
"""
