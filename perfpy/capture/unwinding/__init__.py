"""Unwinding while a recording runs: a second process converts stack copies to callchains.

Modules:

process             the second process, as the recorder sees it
messages            the protocol between both
spool               ring buffers' data shared by both; spool_reading: the reading side
serving             the second process's loop
unwinder            pieces -> pieces with callchains; stack_rewriting: their records
replay              tasks and mappings while recording
plain_attrs         attrs of unwound events
side_band_log       side-band, for a file that begins in the middle
rescue              completes the file if the recorder is killed
frame_reader        the process that reads Python frames, as the recorder sees it; frame_reading: its work
"""
