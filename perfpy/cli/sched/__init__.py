"""`perfpy sched`.

Modules:

command    the command and its actions
options    the options of each action
opening    the recording that an action reads
record     sched record
latency    sched latency
timehist   sched timehist
map        sched map
replay     sched replay
stats      sched stats
"""
