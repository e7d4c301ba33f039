"""The output of `perfpy why`.

words    words for activities, locks and functions
verdict  the sentences
text     the tables
as_json  JSON
watched  threads seen through /proc
"""
