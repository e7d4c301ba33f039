# what the guest runs for tests/guests/test_ebb.py
E=r800000000001001e
export PYTHONPATH=/host
echo "== example"; python3 ebb/overflows.py 100000 50; echo "status $?"
echo "== stat"; perfpy stat -v -e $E:u -- true 2>&1; echo "status $?"
echo "== raw"; perf stat -e $E:u -- true 2>&1
echo "== rules"
for options in "-a -e $E" "-C 0 -e $E" "-e r8000000000000002" "-e {cycles,$E}" "-e {$E,cycles}"; do perfpy stat $options -- true 2>&1; echo "status $?"; done
echo "== record"; perfpy record -e $E -- true; echo "status $?"
echo "== kernel"; python3 ebb/kernel_says.py
echo "== list"; perfpy list -v r 2>&1 | grep -i "event-based"
echo "== held"
python3 ebb/held.py 2>&1
echo "== hint"
python3 ebb/overflows.py 100000 1000000 > /dev/null & busy=$!; sleep 1
perfpy stat -v -e cycles,instructions -p $busy sleep 0.2 2>&1; echo "status $?"; kill $busy; wait
