"""perf trace's text: lines of system calls, and tables of their times.

Modules:

lines             the lines of calls
line_heads        their beginnings: time, CPU, duration
known_lines       the texts of lines that occur again
slowest           the slowest calls, at the end
stack_text        callchains below the lines, and page faults
call_text         a call's name, arguments and result
arguments         the arguments of calls as text
switched          samples between two events
other_events      samples of other events between the calls
event_sums        page faults and run times of threads
call_tables       tables of calls: -s, percentiles and histograms, by file or peer
lane_lines        collect calls for the page
lane_page         the page with a lane for each thread
json_lines        calls and tables as JSON
recorded_calls    the calls of a recording; divided_calls: by several processes
"""
