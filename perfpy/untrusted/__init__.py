"""Handle data that others control: the only way by which it becomes a path, a file, terminal text or memory.

Recordings, ELF files, /proc of other users' processes and answers of servers are data. tests/test_untrusted.py checks that the rest of
the package uses only these modules:

paths            names to paths
judging          check a file before it is opened
files            open regular files of trusted owners
destinations     what options name for writing: folders by descriptor, links, fifos, devices
result_files     result files, written whole or not at all
process_files    files that a process wrote about itself: owners, age
process_root     files in another process's root, with its user's rights
identified_file  mapped files, by device and inode
pinned_files     open files whose path is given to the kernel
other_user       a thread with another user's rights
folders          folders of our own to write to, without following links
text             names to printable text
terminal         the stream to a terminal
page             values in an HTML page
expansion        decompression with a limit
parquet_pages    the expanded size of Parquet pages
tar_stream       tar archives
download         answers of HTTP servers, within time limits
mapped_files     mapped files that are truncated while they are read
"""
