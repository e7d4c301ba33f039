# What the option lines read, made once in an empty folder: by perf ($PERF), of program.c beside this file ($HERE).
# The corpus has what this machine cannot record.
set -eu
gcc -O1 -g -fno-omit-frame-pointer -pthread -o prog "$HERE/program.c"
corpus=$HERE/../../corpus/recordings
for name in made-branches made-memory jitdump perf7-chains stat-interval; do
    [ -f "$corpus/$name.data.xz" ] && xz -dc "$corpus/$name.data.xz" > "$name.data"
done
record() { "$PERF" record -q "$@"; }
record -o plain.data -e task-clock -F 2000 ./prog 20000
record -o cg.data -e task-clock -F 2000 -g ./prog 20000
record -o dw.data -e task-clock:u -F 1000 --call-graph dwarf,4096 ./prog 10000
record -o multi.data -e task-clock,page-faults -F 500 ./prog 10000
record -o group.data -e '{task-clock,page-faults,context-switches}' -F 500 ./prog 10000
record -o sums.data -e task-clock,page-faults -F 500 -s ./prog 10000
record -o wide.data -a -e cpu-clock -F 200 -g ./prog 20000
record -o sched.data -e sched:sched_switch,raw_syscalls:sys_enter,task-clock ./prog 2000
record -o switch.data -e task-clock -F 500 --switch-events --namespaces --all-cgroups ./prog 10000
record -o data.data -e page-faults -c 1 -d --phys-data --data-page-size --code-page-size -W ./prog 100
record -o regs.data -e task-clock:u -F 500 --user-regs=ip,sp,bp -I ./prog 5000
record -o other.data -e task-clock -F 2000 ./prog 30000
record -o - -e task-clock ./prog 2000 > pipe.data
"$PERF" stat record -o stat.data -e task-clock,page-faults ./prog 1000 2> /dev/null
"$PERF" stat record -o statI.data -I 50 -e task-clock,page-faults ./prog 50000 2> /dev/null
"$PERF" stat record -o statA.data -a -A -e cpu-clock,page-faults ./prog 1000 2> /dev/null
"$PERF" stat record -o wstat.data -a -e cpu-clock,page-faults ./prog 1000 2> /dev/null
