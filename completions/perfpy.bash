# bash completion for perfpy; written by completions/generate.py

# sets words and cword: bash parts words at = and :, here they are whole again
_perfpy_words()
{
    local rest=$COMP_LINE word index before last
    words=() cword=0
    for index in "${!COMP_WORDS[@]}"; do
        word=${COMP_WORDS[index]}
        before=${rest%%"$word"*} rest=${rest#*"$word"}
        last=$((${#words[@]} - 1))
        if ((last >= 0)) && [[ -z $before && ( $word == [=:]* || ${words[last]} == *[=:] ) ]]; then
            words[last]+=$word
        else
            words+=("$word")
        fi
        ((index == COMP_CWORD)) && cword=$((${#words[@]} - 1))
    done
}

# offers those of the words that begin as cur does; $1: "," when cur is a list, of which the last is meant
_perfpy_offer()
{
    local separator=$1 before="" word
    shift
    [[ -n $separator && $cur == *"$separator"* ]] && before=${cur%"$separator"*}$separator
    for word in "$@"; do
        word=$before${word%%$'	'*}
        [[ $word == "$cur"* ]] && COMPREPLY+=("$word")
    done
}

# the same of what perfpy knows: $2
_perfpy_ask()
{
    local found
    mapfile -t found < <(command perfpy complete "$2" "${cur##*"$1"}" 2>/dev/null)
    _perfpy_offer "$1" "${found[@]}"
}

_perfpy_recordings()
{
    local found
    cur=${cur//\/}
    mapfile -t COMPREPLY < <(command perfpy complete recordings "$cur" 2>/dev/null)
    compopt -o filenames 2>/dev/null
    ((${#COMPREPLY[@]})) || mapfile -t COMPREPLY < <(compgen -f -- "$cur")
}

# what stands before the last = or : of cur is no part of the word that bash replaces
_perfpy_cut()
{
    local breaks=${COMP_WORDBREAKS//[^=:]/} lead index
    [[ -n $breaks && $cur == *[$breaks]* ]] || return
    lead=${cur%"${cur##*[$breaks]}"}
    for index in "${!COMPREPLY[@]}"; do
        COMPREPLY[index]=${COMPREPLY[index]#"$lead"}
    done
}

# what may follow option $2 of command $1: 1 when the word is none of its
_perfpy_value()
{
    case "$1 $2" in
    "stat -e" | "stat --event" | "stat =--event") _perfpy_ask "," events ;;
    "stat --filter" | "stat =--filter" | "stat -r" | "stat --repeat" | "stat =--repeat" | "stat -C" | "stat --cpu" | "stat =--cpu" | "stat -x" | "stat --field-separator" | "stat =--field-separator" | "stat -G" | "stat --cgroup" | "stat =--cgroup" | "stat --for-each-cgroup" | "stat =--for-each-cgroup" | "stat --log-fd" | "stat =--log-fd" | "stat -I" | "stat --interval-print" | "stat =--interval-print" | "stat --interval-count" | "stat =--interval-count" | "stat --timeout" | "stat =--timeout" | "stat =--per-cache" | "stat -D" | "stat --delay" | "stat =--delay" | "stat --td-level" | "stat =--td-level" | "stat --control" | "stat =--control" | "stat --warmup" | "stat =--warmup" | "stat --min-change" | "stat =--min-change" | "stat --fail-if-slower" | "stat =--fail-if-slower") : ;;
    "stat --event-files" | "stat =--event-files") mapfile -t COMPREPLY < <(compgen -d -- "$cur"); compopt -o filenames 2>/dev/null ;;
    "stat --cputype" | "stat =--cputype" | "stat --pmu-filter" | "stat =--pmu-filter") _perfpy_ask "" pmus ;;
    "stat -p" | "stat --pid" | "stat =--pid") _perfpy_ask "," pids ;;
    "stat -t" | "stat --tid" | "stat =--tid") _perfpy_ask "," tids ;;
    "stat -o" | "stat --output" | "stat =--output") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); compopt -o filenames 2>/dev/null ;;
    "stat --pre" | "stat =--pre" | "stat --post" | "stat =--post" | "stat --compare" | "stat =--compare") mapfile -t COMPREPLY < <(compgen -c -- "$cur") ;;
    "stat -M" | "stat --metrics" | "stat =--metrics") _perfpy_ask "," metrics ;;
    "record -p" | "record --pid" | "record =--pid") _perfpy_ask "," pids ;;
    "record -t" | "record --tid" | "record =--tid") _perfpy_ask "," tids ;;
    "record -u" | "record --uid" | "record =--uid") mapfile -t COMPREPLY < <(compgen -u -- "$cur") ;;
    "record -C" | "record --cpu" | "record =--cpu" | "record -G" | "record --cgroup" | "record =--cgroup" | "record -D" | "record --delay" | "record =--delay" | "record --control" | "record =--control" | "record --filter" | "record =--filter" | "record =--snapshot" | "record =--aux-sample" | "record -c" | "record --count" | "record =--count" | "record --off-cpu-thresh" | "record =--off-cpu-thresh" | "record --off-cpu-limit" | "record =--off-cpu-limit" | "record =--intr-regs" | "record =--user-regs" | "record --num-thread-synthesize" | "record =--num-thread-synthesize" | "record --proc-map-timeout" | "record =--proc-map-timeout" | "record -m" | "record --mmap-pages" | "record =--mmap-pages" | "record --mmap-flush" | "record =--mmap-flush" | "record =--threads" | "record =--aio" | "record =--switch-output" | "record --switch-max-files" | "record =--switch-max-files" | "record --max-cpu" | "record =--max-cpu" | "record --max-size" | "record =--max-size" | "record =--compression-level" | "record -r" | "record --realtime" | "record =--realtime" | "record =--debuginfod") : ;;
    "record -e" | "record --event" | "record =--event" | "record --switch-output-event" | "record =--switch-output-event") _perfpy_ask "," events ;;
    "record --event-files" | "record =--event-files") mapfile -t COMPREPLY < <(compgen -d -- "$cur"); compopt -o filenames 2>/dev/null ;;
    "record -F" | "record --freq" | "record =--freq") _perfpy_offer "" max 99 997 ;;
    "record --call-graph" | "record =--call-graph") _perfpy_offer "" dwarf fp lbr ;;
    "record =--self-contained") _perfpy_offer "" names binaries ;;
    "record -j" | "record --branch-filter" | "record =--branch-filter") _perfpy_offer "," u k hv any any_call any_ret ind_call abort_tx in_tx no_tx cond ind_jmp call no_flags no_cycles save_type stack hw_index priv counter ;;
    "record -k" | "record --clockid" | "record =--clockid") _perfpy_offer "" monotonic monotonic_raw realtime boottime tai mono raw real boot ;;
    "record --synth" | "record =--synth") _perfpy_offer "," no all task mmap cgroup ;;
    "record -o" | "record --output" | "record =--output" | "record --vmlinux" | "record =--vmlinux") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); compopt -o filenames 2>/dev/null ;;
    "record --affinity" | "record =--affinity") _perfpy_offer "" sys node cpu ;;
    "top -p" | "top --pid" | "top =--pid") _perfpy_ask "," pids ;;
    "top -t" | "top --tid" | "top =--tid") _perfpy_ask "," tids ;;
    "top -u" | "top --uid" | "top =--uid") mapfile -t COMPREPLY < <(compgen -u -- "$cur") ;;
    "top -C" | "top --cpu" | "top =--cpu" | "top -G" | "top --cgroup" | "top =--cgroup" | "top --filter" | "top =--filter" | "top -c" | "top --count" | "top =--count" | "top -m" | "top --mmap-pages" | "top =--mmap-pages" | "top -r" | "top --realtime" | "top =--realtime" | "top --call-graph" | "top =--call-graph" | "top --max-stack" | "top =--max-stack" | "top --comms" | "top =--comms" | "top --dsos" | "top =--dsos" | "top --symbols" | "top =--symbols" | "top --percent-limit" | "top =--percent-limit" | "top -w" | "top --column-widths" | "top =--column-widths" | "top -E" | "top --entries" | "top =--entries" | "top --sym-annotate" | "top =--sym-annotate" | "top -M" | "top --disassembler-style" | "top =--disassembler-style" | "top --objdump" | "top =--objdump" | "top --prefix" | "top =--prefix" | "top --prefix-strip" | "top =--prefix-strip" | "top -d" | "top --delay" | "top =--delay" | "top --updates" | "top =--updates" | "top --keep" | "top =--keep") : ;;
    "top -e" | "top --event" | "top =--event") _perfpy_ask "," events ;;
    "top -F" | "top --freq" | "top =--freq") _perfpy_offer "" max 99 997 ;;
    "top -j" | "top --branch-filter" | "top =--branch-filter") _perfpy_offer "," u k hv any any_call any_ret ind_call abort_tx in_tx no_tx cond ind_jmp call no_flags no_cycles save_type stack hw_index priv counter ;;
    "top -s" | "top --sort" | "top =--sort" | "top --fields" | "top =--fields") _perfpy_offer "," overhead overhead_sys overhead_us overhead_guest_sys overhead_guest_us overhead_children sample period weight1 weight2 weight3 latency latency_children seconds pid comm dso symbol parent cpu socket srcline srcfile local_weight weight transaction trace symbol_size dso_size cgroup cgroup_id ipc_null time code_page_size local_ins_lat ins_lat local_p_stage_cyc p_stage_cyc addr local_retire_lat retire_lat simd symoff tgid comm_nodigit parallelism dso_from dso_to symbol_from symbol_to mispredict abort in_tx cycles srcline_from srcline_to ipc_lbr addr_from addr_to symbol_daddr dso_daddr locked tlb mem snoop dcacheline symbol_iaddr phys_daddr data_page_size blocked state waker container gil host recording tod date build_id pyfunc pyline ;;
    "top --by" | "top =--by") _perfpy_offer "" process thread cgroup container ;;
    "top --percentage" | "top =--percentage") _perfpy_offer "" relative absolute ;;
    "top --kallsyms" | "top =--kallsyms" | "top -k" | "top --vmlinux" | "top =--vmlinux") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); compopt -o filenames 2>/dev/null ;;
    "trace -i" | "trace --input" | "trace =--input") _perfpy_recordings ;;
    "trace -p" | "trace --pid" | "trace =--pid" | "trace --filter-pids" | "trace =--filter-pids") _perfpy_ask "," pids ;;
    "trace -t" | "trace --tid" | "trace =--tid") _perfpy_ask "," tids ;;
    "trace -u" | "trace --uid" | "trace =--uid") mapfile -t COMPREPLY < <(compgen -u -- "$cur") ;;
    "trace -C" | "trace --cpu" | "trace =--cpu" | "trace -G" | "trace --cgroup" | "trace =--cgroup" | "trace -m" | "trace --mmap-pages" | "trace =--mmap-pages" | "trace -e" | "trace --event" | "trace --expr" | "trace =--event" | "trace =--expr" | "trace --filter" | "trace =--filter" | "trace --duration" | "trace =--duration" | "trace --slowest" | "trace =--slowest" | "trace =--calls" | "trace --calls-from" | "trace =--calls-from" | "trace --when" | "trace =--when" | "trace --last" | "trace =--last" | "trace --max-events" | "trace =--max-events" | "trace --call-graph" | "trace =--call-graph" | "trace --max-stack" | "trace =--max-stack" | "trace --min-stack" | "trace =--min-stack" | "trace --max-summary" | "trace =--max-summary") : ;;
    "trace -F" | "trace --pf" | "trace =--pf") _perfpy_offer "" all maj min ;;
    "trace --switch-on" | "trace =--switch-on" | "trace --switch-off" | "trace =--switch-off") _perfpy_ask "," events ;;
    "trace --summary-mode" | "trace =--summary-mode") _perfpy_offer "" thread total ;;
    "trace --html" | "trace =--html" | "trace --chrome-trace" | "trace =--chrome-trace" | "trace -o" | "trace --output" | "trace =--output") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); compopt -o filenames 2>/dev/null ;;
    "trace --by" | "trace =--by") _perfpy_offer "" path peer ;;
    "stacks -p" | "stacks --pid" | "stacks =--pid") _perfpy_ask "," pids ;;
    "leaks -p" | "leaks --pid" | "leaks =--pid") _perfpy_ask "," pids ;;
    "leaks -d" | "leaks --duration" | "leaks =--duration") : ;;
    "leaks --html" | "leaks =--html") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); compopt -o filenames 2>/dev/null ;;
    "report -i" | "report --input" | "report =--input") _perfpy_recordings ;;
    "report -s" | "report --sort" | "report =--sort" | "report -F" | "report --fields" | "report =--fields") _perfpy_offer "," overhead overhead_sys overhead_us overhead_guest_sys overhead_guest_us overhead_children sample period weight1 weight2 weight3 latency latency_children seconds pid comm dso symbol parent cpu socket srcline srcfile local_weight weight transaction trace symbol_size dso_size cgroup cgroup_id ipc_null time code_page_size local_ins_lat ins_lat local_p_stage_cyc p_stage_cyc addr local_retire_lat retire_lat simd symoff tgid comm_nodigit parallelism dso_from dso_to symbol_from symbol_to mispredict abort in_tx cycles srcline_from srcline_to ipc_lbr addr_from addr_to symbol_daddr dso_daddr locked tlb mem snoop dcacheline symbol_iaddr phys_daddr data_page_size blocked state waker container gil host recording tod date build_id pyfunc pyline ;;
    "report -g" | "report --call-graph" | "report =--call-graph") _perfpy_offer "," none graph flat fractal folded caller callee function address srcline branch percent period count ;;
    "report --max-stack" | "report =--max-stack" | "report --ignore-callees" | "report =--ignore-callees" | "report -p" | "report --parent" | "report =--parent" | "report -c" | "report --comms" | "report =--comms" | "report --pid" | "report =--pid" | "report --tid" | "report =--tid" | "report -C" | "report --cpu" | "report =--cpu" | "report -d" | "report --dsos" | "report =--dsos" | "report -S" | "report --symbols" | "report =--symbols" | "report --symbol-filter" | "report =--symbol-filter" | "report --socket-filter" | "report =--socket-filter" | "report --parallelism" | "report =--parallelism" | "report --time" | "report =--time" | "report --percent-limit" | "report =--percent-limit" | "report --group-sort-idx" | "report =--group-sort-idx" | "report -t" | "report --field-separator" | "report =--field-separator" | "report -w" | "report --column-widths" | "report =--column-widths" | "report --time-quantum" | "report =--time-quantum" | "report =--itrace" | "report --jobs" | "report =--jobs" | "report --cluster" | "report =--cluster") : ;;
    "report --event" | "report =--event" | "report --switch-on" | "report =--switch-on" | "report --switch-off" | "report =--switch-off") _perfpy_ask "," events ;;
    "report --percentage" | "report =--percentage") _perfpy_offer "" relative absolute ;;
    "report --stdio-color" | "report =--stdio-color") _perfpy_offer "" always never auto ;;
    "report --json" | "report =--json" | "report --flamegraph" | "report --html" | "report =--flamegraph" | "report =--html" | "report --folded" | "report =--folded" | "report --speedscope" | "report =--speedscope" | "report --firefox" | "report =--firefox" | "report --pprof" | "report =--pprof" | "report --kallsyms" | "report =--kallsyms" | "report -k" | "report --vmlinux" | "report =--vmlinux") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); compopt -o filenames 2>/dev/null ;;
    "report --symfs" | "report =--symfs") mapfile -t COMPREPLY < <(compgen -d -- "$cur"); compopt -o filenames 2>/dev/null ;;
    "report --weights" | "report =--weights") _perfpy_offer "" time samples equal ;;
    "view -i" | "view --input" | "view =--input") _perfpy_recordings ;;
    "view -o" | "view --output" | "view =--output" | "view --kallsyms" | "view =--kallsyms" | "view -k" | "view --vmlinux" | "view =--vmlinux") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); compopt -o filenames 2>/dev/null ;;
    "view --symfs" | "view =--symfs") mapfile -t COMPREPLY < <(compgen -d -- "$cur"); compopt -o filenames 2>/dev/null ;;
    "annotate -i" | "annotate --input" | "annotate =--input") _perfpy_recordings ;;
    "annotate -s" | "annotate --symbol" | "annotate =--symbol" | "annotate -d" | "annotate --dsos" | "annotate =--dsos" | "annotate -C" | "annotate --cpu" | "annotate =--cpu" | "annotate --percent-limit" | "annotate =--percent-limit" | "annotate -M" | "annotate --disassembler-style" | "annotate =--disassembler-style" | "annotate --objdump" | "annotate =--objdump" | "annotate --prefix" | "annotate =--prefix" | "annotate --prefix-strip" | "annotate =--prefix-strip" | "annotate =--itrace") : ;;
    "annotate --percent-type" | "annotate =--percent-type") _perfpy_offer "" local-period global-period local-hits global-hits period-local period-global hits-local hits-global ;;
    "annotate --stdio-color" | "annotate =--stdio-color") _perfpy_offer "" always never auto ;;
    "annotate --symfs" | "annotate =--symfs") mapfile -t COMPREPLY < <(compgen -d -- "$cur"); compopt -o filenames 2>/dev/null ;;
    "annotate --kallsyms" | "annotate =--kallsyms" | "annotate -k" | "annotate --vmlinux" | "annotate =--vmlinux") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); compopt -o filenames 2>/dev/null ;;
    "diff -s" | "diff --sort" | "diff =--sort") _perfpy_offer "," overhead overhead_sys overhead_us overhead_guest_sys overhead_guest_us overhead_children sample period weight1 weight2 weight3 latency latency_children seconds pid comm dso symbol parent cpu socket srcline srcfile local_weight weight transaction trace symbol_size dso_size cgroup cgroup_id ipc_null time code_page_size local_ins_lat ins_lat local_p_stage_cyc p_stage_cyc addr local_retire_lat retire_lat simd symoff tgid comm_nodigit parallelism dso_from dso_to symbol_from symbol_to mispredict abort in_tx cycles srcline_from srcline_to ipc_lbr addr_from addr_to symbol_daddr dso_daddr locked tlb mem snoop dcacheline symbol_iaddr phys_daddr data_page_size blocked state waker container gil host recording tod date build_id pyfunc pyline ;;
    "diff -c" | "diff --compute" | "diff =--compute") _perfpy_offer "" delta delta-abs ratio wdiff: ;;
    "diff -o" | "diff --order" | "diff =--order" | "diff -d" | "diff --dsos" | "diff =--dsos" | "diff -C" | "diff --comms" | "diff =--comms" | "diff -S" | "diff --symbols" | "diff =--symbols" | "diff --pid" | "diff =--pid" | "diff --tid" | "diff =--tid" | "diff --cpu" | "diff =--cpu" | "diff --time" | "diff =--time" | "diff -t" | "diff --field-separator" | "diff =--field-separator" | "diff --fail-above" | "diff =--fail-above" | "diff --jobs" | "diff =--jobs" | "diff --cluster" | "diff =--cluster") : ;;
    "diff --percentage" | "diff =--percentage") _perfpy_offer "" relative absolute ;;
    "diff =--json" | "diff --flamegraph" | "diff --html" | "diff =--flamegraph" | "diff =--html" | "diff --before" | "diff =--before" | "diff --after" | "diff =--after" | "diff --kallsyms" | "diff =--kallsyms" | "diff -k" | "diff --vmlinux" | "diff =--vmlinux") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); compopt -o filenames 2>/dev/null ;;
    "diff --unit" | "diff =--unit") _perfpy_offer "" host recording ;;
    "diff --weights" | "diff =--weights") _perfpy_offer "" time samples equal ;;
    "diff --symfs" | "diff =--symfs") mapfile -t COMPREPLY < <(compgen -d -- "$cur"); compopt -o filenames 2>/dev/null ;;
    "script -i" | "script --input" | "script =--input") _perfpy_recordings ;;
    "script --jobs" | "script =--jobs" | "script =--itrace" | "script --time" | "script =--time" | "script --max-stack" | "script =--max-stack" | "script --max-blocks" | "script =--max-blocks" | "script --stop-bt" | "script =--stop-bt" | "script =--call-trace" | "script =--call-ret-trace" | "script =--insn-trace" | "script -c" | "script --comms" | "script =--comms" | "script --pid" | "script =--pid" | "script --tid" | "script =--tid" | "script -C" | "script --cpu" | "script =--cpu" | "script -S" | "script --symbols" | "script =--symbols" | "script --addr-range" | "script =--addr-range" | "script --dsos" | "script =--dsos" | "script -s" | "script --script" | "script =--script" | "script -g" | "script --gen-script" | "script =--gen-script") : ;;
    "script -F" | "script --fields" | "script =--fields") _perfpy_offer "," comm tid pid time cpu event trace ip sym dso dsoff addr symoff srcline period iregs uregs brstack brstacksym data_src weight bpf-output callindent insn disasm insnlen brstackinsn brstackoff synth phys_addr metric misc srccode ipc tod data_page_size code_page_size ins_lat brstackinsnlen machine_pid vcpu cgroup retire_lat brstackdisasm brcntr ;;
    "script --switch-on" | "script =--switch-on" | "script --switch-off" | "script =--switch-off") _perfpy_ask "," events ;;
    "script --symfs" | "script =--symfs" | "script --guestmount" | "script =--guestmount") mapfile -t COMPREPLY < <(compgen -d -- "$cur"); compopt -o filenames 2>/dev/null ;;
    "script --kallsyms" | "script =--kallsyms" | "script -k" | "script --vmlinux" | "script =--vmlinux" | "script --guestkallsyms" | "script =--guestkallsyms" | "script --guestmodules" | "script =--guestmodules" | "script --guestvmlinux" | "script =--guestvmlinux" | "script --py" | "script =--py") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); compopt -o filenames 2>/dev/null ;;
    "sched -i" | "sched --input" | "sched =--input") _perfpy_recordings ;;
    "sched -s" | "sched --sort" | "sched =--sort") _perfpy_offer "," pid runtime switch avg max ;;
    "sched -C" | "sched --CPU" | "sched =--CPU" | "sched --max-stack" | "sched =--max-stack" | "sched --time" | "sched =--time" | "sched --pid" | "sched =--pid" | "sched -t" | "sched --tid" | "sched =--tid" | "sched --cpu" | "sched =--cpu" | "sched --prio" | "sched =--prio" | "sched --comm" | "sched =--comm" | "sched --cpus" | "sched =--cpus" | "sched --task-name" | "sched =--task-name" | "sched --color-pids" | "sched =--color-pids" | "sched --color-cpus" | "sched =--color-cpus" | "sched -r" | "sched --repeat" | "sched =--repeat") : ;;
    "sched -k" | "sched --vmlinux" | "sched =--vmlinux" | "sched --kallsyms" | "sched =--kallsyms" | "sched -o" | "sched --output" | "sched =--output") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); compopt -o filenames 2>/dev/null ;;
    "sched --symfs" | "sched =--symfs") mapfile -t COMPREPLY < <(compgen -d -- "$cur"); compopt -o filenames 2>/dev/null ;;
    "lock -i" | "lock --input" | "lock =--input") _perfpy_recordings ;;
    "lock --vmlinux" | "lock =--vmlinux" | "lock --kallsyms" | "lock =--kallsyms" | "lock --output" | "lock =--output") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); compopt -o filenames 2>/dev/null ;;
    "lock -k" | "lock --key" | "lock =--key" | "lock -F" | "lock --field" | "lock =--field" | "lock -E" | "lock --entries" | "lock =--entries" | "lock --max-stack" | "lock =--max-stack" | "lock --stack-skip" | "lock =--stack-skip" | "lock -Y" | "lock --type-filter" | "lock =--type-filter" | "lock -L" | "lock --lock-filter" | "lock =--lock-filter" | "lock -S" | "lock --callstack-filter" | "lock =--callstack-filter" | "lock -x" | "lock --field-separator" | "lock =--field-separator") : ;;
    "kwork -k" | "kwork --kwork" | "kwork =--kwork" | "kwork -C" | "kwork --cpu" | "kwork =--cpu" | "kwork -n" | "kwork --name" | "kwork =--name" | "kwork --time" | "kwork =--time" | "kwork --max-stack" | "kwork =--max-stack") : ;;
    "kwork -i" | "kwork --input" | "kwork =--input") _perfpy_recordings ;;
    "kwork --vmlinux" | "kwork =--vmlinux" | "kwork --kallsyms" | "kwork =--kallsyms") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); compopt -o filenames 2>/dev/null ;;
    "kwork --symfs" | "kwork =--symfs") mapfile -t COMPREPLY < <(compgen -d -- "$cur"); compopt -o filenames 2>/dev/null ;;
    "kwork -s" | "kwork --sort" | "kwork =--sort") _perfpy_offer "," runtime max count ;;
    "kmem -i" | "kmem --input" | "kmem =--input") _perfpy_recordings ;;
    "kmem --vmlinux" | "kmem =--vmlinux" | "kmem --kallsyms" | "kmem =--kallsyms") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); compopt -o filenames 2>/dev/null ;;
    "kmem -s" | "kmem --sort" | "kmem =--sort") _perfpy_offer "," frag hit bytes pingpong ptr callsite ;;
    "kmem -l" | "kmem --line" | "kmem =--line" | "kmem --time" | "kmem =--time") : ;;
    "timechart -i" | "timechart --input" | "timechart =--input") _perfpy_recordings ;;
    "timechart -o" | "timechart --output" | "timechart =--output" | "timechart --html" | "timechart =--html") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); compopt -o filenames 2>/dev/null ;;
    "timechart -w" | "timechart --width" | "timechart =--width" | "timechart -n" | "timechart --proc-num" | "timechart =--proc-num" | "timechart -p" | "timechart --process" | "timechart =--process" | "timechart --highlight" | "timechart =--highlight" | "timechart --io-min-time" | "timechart =--io-min-time" | "timechart --io-merge-dist" | "timechart =--io-merge-dist") : ;;
    "why -i" | "why --input" | "why =--input") _perfpy_recordings ;;
    "why --symfs" | "why =--symfs") mapfile -t COMPREPLY < <(compgen -d -- "$cur"); compopt -o filenames 2>/dev/null ;;
    "why --kallsyms" | "why =--kallsyms" | "why -k" | "why --vmlinux" | "why =--vmlinux" | "why -o" | "why --output" | "why =--output" | "why --chrome-trace" | "why =--chrome-trace" | "why --html" | "why =--html") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); compopt -o filenames 2>/dev/null ;;
    "why -p" | "why --pid" | "why =--pid") _perfpy_ask "," pids ;;
    "why -d" | "why --duration" | "why =--duration") : ;;
    "mem -t" | "mem --type" | "mem =--type" | "mem -C" | "mem --cpu" | "mem =--cpu" | "mem --ldlat" | "mem =--ldlat" | "mem -x" | "mem --field-separator" | "mem =--field-separator") : ;;
    "mem -e" | "mem --event" | "mem =--event") _perfpy_ask "," events ;;
    "mem -i" | "mem --input" | "mem =--input") _perfpy_recordings ;;
    "mem -s" | "mem --sort" | "mem =--sort") _perfpy_offer "," overhead overhead_sys overhead_us overhead_guest_sys overhead_guest_us overhead_children sample period weight1 weight2 weight3 latency latency_children seconds pid comm dso symbol parent cpu socket srcline srcfile local_weight weight transaction trace symbol_size dso_size cgroup cgroup_id ipc_null time code_page_size local_ins_lat ins_lat local_p_stage_cyc p_stage_cyc addr local_retire_lat retire_lat simd symoff tgid comm_nodigit parallelism dso_from dso_to symbol_from symbol_to mispredict abort in_tx cycles srcline_from srcline_to ipc_lbr addr_from addr_to symbol_daddr dso_daddr locked tlb mem snoop dcacheline symbol_iaddr phys_daddr data_page_size blocked state waker container gil host recording tod date build_id pyfunc pyline ;;
    "c2c -e" | "c2c --event" | "c2c =--event") _perfpy_ask "," events ;;
    "c2c -l" | "c2c --ldlat" | "c2c =--ldlat" | "c2c -d" | "c2c --display" | "c2c =--display" | "c2c -c" | "c2c --coalesce" | "c2c =--coalesce") : ;;
    "c2c -i" | "c2c --input" | "c2c =--input") _perfpy_recordings ;;
    "c2c --symfs" | "c2c =--symfs") mapfile -t COMPREPLY < <(compgen -d -- "$cur"); compopt -o filenames 2>/dev/null ;;
    "c2c --kallsyms" | "c2c =--kallsyms" | "c2c --vmlinux" | "c2c =--vmlinux") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); compopt -o filenames 2>/dev/null ;;
    "kvm -i" | "kvm --input" | "kvm =--input") _perfpy_recordings ;;
    "kvm --guestmount" | "kvm =--guestmount" | "kvm --event-files" | "kvm =--event-files" | "kvm --symfs" | "kvm =--symfs") mapfile -t COMPREPLY < <(compgen -d -- "$cur"); compopt -o filenames 2>/dev/null ;;
    "kvm --guestkallsyms" | "kvm =--guestkallsyms" | "kvm --guestmodules" | "kvm =--guestmodules" | "kvm --guestvmlinux" | "kvm =--guestvmlinux" | "kvm -o" | "kvm --output" | "kvm =--output" | "kvm --vmlinux" | "kvm =--vmlinux" | "kvm --json" | "kvm =--json" | "kvm --flamegraph" | "kvm --html" | "kvm =--flamegraph" | "kvm =--html" | "kvm --folded" | "kvm =--folded" | "kvm --speedscope" | "kvm =--speedscope" | "kvm --firefox" | "kvm =--firefox" | "kvm --pprof" | "kvm =--pprof" | "kvm --kallsyms" | "kvm =--kallsyms" | "kvm --before" | "kvm =--before" | "kvm --after" | "kvm =--after") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); compopt -o filenames 2>/dev/null ;;
    "kvm -p" | "kvm --pid" | "kvm =--pid") _perfpy_ask "," pids ;;
    "kvm -t" | "kvm --tid" | "kvm =--tid") _perfpy_ask "," tids ;;
    "kvm -u" | "kvm --uid" | "kvm =--uid") mapfile -t COMPREPLY < <(compgen -u -- "$cur") ;;
    "kvm -C" | "kvm --cpu" | "kvm =--cpu" | "kvm -G" | "kvm --cgroup" | "kvm =--cgroup" | "kvm -D" | "kvm --delay" | "kvm =--delay" | "kvm --control" | "kvm =--control" | "kvm --filter" | "kvm =--filter" | "kvm =--snapshot" | "kvm =--aux-sample" | "kvm -c" | "kvm --count" | "kvm =--count" | "kvm --off-cpu-thresh" | "kvm =--off-cpu-thresh" | "kvm --off-cpu-limit" | "kvm =--off-cpu-limit" | "kvm =--intr-regs" | "kvm =--user-regs" | "kvm --num-thread-synthesize" | "kvm =--num-thread-synthesize" | "kvm --proc-map-timeout" | "kvm =--proc-map-timeout" | "kvm -m" | "kvm --mmap-pages" | "kvm =--mmap-pages" | "kvm --mmap-flush" | "kvm =--mmap-flush" | "kvm =--threads" | "kvm =--aio" | "kvm =--switch-output" | "kvm --switch-max-files" | "kvm =--switch-max-files" | "kvm --max-cpu" | "kvm =--max-cpu" | "kvm --max-size" | "kvm =--max-size" | "kvm =--compression-level" | "kvm -r" | "kvm --realtime" | "kvm =--realtime" | "kvm =--debuginfod" | "kvm --max-stack" | "kvm =--max-stack" | "kvm --ignore-callees" | "kvm =--ignore-callees" | "kvm --parent" | "kvm =--parent" | "kvm --comms" | "kvm =--comms" | "kvm --dsos" | "kvm =--dsos" | "kvm --symbols" | "kvm =--symbols" | "kvm --symbol-filter" | "kvm =--symbol-filter" | "kvm --socket-filter" | "kvm =--socket-filter" | "kvm --parallelism" | "kvm =--parallelism" | "kvm --time" | "kvm =--time" | "kvm --percent-limit" | "kvm =--percent-limit" | "kvm --group-sort-idx" | "kvm =--group-sort-idx" | "kvm --field-separator" | "kvm =--field-separator" | "kvm -w" | "kvm --column-widths" | "kvm =--column-widths" | "kvm --time-quantum" | "kvm =--time-quantum" | "kvm =--itrace" | "kvm --jobs" | "kvm =--jobs" | "kvm --cluster" | "kvm =--cluster" | "kvm --order" | "kvm =--order" | "kvm --fail-above" | "kvm =--fail-above" | "kvm --vcpu" | "kvm =--vcpu" | "kvm --key" | "kvm =--key") : ;;
    "kvm -e" | "kvm --event" | "kvm =--event" | "kvm --switch-output-event" | "kvm =--switch-output-event" | "kvm --switch-on" | "kvm =--switch-on" | "kvm --switch-off" | "kvm =--switch-off") _perfpy_ask "," events ;;
    "kvm -F" | "kvm --freq" | "kvm =--freq") _perfpy_offer "" max 99 997 ;;
    "kvm --call-graph" | "kvm =--call-graph") _perfpy_offer "" dwarf fp lbr ;;
    "kvm =--self-contained") _perfpy_offer "" names binaries ;;
    "kvm -j" | "kvm --branch-filter" | "kvm =--branch-filter") _perfpy_offer "," u k hv any any_call any_ret ind_call abort_tx in_tx no_tx cond ind_jmp call no_flags no_cycles save_type stack hw_index priv counter ;;
    "kvm -k" | "kvm --clockid" | "kvm =--clockid") _perfpy_offer "" monotonic monotonic_raw realtime boottime tai mono raw real boot ;;
    "kvm --synth" | "kvm =--synth") _perfpy_offer "," no all task mmap cgroup ;;
    "kvm --affinity" | "kvm =--affinity") _perfpy_offer "" sys node cpu ;;
    "kvm --sort" | "kvm =--sort" | "kvm --fields" | "kvm =--fields") _perfpy_offer "," overhead overhead_sys overhead_us overhead_guest_sys overhead_guest_us overhead_children sample period weight1 weight2 weight3 latency latency_children seconds pid comm dso symbol parent cpu socket srcline srcfile local_weight weight transaction trace symbol_size dso_size cgroup cgroup_id ipc_null time code_page_size local_ins_lat ins_lat local_p_stage_cyc p_stage_cyc addr local_retire_lat retire_lat simd symoff tgid comm_nodigit parallelism dso_from dso_to symbol_from symbol_to mispredict abort in_tx cycles srcline_from srcline_to ipc_lbr addr_from addr_to symbol_daddr dso_daddr locked tlb mem snoop dcacheline symbol_iaddr phys_daddr data_page_size blocked state waker container gil host recording tod date build_id pyfunc pyline ;;
    "kvm --percentage" | "kvm =--percentage") _perfpy_offer "" relative absolute ;;
    "kvm --stdio-color" | "kvm =--stdio-color") _perfpy_offer "" always never auto ;;
    "kvm --weights" | "kvm =--weights") _perfpy_offer "" time samples equal ;;
    "kvm --compute" | "kvm =--compute") _perfpy_offer "" delta delta-abs ratio wdiff: ;;
    "kvm --unit" | "kvm =--unit") _perfpy_offer "" host recording ;;
    "ftrace -p" | "ftrace --pid" | "ftrace =--pid") _perfpy_ask "," pids ;;
    "ftrace --tid" | "ftrace =--tid") _perfpy_ask "," tids ;;
    "ftrace -C" | "ftrace --cpu" | "ftrace =--cpu" | "ftrace -T" | "ftrace --trace-funcs" | "ftrace =--trace-funcs" | "ftrace -N" | "ftrace --notrace-funcs" | "ftrace =--notrace-funcs" | "ftrace -G" | "ftrace --graph-funcs" | "ftrace =--graph-funcs" | "ftrace -g" | "ftrace --nograph-funcs" | "ftrace =--nograph-funcs" | "ftrace -m" | "ftrace --buffer-size" | "ftrace =--buffer-size" | "ftrace -F" | "ftrace --funcs" | "ftrace =--funcs" | "ftrace -D" | "ftrace --delay" | "ftrace =--delay" | "ftrace --func-opts" | "ftrace =--func-opts" | "ftrace --graph-opts" | "ftrace =--graph-opts" | "ftrace -s" | "ftrace --sort" | "ftrace =--sort") : ;;
    "ftrace -t" | "ftrace --tracer" | "ftrace =--tracer") _perfpy_offer "" function_graph function ;;
    "list -o" | "list --output" | "list =--output") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); compopt -o filenames 2>/dev/null ;;
    "list --unit" | "list =--unit" | "list --cputype" | "list =--cputype") _perfpy_ask "" pmus ;;
    "list --event-files" | "list =--event-files" | "list --update-events" | "list =--update-events") mapfile -t COMPREPLY < <(compgen -d -- "$cur"); compopt -o filenames 2>/dev/null ;;
    "evlist -i" | "evlist --input" | "evlist =--input") _perfpy_recordings ;;
    "buildid-list -i" | "buildid-list --input" | "buildid-list =--input") _perfpy_recordings ;;
    "buildid-cache -a" | "buildid-cache --add" | "buildid-cache =--add" | "buildid-cache -r" | "buildid-cache --remove" | "buildid-cache =--remove" | "buildid-cache -p" | "buildid-cache --purge" | "buildid-cache =--purge" | "buildid-cache -u" | "buildid-cache --update" | "buildid-cache =--update") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); compopt -o filenames 2>/dev/null ;;
    "buildid-cache -M" | "buildid-cache --missing" | "buildid-cache =--missing") _perfpy_recordings ;;
    "probe -a" | "probe --add" | "probe =--add" | "probe -d" | "probe --del" | "probe =--del" | "probe -D" | "probe --definition" | "probe =--definition" | "probe -l" | "probe --list" | "probe =--list" | "probe -L" | "probe --line" | "probe =--line" | "probe -V" | "probe --vars" | "probe =--vars" | "probe -F" | "probe --funcs" | "probe =--funcs" | "probe -x" | "probe --exec" | "probe =--exec" | "probe -m" | "probe --module" | "probe =--module" | "probe --filter" | "probe =--filter" | "probe --max-probes" | "probe =--max-probes") : ;;
    "probe -k" | "probe --vmlinux" | "probe =--vmlinux") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); compopt -o filenames 2>/dev/null ;;
    "probe -s" | "probe --source" | "probe =--source" | "probe --symfs" | "probe =--symfs") mapfile -t COMPREPLY < <(compgen -d -- "$cur"); compopt -o filenames 2>/dev/null ;;
    "probe --target-ns" | "probe =--target-ns") _perfpy_ask "," pids ;;
    "latency -i" | "latency --input" | "latency =--input") _perfpy_recordings ;;
    "latency --of" | "latency =--of") _perfpy_offer "" runqueue syscalls block locks softirq irq ;;
    "latency -p" | "latency --pid" | "latency =--pid") _perfpy_ask "," pids ;;
    "latency -x" | "latency --exec" | "latency =--exec" | "latency -d" | "latency --duration" | "latency =--duration" | "latency -n" | "latency --slowest" | "latency =--slowest") : ;;
    "latency -o" | "latency --output" | "latency =--output") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); compopt -o filenames 2>/dev/null ;;
    "inject -i" | "inject --input" | "inject =--input") _perfpy_recordings ;;
    "inject -o" | "inject --output" | "inject =--output") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); compopt -o filenames 2>/dev/null ;;
    "inject --known-build-ids" | "inject =--known-build-ids" | "inject =--itrace") : ;;
    "inject --symfs" | "inject =--symfs") mapfile -t COMPREPLY < <(compgen -d -- "$cur"); compopt -o filenames 2>/dev/null ;;
    "archive -i" | "archive --input" | "archive =--input") _perfpy_recordings ;;
    "data -i" | "data --input" | "data =--input") _perfpy_recordings ;;
    "data --to-json" | "data =--to-json") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); compopt -o filenames 2>/dev/null ;;
    "data --time" | "data =--time") : ;;
    "export --symfs" | "export =--symfs" | "export -o" | "export --parquet" | "export --output" | "export =--parquet" | "export =--output") mapfile -t COMPREPLY < <(compgen -d -- "$cur"); compopt -o filenames 2>/dev/null ;;
    "export --kallsyms" | "export =--kallsyms" | "export -k" | "export --vmlinux" | "export =--vmlinux" | "export --otlp" | "export =--otlp" | "export --perfetto" | "export =--perfetto") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); compopt -o filenames 2>/dev/null ;;
    "export -i" | "export --input" | "export =--input") _perfpy_recordings ;;
    *) return 1 ;;
    esac
    return 0
}

