"""Find the command of a command line by its first words: the table of commands, options before it, lines without one.

Modules:

commands            the table of commands
global_options      options before the command
group               --help, and lines without a known command
missing_commands    perf's commands that perfpy does not have, and alternatives
start               `perfpy ./program` and `perfpy PID`: record, then report
errors              the line and the exit status of an error; PERFPY_DEBUG
complete            candidates for the shells' completions
topics              pages of `perfpy help TOPIC`
"""
