"""Python scripts of perf, which are called for every sample, as by perf script -s (perf-script-python(1)).

A script runs in this process, as its main module, and gets perf's values in perf's order.

Modules:

program         the script: reads, runs and calls it, reports its failures
run             a run over a recording: calls the script's functions for samples and records
column_run      a run over columns (script --py)
handlers        arguments of tracepoint handlers
samples         dictionaries of samples
frames          dictionaries of frames, and callchains
other_records   functions for records other than samples
tables          rows of database tables (perf_db_export_mode)
context         the module perf_trace_context
words           names of tracepoint flags and values (define_flag_field)
starter         a generated script (-g)
standins        modules that scripts import from perf: Core, Util, EventClass
"""
