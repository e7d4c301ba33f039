"""The text of perf script.

Modules:

run                one `perf script` over a recording
divided            a listing by several processes
lines              lines of samples and side-band records, in order
event_lines        the lines of one event's samples, as pieces
pieces             joins pieces of text of thousands of samples
line_context       the state that all events share
fields             the language of -F
field_text         the text of each field except addresses
time_text          time stamps
addresses          frames of data and branch addresses
frame_text         addresses with symbols and dsos, and callchains
known_chains       cached lines of callchains
memory_text        data sources of memory accesses
branch_text        branch stacks: brstack, brstacksym, brstackoff
branch_counters    counts between branches: brcntr
branch_code        instructions between branches: brstackinsn
instruction_text   instructions of samples: insn, insnlen, disasm
code_at            the code at frames
source_code        source code below samples: srccode
metric_text        metrics of group samples
side_band          lines of side-band records
side_line          the line of a side-band record
stat_rounds        counts of `perf stat record`
"""
