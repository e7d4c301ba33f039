"""The session of .github/notebook.md as a script: a test holds both together, and the type checkers read this one."""

import sys

import perfpy

PROGRAM = """
import sys, threading, time
def work(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end: sum(range(1000))
threads = [threading.Thread(target=work, args=(float(sys.argv[1]) * part,)) for part in (1, 3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
for name, seconds in (("old.data", "0.1"), ("new.data", "0.2")):
    summary = perfpy.record([sys.executable, "-c", PROGRAM, seconds], events="cpu-clock:u", frequency=500, output=name, call_graph=True)
    print(name, "is complete" if summary.exit_code == 0 and not summary.lost else "is damaged")

new = perfpy.open("new.data")
for row in new.report(by="dso").top(2):
    print(f"{row.percent:5.1f} %  {row.texts['dso']}")

frame = new.samples.to_pandas(["tid", "time", "symbol"])
busiest = int(frame["tid"].value_counts().idxmax())
part = new.where(tid=busiest, time=("10%", None))
print(f"{part.report().samples} of {len(frame)} samples, mostly in {part.samples.to_pandas(['symbol'])['symbol'].mode()[0]}")

frame["tenth"] = (frame["time"] - frame["time"].min()) // 100_000_000
for tenth, threads in frame.groupby(["tenth", "tid"]).size().unstack(fill_value=0).head(4).iterrows():
    print(tenth, " ".join("#" * (int(count) // 4) for count in threads))

(changes,) = perfpy.diff(perfpy.open("old.data"), new, by="comm")
print("costs more:", [f"{row.names[0]}, {row.after.period / row.before.period:.1f} times" for row in changes.above(0.2)])
old_command, new_command = ([sys.executable, "-c", PROGRAM, seconds] for seconds in ("0.02", "0.1"))
print("slower:", perfpy.compare(old_command, new_command, events="task-clock", repeat=6).slower(by=0.1))

assert (perfpy.stat(old_command, events="page-faults:u")["page-faults:u"].value or 0) < 100_000, "too many page faults"
new.flamegraph("flame.html")
print("within the budget")
