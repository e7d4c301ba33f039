"""perf trace's text: lines of system calls, and tables of their times.

Modules:

lines             the lines of calls
line_heads        their beginnings: time, CPU, duration
known_lines       the texts of lines that occur again
slowest           the slowest calls, at the end
stack_text        callchains below the lines, and page faults
call_text         a call's name, arguments and result
kinds             kinds of arguments to what makes them text
argument_texts    the texts of numbers, names, descriptors and processes
special_texts     the texts of modes, sockets, futexes and dependent arguments
structure_text    the text of structures that arguments point to
unused_arguments  arguments that a call does not use
switched          samples between two events
other_events      samples of other events between the calls
event_sums        page faults and run times of threads
summary_text      the tables of -s
percentile_text   tables with percentiles, histograms
named_text        tables of calls by file or by peer
lane_lines        collect calls for the page
lane_page         the page with a lane for each thread
json_lines        calls and tables as JSON
recorded_calls    the calls of a recording
"""
