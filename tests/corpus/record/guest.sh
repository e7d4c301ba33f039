#!/bin/bash
# guest.sh FOLDER [PREFIX]: make the recordings of another architecture in FOLDER, which holds the program (see ../program/build).
#
# To be run as root on that machine, best an emulated one that is nobody's: it records whole CPUs. Any recent perf will do; where
# there is a PMU, its cycles and instructions are recorded. Seen so far: Debian 12 (perf 6.1) and 13 (6.12) in QEMU's guests.
set -eu
out=$(readlink -f "$1")
case $(uname -m) in
    aarch64) arch=arm64;; ppc64le) arch=ppc64le;; riscv64) arch=riscv64;; s390x) arch=s390x;;
    *) echo "no recordings are described for $(uname -m)" >&2; exit 1;;
esac
export TZ=UTC LC_ALL=C PERF_CONFIG=/dev/null HOME=/tmp/c/home PERF_BUILDID_DIR=/tmp/c/home/.debug
mkdir -p /tmp/c
cd /tmp/c
cp "$out/program/work-$arch" .
work=./work-$arch

make() {
    local name=$1
    shift
    "$@" >out.txt 2>&1 </dev/null || { echo "$name: status $?"; head -n 3 out.txt; }
    [ -s "$name.data" ] && cp "$name.data" "$out/$arch-$name.data" || echo "$name: nothing recorded"
    rm -f -- *.data
}
record() { local name=$1; shift; make "$name" perf record --no-bpf-event -o "$name.data" "$@"; }
piped() { local name=$1; shift; make "$name" bash -c 'perf record --no-bpf-event -o - "$@" >'"$name.data" perf "$@"; }
counted() { local name=$1; shift; make "$name" perf stat record -o "$name.data" "$@"; }

record clock -e task-clock -F 500 $work spin 3 fork sleep 2 name spin 3
record page-faults -e page-faults -c 4 -d $work faults
record chains-clock -g -e task-clock:u -F 500 $work chain 3 recurse 1
record sched -e sched:sched_switch,raw_syscalls:sys_enter $work sleep 2 name
record wide -a -e cpu-clock -F 100 $work spin 3 fork spin 1
record wide-switches -a --switch-events -e cpu-clock -F 50 $work spin 1 sleep 2
record zstd -z -e task-clock -F 500 $work spin 5
piped pipe -e task-clock -F 200 $work spin 3
piped pipe-tracepoints -e sched:sched_switch,raw_syscalls:sys_enter $work sleep 2
counted stat -e task-clock,page-faults,context-switches $work spin 1 sleep 2

if perf stat -x, -e cycles true 2>&1 | grep -qE '^[1-9]'; then
    record cycles -e cycles -c 1000000 $work spin 10 chain 3
    record cycles-instructions -e cycles:u,instructions:u -c 1000000 $work spin 10
    record group-leader -e '{cycles,instructions}:S' -c 2000000 $work spin 10
    record chains -g -e cycles:u -c 1000000 $work chain 5 recurse 2
    record chains-dwarf --call-graph dwarf,512 -e cycles:u -c 4000000 $work chain 5 recurse 2
    record default $work spin 3
    counted stat-hardware -e '{cycles,instructions}' -e cycles:u $work spin 3 faults
    counted stat-core -a --per-core -e cycles,instructions $work spin 2
    counted stat-interval -I 100 -e cycles,instructions $work spin 6
else
    record group-leader -e '{cpu-clock,page-faults}:S' -F 500 $work spin 5 faults
    record clock-monotonic -k mono -e task-clock -F 200 $work spin 5
    record chains-dwarf --call-graph dwarf,256 -e task-clock:u -F 100 $work chain 3
    record namespaces --namespaces --all-cgroups -e task-clock -F 200 unshare -u $work spin 3
    record uncounted -e cycles,task-clock $work spin 1
    counted stat-interval -I 100 -e task-clock $work spin 6
fi
cp /proc/kallsyms "$out/kallsyms.$arch"
