"""The text of perf script.

Modules:

run                one `perf script` over a recording
divided            a listing by several processes
lines              lines of samples and side-band records, in order
event_lines        the lines of one event's samples, as pieces
pieces             joins pieces of text of thousands of samples
line_context       the state that all events share
fields             the language of -F
side_band          lines of side-band records
side_line          the line of a side-band record
stat_rounds        counts of `perf stat record`
code/              the code of samples as text: instructions, those between branches, and source lines
texts/             the fields of samples as text, a piece for all samples of a batch
"""
