"""The text of `perfpy sched`, byte for byte perf 6.12's.

Modules:

columns         durations, times and names as pieces of lines
latency_table   sched latency
timehist_lines  sched timehist; chain_text: its callchains; summary_text: -s
map_lines       sched map
replay_text     sched replay
statistics_text sched stats
"""
