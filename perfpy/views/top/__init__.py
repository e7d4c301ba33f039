"""Live views as text and on screens.

Modules:

rates   the numbers of an interval, and perf top's header line
text    perf top --stdio
model   the rows of a screen and their last minute
code    the code of a function on a screen
screen  the screen's keys and lines
"""
