"""Recordings as Parquet: samples, stacks, frames, symbols, tasks and events as tables, which DuckDB, Polars, Spark and BigQuery read.

What enters: a recording, and a folder. What leaves: files in the folder, to which further recordings are added:

    samples/host=H/day=D/RECORDING.parquet  a row a sample; H: the machine's name, D: 2026-01-31
    stacks/        stack -> frames, innermost first
    frames/        frame -> symbol, address
    symbols/       symbol -> name, dso, path, build_id, start, end, inlined
    tasks/         task -> recording, pid, tid, comm
    events/        event -> name
    recordings/    recording -> host, command, times; and what perfpy needs to read it back
    chains/        recording, chain -> raw addresses, for reading it back

Keys are numbers made of what they stand for, so that the same stack, function or event has the same key in all recordings.
"""