_perfpy()
{
    local cur prev words cword attached=""
    _perfpy_words
    cur=${words[cword]} prev=${words[cword-1]}
    COMPREPLY=()
    if ((cword == 1)); then
        _perfpy_offer "" stat record top trace stacks leaks report view annotate diff script sched lock kwork kmem timechart why mem c2c kvm ftrace list evlist buildid-list buildid-cache probe latency inject archive data export config check version help --help --version
        return
    fi
    local options="" workload="" actions=""
    case ${words[1]} in
    stat)
        options="-e --event --filter --event-files --cputype --pmu-filter -i --no-inherit -p --pid -t --tid -a --all-cpus --scale -v --verbose -r --repeat --table -n --null -d --detailed -S --sync -B --big-num -C --cpu -A --no-aggr --no-merge -x --field-separator -j --json-output -G --cgroup --for-each-cgroup -o --output --append --log-fd --pre --post -I --interval-print --interval-count --interval-clear --timeout --per-socket --per-die --per-cluster --per-cache --per-core --per-thread --per-node --stdio -D --delay -M --metrics --metric-no-group --metric-no-merge --metric-no-threshold -T --transaction --topdown --td-level --smi-cost --metric-only --hide-zero-events --hybrid-merge --all-kernel --all-user --summary --no-csv-summary --quiet --control --compare --warmup --min-change --fail-if-slower --ignore-failure -h --help"
        workload="yes"
        ;;
    record)
        options="-p --pid -t --tid -u --uid -C --cpu -a --all-cpus -G --cgroup --per-thread -i --no-inherit --descendants -D --delay --control --exclude-perf -e --event --filter -S --snapshot --aux-sample --event-files -F --freq -c --count --strict-freq --all-kernel --all-user -n --no-samples --no-buffering -g --call-graph --unwind --keep-stacks --kernel-callchains --user-callchains --off-cpu --off-cpu-thresh --off-cpu-limit --latency --jit --python --self-contained -s --stat -R --raw-samples -d --data --data-mmap --sample-mem-info --phys-data --data-page-size --code-page-size -T --timestamp -P --period --sample-cpu --sample-identifier -W --weight --transaction -b --branch-any -j --branch-filter -I --intr-regs --user-regs --running-time -k --clockid --switch-events --namespaces --all-cgroups --no-bpf-event --buildid-mmap --synth --tail-synthesize --num-thread-synthesize --proc-map-timeout -o --output -m --mmap-pages --mmap-flush --affinity --threads --aio --overwrite --switch-output --switch-output-event --switch-max-files --max-cpu --max-size --timestamp-filename --timestamp-boundary -z --compression-level --kcore -N --no-buildid-cache -B --no-buildid --buildid-all -r --realtime --debuginfod --vmlinux --dry-run -v --verbose -q --quiet --brief -h --help"
        workload="yes"
        ;;
    top)
        options="-p --pid -t --tid -u --uid -C --cpu -a --all-cpus -G --cgroup -i --no-inherit --descendants --show-self -e --event --filter -F --freq -c --count -m --mmap-pages --overwrite -r --realtime --namespaces --all-cgroups --no-bpf-event -g --call-graph --children -b --branch-any -j --branch-filter --max-stack --off-cpu --python --jit -s --sort --by --fields -H --hierarchy -n --show-nr-samples --show-total-period --comms --dsos --symbols -K --hide_kernel_symbols -U --hide_user_symbols --percent-limit --percentage --raw-trace -w --column-widths -E --entries -z --zero --kallsyms -k --vmlinux --ignore-vmlinux -D --dump-symtab --demangle-kernel --sym-annotate --source --asm-raw -M --disassembler-style --objdump --prefix --prefix-strip -d --delay --updates --keep --stdio --json -v --verbose -h --help"
        ;;
    trace)
        options="-i --input -f --force -p --pid -t --tid -u --uid -C --cpu -a --all-cpus -G --cgroup --no-inherit --filter-pids -m --mmap-pages -e --event --expr --filter --syscalls -F --pf --strings --failure --duration --slowest --switch-on --switch-off --show-on-off-events --calls --calls-from --when --last --max-events --call-graph --kernel-syscall-graph --max-stack --min-stack -T --time --comm --show-cpu -s --summary -S --with-summary --sched --errno-summary --summary-mode --max-summary --percentiles --histogram --html --chrome-trace --by --json -o --output -v --verbose -h --help"
        workload="yes"
        ;;
    stacks)
        options="-p --pid --locks --running --descendants --inspect --locals --json -h --help"
        ;;
    leaks)
        options="-p --pid -d --duration --descendants --small-objects --html --json -h --help"
        workload="yes"
        ;;
    report)
        options="-i --input -f --force -s --sort -F --fields -n --show-nr-samples --show-total-period --show-cpu-utilization --showcpuutilization -T --threads -g --call-graph --children --latency -G --inverted -H --hierarchy --max-stack --branch-history --stitch-lbr --ignore-callees -p --parent -x --exclude-other -c --comms --pid --tid -C --cpu -d --dsos -S --symbols --symbol-filter --socket-filter --parallelism --event --time --switch-on --switch-off --show-on-off-events --percent-limit --percentage -U --hide-unresolved --group --group-sort-idx -t --field-separator -w --column-widths --total-cycles -b --branch-stack --mem-mode --with-off-cpu --ns --time-quantum --raw-trace --full-source-path --skip-empty --stdio --verdict --tui --stdio-color --full-names --json --flamegraph --html --source --folded --speedscope --firefox --pprof --itrace --header --header-only -I --show-info --stats --tasks --mmaps -D --dump-raw-trace --symfs --kallsyms -k --vmlinux --demangle --demangle-kernel --fold-interpreters -m --modules --ignore-vmlinux --jobs --weights --cluster -v --verbose -q --quiet --inline -h --help"
        ;;
    view)
        options="-i --input -f --force -o --output --source --browser --symfs --kallsyms -k --vmlinux --demangle --demangle-kernel --fold-interpreters -q --quiet -h --help"
        ;;
    annotate)
        options="-i --input -f --force -s --symbol -d --dsos -C --cpu --percent-limit --skip-missing --group --skip-empty --source --asm-raw -M --disassembler-style -l --print-line -P --full-paths --objdump --prefix --prefix-strip -n --show-nr-samples --show-total-period --percent-type --stdio-color --by-line -D --dump-raw-trace --stdio --symfs --kallsyms -k --vmlinux --demangle --demangle-kernel --fold-interpreters --itrace -m --modules --ignore-vmlinux -v --verbose -q --quiet -h --help"
        ;;
    diff)
        options="-s --sort -c --compute -b --baseline-only -p --period -F --formula -o --order -d --dsos -C --comms -S --symbols --pid --tid --cpu --time --percentage -t --field-separator --with-off-cpu --fail-above --noise --stdio --json --flamegraph --html --all --ignore-comm --full-names -f --force --jobs --before --after --unit --weights --cluster --symfs --kallsyms -k --vmlinux --demangle --demangle-kernel --fold-interpreters -m --modules -v --verbose -q --quiet -h --help"
        ;;
    script)
        options="-i --input -f --force --jobs --itrace -F --fields -D --dump-raw-trace --dump-unsorted-raw-trace --time -L --Latency -d --debug-mode --ns --reltime --deltatime -G --hide-call-graph --max-stack --max-blocks --stop-bt --full-source-path --show-kernel-path --call-trace --call-ret-trace --insn-trace --show-task-events --show-mmap-events --show-switch-events --show-namespace-events --show-cgroup-events --show-lost-events --show-bpf-events --show-text-poke-events --show-round-events -c --comms --pid --tid -C --cpu --per-event-dump -S --symbols --addr-range --dsos --switch-on --switch-off --show-on-off-events --stitch-lbr --header --header-only -I --show-info --symfs --kallsyms -k --vmlinux --demangle --demangle-kernel --fold-interpreters --guestmount --guestkallsyms --guestmodules --guestvmlinux -v --verbose -q --quiet -s --script --py -g --gen-script -l --list -a --all-cpus --inline -h --help"
        workload="yes"
        ;;
    sched)
        options="-i --input -f --force -v --verbose -D --dump-raw-trace -h --help -s --sort -C --CPU -p --pids -k --vmlinux --kallsyms -g --call-graph --max-stack --symfs --summary -S --with-summary -w --wakeups -n --next -M --migrations -V --cpu-visual -I --idle-hist --time --state --pid -t --tid --cpu --show-prio --prio -P --pre-migrations --comm --compact --cpus --task-name --fuzzy-name --color-pids --color-cpus -r --repeat -o --output"
        actions="record latency timehist map replay stats script"
        ;;
    lock)
        options="-i --input -f --force -q --quiet -v --verbose -D --dump-raw-trace --vmlinux --kallsyms --output -h --help -k --key -F --field -t --threads -c --combine-locks -E --entries -m --map -o --lock-owner -l --lock-addr --max-stack --stack-skip -Y --type-filter -L --lock-filter -S --callstack-filter -x --field-separator"
        actions="record report info contention script"
        ;;
    kwork)
        options="-k --kwork -i --input -f --force -v --verbose -D --dump-raw-trace --vmlinux --kallsyms -C --cpu -n --name --time --symfs -h --help -s --sort -S --with-summary -g --call-graph --max-stack"
        actions="record report latency timehist top"
        ;;
    kmem)
        options="-i --input -f --force -v --verbose --slab --page --vmlinux --kallsyms --alloc --caller -s --sort -l --line --raw-ip --live --time -h --help"
        actions="record stat"
        ;;
    timechart)
        options="-P --power-only -T --tasks-only -i --input -f --force -v --verbose -o --output --html -w --width -n --proc-num -p --process -t --topology --highlight --io-skip-eagain --io-min-time --io-merge-dist -h --help -I --io-only -g --callchain"
        actions="record"
        ;;
    why)
        options="-i --input -f --force -v --verbose -q --quiet --symfs --kallsyms -k --vmlinux --demangle --demangle-kernel --fold-interpreters -p --pid -d --duration --python -j --json -o --output --chrome-trace --html -h --help"
        workload="yes"
        ;;
    mem)
        options="-v --verbose -t --type -p --phys-data --data-page-size -C --cpu -f --force -h --help -e --event -K --all-kernel -U --all-user --ldlat -i --input -D --dump-raw-samples -s --sort --hide-unresolved -x --field-separator"
        actions="record report"
        ;;
    c2c)
        options="-v --verbose -h --help -e --event -k --all-kernel -u --all-user -l --ldlat -i --input -f --force --stdio --symfs --kallsyms --vmlinux --demangle --demangle-kernel --fold-interpreters -q --quiet -N --node-info --show-all --stats --full-symbols --no-source -d --display -c --coalesce --double-cl"
        actions="record report"
        ;;
    kvm)
        options="-i --input -f --force -v --verbose --guestmount --guestkallsyms --guestmodules --guestvmlinux --host --guest --guest-code -o --output -h --help -p --pid -t --tid -u --uid -C --cpu -a --all-cpus -G --cgroup --per-thread --no-inherit --descendants -D --delay --control --exclude-perf -e --event --filter -S --snapshot --aux-sample --event-files -F --freq -c --count --strict-freq --all-kernel --all-user -n --no-samples --no-buffering -g --call-graph --unwind --keep-stacks --kernel-callchains --user-callchains --off-cpu --off-cpu-thresh --off-cpu-limit --latency --jit --python --self-contained -s --stat -R --raw-samples -d --data --data-mmap --sample-mem-info --phys-data --data-page-size --code-page-size -T --timestamp -P --period --sample-cpu --sample-identifier -W --weight --transaction -b --branch-any -j --branch-filter -I --intr-regs --user-regs --running-time -k --clockid --switch-events --namespaces --all-cgroups --no-bpf-event --buildid-mmap --synth --tail-synthesize --num-thread-synthesize --proc-map-timeout -m --mmap-pages --mmap-flush --affinity --threads --aio --overwrite --switch-output --switch-output-event --switch-max-files --max-cpu --max-size --timestamp-filename --timestamp-boundary -z --compression-level --kcore -N --no-buildid-cache -B --no-buildid --buildid-all -r --realtime --debuginfod --vmlinux --dry-run -q --quiet --brief --sort --fields --show-nr-samples --show-total-period --show-cpu-utilization --showcpuutilization --children --inverted -H --hierarchy --max-stack --branch-history --stitch-lbr --ignore-callees --parent -x --exclude-other --comms --dsos --symbols --symbol-filter --socket-filter --parallelism --time --switch-on --switch-off --show-on-off-events --percent-limit --percentage -U --hide-unresolved --group-sort-idx --field-separator -w --column-widths --total-cycles --branch-stack --mem-mode --with-off-cpu --ns --time-quantum --raw-trace --full-source-path --skip-empty --stdio --verdict --tui --stdio-color --full-names --json --flamegraph --html --source --folded --speedscope --firefox --pprof --itrace --header --header-only --show-info --stats --tasks --mmaps --dump-raw-trace --symfs --kallsyms --demangle --demangle-kernel --fold-interpreters --modules --ignore-vmlinux --jobs --weights --cluster --inline --compute --baseline-only --formula --order --fail-above --noise --all --ignore-comm --before --after --unit --with-hits --kernel --kernel-maps --vcpu --key"
        actions="record report top diff buildid-list stat"
        ;;
    ftrace)
        options="-v --verbose -p --pid --tid -a --all-cpus -C --cpu -T --trace-funcs -N --notrace-funcs -G --graph-funcs -g --nograph-funcs -m --buffer-size -t --tracer -F --funcs -D --delay --inherit --func-opts --graph-opts -h --help -n --use-nsec -s --sort"
        workload="yes"
        actions="trace latency profile"
        ;;
    list)
        options="-d --desc -j --json -o --output -v --long-desc --details --deprecated --unit --cputype --check --event-files --update-events --debug --stdio -h --help"
        ;;
    evlist)
        options="-i --input -f --force -F --freq -g --group -v --verbose --trace-fields -h --help"
        ;;
    buildid-list)
        options="-i --input -f --force -H --with-hits -k --kernel -m --kernel-maps -v --verbose -h --help"
        ;;
    buildid-cache)
        options="-a --add -r --remove -p --purge -P --purge-all -u --update -M --missing -l --list -f --force -v --verbose -h --help"
        ;;
    probe)
        options="-a --add -d --del -D --definition -l --list -L --line -V --vars -F --funcs -x --exec -m --module -k --vmlinux -s --source --symfs --target-ns --demangle --demangle-kernel -v --verbose -q --quiet -f --force -n --dry-run --filter --max-probes --range --externs --no-inlines -h --help"
        ;;
    latency)
        options="-i --input -f --force -v --verbose -q --quiet --of -p --pid -x --exec -d --duration -n --slowest -j --json -o --output -h --help"
        workload="yes"
        ;;
    inject)
        options="-i --input -f --force -o --output -j --jit -b --build-ids --buildid-all -B --mmap2-buildids --mmap2-buildid-all --known-build-ids --itrace --strip --convert-callchain --symfs -v --verbose -h --help"
        ;;
    archive)
        options="-i --input --unpack -f --force -h --help"
        ;;
    data)
        options="-i --input --to-json -f --force --time -h --help"
        ;;
    export)
        options="--symfs --kallsyms -k --vmlinux --demangle --demangle-kernel --fold-interpreters -q --quiet -o --parquet --output --otlp --perfetto -i --input -f --force -h --help"
        ;;
    config)
        options="-l --list --system --user -h --help"
        ;;
    check)
        options="-q --quiet -h --help"
        ;;
    version)
        options="--build-options -v --verbose -h --help"
        ;;
    help)
        _perfpy_offer "" stat record top trace stacks leaks report view annotate diff script sched lock kwork kmem timechart why mem c2c kvm ftrace list evlist buildid-list buildid-cache probe latency inject archive data export config check version help guide screens compatibility performance python many continuous cluster
        return
        ;;
    esac
    if [[ -n $workload ]] && declare -F _command_offset >/dev/null; then
        local index
        for ((index = 2; index < cword; index++)); do
            [[ ${words[index]} == -- ]] && _command_offset $((index + 1)) && return
        done
    fi
    [[ $cur == --?*=* ]] && prev=${cur%%=*} cur=${cur#*=} attached="="
    if [[ $prev == -?* ]] && _perfpy_value "${words[1]}" "$attached$prev"; then
        _perfpy_cut
        return
    fi
    if [[ $cur == -* ]]; then
        _perfpy_offer "" $options --help
    elif [[ -n $actions ]] && ((cword == 2)); then
        _perfpy_offer "" $actions
    elif [[ -n $workload ]]; then
        mapfile -t COMPREPLY < <(compgen -c -- "$cur"; compgen -f -- "$cur")
        compopt -o filenames 2>/dev/null
    elif [[ ${words[1]} == diff ]]; then
        _perfpy_recordings
    elif [[ ${words[1]} == list ]]; then
        _perfpy_offer "" hw sw cache tracepoint pmu sdt metric metricgroup
        _perfpy_ask "" events
        _perfpy_cut
    else
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        compopt -o filenames 2>/dev/null
    fi
}

complete -o bashdefault -F _perfpy perfpy
