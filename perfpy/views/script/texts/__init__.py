"""The fields of samples as text, a piece for all samples of a batch.

Modules:

field_text         the text of each field except addresses
time_text          time stamps
addresses          frames of data and branch addresses
frame_text         addresses with symbols and dsos, and callchains
known_chains       cached lines of callchains
memory_text        data sources of memory accesses
metric_text        metrics of group samples
"""
