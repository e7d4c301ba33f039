"""`perfpy stat`.

Modules:

options     the options
command     the command; stat record
report      stat report
compare     stat --compare
request     options -> a Plan
session     one measurement with signals, messages and exit status
output      format and destination of the counts
signals     SIGINT and SIGTERM as requests to stop
progress    the progress of repeated runs
verbose     the lines of -v and -vv
"""
