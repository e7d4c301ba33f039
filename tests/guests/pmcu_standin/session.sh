# what the guest runs for tests/guests/test_pmcu.py; each recording is a file, what is read of the output stands in a section
D=/sys/bus/event_source/devices/hisi_pmcu_sccl0
insmod pmcu_standin.ko || exit 1
echo "== untold"; perfpy record -o x -e hisi_pmcu_sccl0// -- true; echo "status $?"
echo "0x10 0x11 12" > $D/user_events
perfpy record -o plain -e hisi_pmcu_sccl0/nr_sample=20,sample_period_ms=2/ -- sleep 0.2
echo "== dump"; perfpy report -D -i plain
echo "== end"
perfpy record -o wrapped -m ,4 -e hisi_pmcu_sccl0/nr_sample=60,sample_period_ms=20,user_events=20:21:22:23:24:25:26:27:28:29:2a/ -- sleep 2
echo "0x10 0x11 12" > $D/user_events
perfpy record -o lossy -m ,4 -e hisi_pmcu_sccl0/nr_sample=400,sample_period_ms=1/ -- sh -c 'sleep 0.3; kill -STOP $PPID; sleep 1; kill -CONT $PPID; sleep 2'
perfpy record -o mixed -e cpu-clock,hisi_pmcu_sccl0/nr_sample=30,sample_period_ms=2/ -- python3 -c 'for i in range(10**6): i'
perfpy record -o - -e hisi_pmcu_sccl0/nr_sample=20,sample_period_ms=2/ -- sleep 0.2 > piped
PYTHONPATH=/host python3 -m perfpy record -o system -e hisi_pmcu_sccl0/nr_sample=20,sample_period_ms=2/ & sleep 8; kill -TERM $!; wait
perfpy record -o early -e hisi_pmcu_sccl0/nr_sample=1000,sample_period_ms=20/ -- sleep 0.5
echo 1 > /proc/sys/kernel/perf_event_paranoid; chmod 1777 /tmp; cp -r perfpy /tmp; chmod -R a+rX /tmp/perfpy
echo "== user"; PYTHONPATH=/tmp python3 -c '
import os, sys; os.setuid(65534); os.chdir("/tmp"); os.execvp("python3", ["python3", "-m", "perfpy", "record", "-e", "hisi_pmcu_sccl0//", "--", "true"])'
echo "status $?"
echo "== end"
rmmod pmcu_standin; insmod pmcu_standin.ko counters=5 compatible=1 cpus=32 || exit 1
perfpy record -o compatible -e hisi_pmcu_sccl0/nr_sample=7,sample_period_ms=5,user_events=1:2:3:4:5:6:7/ -- sleep 0.2
