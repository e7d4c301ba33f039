#!/bin/bash
# host.sh FOLDER [NAME ...]: make the recordings of this machine (x86-64, as root), or those named, in FOLDER.
#
# PERF and PERF7: the perf that records (perf, 6.12) and a newer one (perf7, 7.x); without that one its recordings are left out.
# All of it happens in namespaces of its own: the host is called "host", the folder is /tmp/c, no process of the machine is seen,
# so that nothing of the machine but its kernel and its processors is in a recording.
set -eu
here=$(dirname "$(readlink -f "$0")")
if [ "${1:-}" != --inside ]; then
    mkdir -p "$1"
    "$here/../program/build" "$1/program"
    out=$(readlink -f "$1")
    shift
    exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin PERF="$(command -v "${PERF:-perf}")" PERF7="$(command -v "${PERF7-perf7}")" OUT="$out" \
        TZ=UTC LC_ALL=C PERF_CONFIG=/dev/null \
        unshare --uts --pid --mount --fork --mount-proc bash "$0" --inside "$@"
fi
shift

hostname host
mkdir -p /mnt/corpus /mnt/builders
mount --bind "$OUT" /mnt/corpus
mount --bind "$here/../../builders" /mnt/builders
mount -t tmpfs none /tmp
mkdir /tmp/c
cd /tmp/c
cp /mnt/corpus/program/* /mnt/builders/bpf_programs.py .
export HOME=/tmp/c/home PERF_BUILDID_DIR=/tmp/c/home/.debug PYTHONDONTWRITEBYTECODE=1
wanted=" $* "

# NAME COMMAND...: run it, unless others are wanted; what it leaves in NAME.data is kept
make() {
    local name=$1
    shift
    [ "$wanted" = "  " ] || [[ $wanted == *" $name "* ]] || return 0
    rm -f /tmp/c/*.data
    for attempt in 1 2 3 4 5 6 7 8; do
        "$@" >/tmp/c/out.txt 2>&1 </dev/null || { echo "$name: status $?"; tail -n 3 /tmp/c/out.txt; }
        [ -s "$name.data" ] || { echo "$name: nothing recorded"; return; }
        strangers || { cp "$name.data" /mnt/corpus/; return; }
    done
    echo "$name: other processes are in it each time"
}
# Whether a recording of whole CPUs has caught programs of others: best made when nothing else runs.
strangers() { strings -a "$name.data" | grep -E '^/[a-z]+/[a-z]' | grep -qvE '^/(tmp/c|usr|opt|proc|lib|etc|sys|bin|dev|memfd)\b'; }
# NAME OPTIONS...: perf record
record() { local name=$1; shift; make "$name" "$PERF" record --no-bpf-event -o "$name.data" "$@"; }
# NAME OPTIONS...: perf record into a pipe
piped() { local name=$1; shift; make "$name" bash -c '"$0" record --no-bpf-event -o - "$@" >'"$name.data" "$PERF" "$@"; }
# NAME OPTIONS...: perf stat record
counted() { local name=$1; shift; make "$name" "$PERF" stat record -o "$name.data" "$@"; }
work=./work

# --- software events
record cpu-clock -e cpu-clock -F 2000 $work spin 300 chain 100
record task-clock-user -e task-clock:u -c 1000000 $work spin 300 chain 100 recurse 20
record page-faults -e page-faults -c 1 -d $work faults
record context-switches -e context-switches -c 1 $work sleep 5
record several -e task-clock,page-faults,context-switches,cpu-migrations,minor-faults -F 1000 $work spin 200 faults sleep 3
record terms -e 'task-clock/name=my_clock,period=2000000/u,cpu-clock/freq=500/' -F 999 $work spin 300
record no-samples -e major-faults $work spin 1
record breakpoint -e "mem:0x$(nm work | awk '$3 == "probed" { print $1 }'):x" -c 1 $work probe 4
record breakpoint-write -e "mem:0x$(nm work | awk '$3 == "sum" { print $1 }')/8:w" -c 1 -d $work probe 4

# --- what a sample may hold
record chains --call-graph fp -e task-clock -F 1500 $work chain 100 recurse 20 sleep 2
record chains-user --call-graph fp -e task-clock:u -F 1500 $work chain 150 recurse 20
record chains-dwarf --call-graph dwarf,1024 -e task-clock:u -F 400 $work chain 150 recurse 10
record addresses -d --phys-data --data-page-size --code-page-size -W -e page-faults -c 4 $work faults fork faults
record registers --intr-regs=ax,sp,ip --user-regs=ax,sp,ip,r8 -e task-clock -F 500 $work spin 200
record raw -R --sample-cpu -s -T -e cpu-clock -F 500 $work spin 200 sleep 2
record identifier --sample-identifier -P -e cpu-clock -F 500 $work spin 200
record all-cgroups --all-cgroups -e task-clock -F 500 $work spin 200

# --- groups
record group -e '{task-clock,page-faults,context-switches}' -F 500 $work spin 200 faults
record group-leader -e '{cpu-clock,page-faults,context-switches}:S' -F 500 $work spin 200 faults sleep 2
record group-named -e 'clocks{task-clock,cpu-clock}' -e page-faults -F 500 $work spin 200

# --- tracepoints
record sched -e sched:sched_switch,sched:sched_process_fork,sched:sched_process_exit,sched:sched_process_exec $work sleep 3 fork exec sleep 2
record syscalls -e raw_syscalls:sys_enter,raw_syscalls:sys_exit $work sleep 2 name
record syscalls-filter -e raw_syscalls:sys_enter --filter 'id == 35' $work sleep 2 name
record tracepoint-chains -g -e sched:sched_switch $work sleep 3
record tracepoint-dynamic -e 'sched:sched_process_exec,syscalls:sys_enter_nanosleep,kmem:rss_stat,task:task_newtask' $work sleep 2 fork exec sleep 1
make uprobe bash -c '"$0" probe -q -x /tmp/c/work probed value=%di; "$0" probe -q -x /tmp/c/work "probed%return \$retval"
    "$0" record --no-bpf-event -e "probe_work:*" -o uprobe.data ./work probe 3; "$0" probe -q -d "probe_work:*"' "$PERF"

# --- tasks and mappings
record fork-exec -e task-clock -F 1000 $work spin 50 fork name spin 50 exec spin 50
record per-thread --per-thread -e task-clock -F 500 $work spin 200
record no-inherit -i -e task-clock -F 500 $work spin 100 fork spin 100
record namespaces --namespaces -e task-clock -F 500 unshare -u -i ./work spin 100
record switch-events --switch-events -e task-clock -F 500 $work spin 100 sleep 3
record build-id-mmap --buildid-mmap -e task-clock -F 500 $work spin 100
record build-id-all --buildid-all -e page-faults -c 1 $work faults
record no-build-id -B -e task-clock -F 500 $work spin 100
record synth-none --synth=no -e task-clock -F 500 $work spin 100
record synth-task --synth=task -e task-clock -F 500 $work spin 100
record one-cpu -C 1 -e cpu-clock -F 500 taskset -c 1 ./work spin 100
record wide -a -e cpu-clock -F 250 $work spin 100 fork spin 50
record shell -e task-clock:u -F 3000 sh -c './work spin 50; ./work spin 50 | cat'
make bpf "$PERF" record -o bpf.data -e task-clock:u -F 200 /usr/bin/python3 -IS -c '
import sys; sys.path.insert(0, "/tmp/c")
import bpf_programs, os
os.close(bpf_programs.load("adds", ("first", "second")))'

# --- clocks and options
record clock-monotonic -k mono -e task-clock -F 500 $work spin 100
record clock-boot -k CLOCK_BOOTTIME -e task-clock -F 500 $work spin 100
record delay -D 20 -e task-clock -F 1000 $work spin 400
record max-size --max-size 8K -e task-clock -F 1000 $work spin 500
record overwrite --overwrite -e task-clock -F 1000 $work spin 100 fork spin 10
record affinity --affinity=cpu -e task-clock -F 500 $work spin 100
record weight -W --no-buffering -e task-clock -F 500 $work spin 100
record kernel-only -e task-clock:k -c 100000 $work faults 50 sleep 50
record lost -m 1 --max-size 12K -e page-faults,raw_syscalls:sys_enter -c 1 -g $work faults sleep 2 name 3000

# --- pipes and compression
piped pipe -e task-clock -F 500 $work spin 100
piped pipe-tracepoints -e sched:sched_switch,raw_syscalls:sys_enter $work sleep 2
piped pipe-group -e '{cpu-clock,page-faults}:S' -F 500 $work spin 100
piped pipe-chains -g -e task-clock:u -F 500 $work chain 100
piped pipe-zstd -z -e task-clock -F 500 $work spin 100
record zstd -z -e task-clock -F 500 $work spin 200
record zstd-many -z -m 4 -e raw_syscalls:sys_enter,task-clock -F 4000 $work spin 200 name 300
record zstd-chains -z -g -e task-clock -F 1500 $work chain 150

# --- counts
counted stat -e task-clock,page-faults,context-switches $work spin 100 faults sleep 2
counted stat-interval -I 10 -e task-clock,page-faults $work spin 600
counted stat-core -a --per-core -e task-clock,page-faults $work spin 100
counted stat-socket -a --per-socket -e task-clock $work spin 100
counted stat-cpus -a -A -e task-clock,context-switches $work spin 100
make stat-thread bash -c './work spin 1000 & "$0" stat record --per-thread -e task-clock,page-faults -o stat-thread.data -p $! sleep 0.1; wait' "$PERF"
counted stat-group -e '{task-clock,page-faults}' -e context-switches $work spin 100
counted stat-tracepoint -e raw_syscalls:sys_enter,sched:sched_switch $work sleep 3

# --- code made at run time
make perf-map bash -c 'rm -f /tmp/perf-*.map; "$0" record --no-bpf-event -e task-clock:u -F 1000 -o perf-map.data ./jit map && rm -rf /mnt/corpus/maps && mkdir /mnt/corpus/maps && cp /tmp/perf-*.map /mnt/corpus/maps/' "$PERF"
make jitdump bash -c '"$0" record --no-bpf-event -k mono -e task-clock:u -F 1000 -o plain.data ./jit dump &&
    "$0" inject --jit -i plain.data -o jitdump.data && rm -rf /mnt/corpus/jitted && mkdir /mnt/corpus/jitted && cp jitted-*.so /mnt/corpus/jitted/' "$PERF"

# --- recordings that ended badly
make killed bash -c '"$0" record --no-bpf-event -m 2 -e task-clock -F 400 -o killed.data ./work spin 2000 & sleep 0.8; kill -9 $!; wait' "$PERF"

# --- a newer perf
if [ -n "$PERF7" ]; then
    PERF=$PERF7
    record perf7-clock -e task-clock -F 500 $work spin 100
    record perf7-chains -g -e task-clock -F 1000 $work chain 100 sleep 2
    record perf7-default -F 500 $work spin 100
    record perf7-sched -e sched:sched_switch,raw_syscalls:sys_enter $work sleep 2
    record perf7-zstd -z -e task-clock -F 500 $work spin 100
    record perf7-group -e '{cpu-clock,page-faults}:S' -F 500 $work spin 100 faults
    record perf7-latency --latency -e task-clock -F 1000 $work spin 100
    piped perf7-pipe -e task-clock -F 500 $work spin 100
    piped perf7-pipe-zstd -z -e task-clock -F 500 $work spin 100
    counted perf7-stat -e task-clock,page-faults $work spin 100
    counted perf7-stat-interval -I 10 -e task-clock $work spin 400
fi
grep -q " _text$" /proc/kallsyms || { echo "no addresses in /proc/kallsyms"; exit 1; }
cp /proc/kallsyms /mnt/corpus/kallsyms
