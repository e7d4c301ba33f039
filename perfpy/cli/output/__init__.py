"""Print notes, progress and results to terminals, pagers and files.

Modules:

terminal            colour, width, plain text or a view
screen_console      rich consoles
notes, progress     lines on stderr for people
output_files        result files, written whole or not at all
header              the header of a recording, for --header, --header-only and -I
machine_names       names for the numbers in attrs, from sysfs and tracefs
control_lines       the open events, for evlist over --control
failed_recordings   warnings about unreadable recordings of a group
"""
