"""The command line in perf's manner: parsing, options, help, configuration. perfpy.cli.output prints.

Modules:

parser              arguments -> values, by perf's option conventions
options             a command's options as a class, and the command
actions             commands with actions: sched latency
kinds               kinds of options: flags, values, lists
filters             options that select tasks, CPUs and samples; lists, patterns and times as values
shared              groups of options that several commands have
help_text           --help in click's layout; examples: command lines in it
program_name        the name that perfpy was called by
perfconfig          perf's configuration files, also for worker processes
symbol_values       options and configuration -> SymbolOptions
opening             the recording that a command reads
empty_results       the reason if filters leave no samples
pager               long text through a pager
regression_limits   --fail-if-slower and --fail-above
"""
