"""The output of `perfpy why`.

words    words for activities, locks and functions
verdict  the sentences
text     the tables
as_json  JSON
chrome_trace  states of threads over time, for Perfetto
watched  threads seen through /proc
"""
