"""The command line in perf's manner: parsing, options, help, configuration, terminal.

Modules:

parser              arguments -> values, by perf's option conventions
options             a command's options as a class, and the command
actions             commands with actions: sched latency
kinds               kinds of options: flags, values, lists
shared              groups of options that several commands have
help_text           --help in click's layout; examples: command lines in it
program_name        the name that perfpy was called by
perfconfig          perf's configuration files; sent_settings: settings for worker processes
symbol_values       options and configuration -> SymbolOptions
opening             the recording that a command reads
nothing_left        the reason if filters leave no samples
header, machine_names, control_lines    texts about recordings and open events
temporary_probes    probes that exist for one measurement
output_files        result files, written whole or not at all
terminal            colour, width, plain text or a view; screen_console: rich consoles
pager               long text through a pager
notes, progress     lines on stderr for people
limits              --fail-if-slower and --fail-above
failed_recordings   warnings about unreadable recordings of a group
"""
