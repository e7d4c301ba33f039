#compdef perfpy
# zsh completion for perfpy; written by completions/generate.py

# what perfpy knows of $1
_perfpy_ask() {
    local kind=$1
    local -a lines names
    shift
    lines=(${(f)"$(command perfpy complete $kind 2>/dev/null)"})
    names=(${lines%%$'	'*})
    lines=(${lines//$'	'/  -- })
    compadd "$@" -l -d lines -a names
}

_perfpy_recordings() {
    local -a names
    names=(${(f)"$(command perfpy complete recordings "${(Q)PREFIX}" 2>/dev/null)"})
    compadd -f -a names || _files
}

_perfpy() {
    local curcontext=$curcontext state line
    local -a summaries
    summaries=(
        'stat:run a program and count events'
        'record:run a program and record its profile into perf.data'
        'top:show what runs now, as a live profile'
        'trace:print system calls as they happen, or from a recording'
        'stacks:print what the threads of a process do or wait for now'
        'leaks:show which lines hold or keep memory, at the peak and at the end'
        'report:read perf.data and show the profile'
        'view:show the profile in the browser'
        'annotate:show the code of hot functions with samples per instruction'
        'diff:compare recordings and mark changes beyond noise'
        'script:read perf.data and print every sample'
        'sched:show scheduling delays and context switches of threads'
        'lock:show waits for the kernel'\''s locks'
        'kwork:show interrupts and work queues of the kernel, and their delays'
        'kmem:show the memory that the kernel allocates'
        'timechart:draw what CPUs and tasks did over time'
        'why:explain why a program is slow, and which thread waits for which'
        'mem:show memory accesses: latency, data, and what served them'
        'c2c:show cache lines that CPUs take from each other'
        'kvm:show why virtual CPUs exit to the host, and for how long'
        'ftrace:trace the kernel'\''s functions with its function tracers'
        'list:list the events of this machine'
        'evlist:list the events in a perf.data'
        'buildid-list:list the build-ids of a perf.data'\''s files'
        'buildid-cache:manage the build-id cache'
        'probe:probe functions and lines of programs and the kernel'
        'latency:show how long the calls of a function take'
        'inject:add JIT-compiled code or build-ids to a perf.data'
        'archive:pack the files that a recording needs'
        'data:convert a perf.data into JSON'
        'export:write recordings as Parquet tables'
        'config:show or change perf'\''s configuration files'
        'check:check whether a perf feature is available'
        'version:show the version and the available features'
        'help:show the help of a command or a topic'
    )
    _arguments -C '(-h --help)'{-h,--help}'[show help]' '(-v --version)'{-v,--version}'[show the version]' \
        '1: :->command' '*:: :->rest'
    case $state in
    command) _describe command summaries ;;
    rest)
        case $words[1] in
        stat)
            _arguments -s -S \
                '*-e+[select events]:events: _sequence _perfpy_ask events -' \
                '*--event=[select events]:events: _sequence _perfpy_ask events -' \
                '*--filter=[filter the tracepoints of the last -e]:value: ' \
                '*--event-files=[also take named events from these JSON files]:directory: _files -/' \
                '*--cputype=[count on this kind of core only, on hybrid machines]:pmus: _perfpy_ask pmus' \
                '*--pmu-filter=[use this PMU if an event matches several]:pmus: _perfpy_ask pmus' \
                '*-i[do not count child tasks]' \
                '*--no-inherit[do not count child tasks]' \
                '*-p+[count these processes]:pids: _sequence _perfpy_ask pids -' \
                '*--pid=[count these processes]:pids: _sequence _perfpy_ask pids -' \
                '*-t+[count these threads]:tids: _sequence _perfpy_ask tids -' \
                '*--tid=[count these threads]:tids: _sequence _perfpy_ask tids -' \
                '*-a[count on all CPUs]' \
                '*--all-cpus[count on all CPUs]' \
                '*--scale[scale counts of multiplexed events]' \
                '*-v[print more details]' \
                '*--verbose[print more details]' \
                '*-r+[run the command n times, print mean and spread]:value: ' \
                '*--repeat=[run the command n times, print mean and spread]:value: ' \
                '*--table[print each repeat]' \
                '*-n[count nothing, measure only the time]' \
                '*--null[count nothing, measure only the time]' \
                '*-d[add cache events]' \
                '*--detailed[add cache events]' \
                '*-S[sync file systems before each run]' \
                '*--sync[sync file systems before each run]' \
                '*-B[use the locale'\''s thousands separators]' \
                '*--big-num[use the locale'\''s thousands separators]' \
                '*-C+[count on these CPUs, such as 0-2,5]:value: ' \
                '*--cpu=[count on these CPUs, such as 0-2,5]:value: ' \
                '*-A[print one line for each CPU]' \
                '*--no-aggr[print one line for each CPU]' \
                '*--no-merge[print one line for each CPU]' \
                '*-x+[separate fields with this string]:value: ' \
                '*--field-separator=[separate fields with this string]:value: ' \
                '*-j[print JSON, one object a line]' \
                '*--json-output[print JSON, one object a line]' \
                '*-G+[count the preceding event in this cgroup]:value: ' \
                '*--cgroup=[count the preceding event in this cgroup]:value: ' \
                '*--for-each-cgroup=[count each event in each of these cgroups]:value: ' \
                '*-o+[write to this file]:file:_files' \
                '*--output=[write to this file]:file:_files' \
                '*--append[append to the file of -o]' \
                '*--log-fd=[write to this file descriptor instead of stderr]:value: ' \
                '*--pre=[run this before each run]:program: _command_names -e' \
                '*--post=[run this after each run]:program: _command_names -e' \
                '*-I+[print counts every n ms]:value: ' \
                '*--interval-print=[print counts every n ms]:value: ' \
                '*--interval-count=[stop after n intervals]:value: ' \
                '*--interval-clear[clear the screen before each interval]' \
                '*--timeout=[stop after n ms]:value: ' \
                '*--per-socket[print one line for each socket]' \
                '*--per-die[print one line for each die]' \
                '*--per-cluster[print one line for each cluster]' \
                '*--per-cache=-[print one line for each cache]::value: ' \
                '*--per-core[print one line for each core]' \
                '*--per-thread[print one line for each thread]' \
                '*--per-node[print one line for each NUMA node]' \
                '*--stdio[print perf'\''s plain text, also on a terminal]' \
                '*-D+[start counting after n ms]:value: ' \
                '*--delay=[start counting after n ms]:value: ' \
                '*-M+[compute these metrics or metric groups]:metrics: _sequence _perfpy_ask metrics -' \
                '*--metrics=[compute these metrics or metric groups]:metrics: _sequence _perfpy_ask metrics -' \
                '*--metric-no-group[do not group the events of a metric]' \
                '*--metric-no-merge[do not share events between metrics]' \
                '*--metric-no-threshold[do not count events for metric thresholds]' \
                '*-T[compute the metrics of hardware transactions]' \
                '*--transaction[compute the metrics of hardware transactions]' \
                '*--topdown[compute the top-down metrics]' \
                '*--td-level=[set the level of --topdown]:value: ' \
                '*--smi-cost[measure the cost of system management interrupts]' \
                '*--metric-only[print only ratios and metrics]' \
                '*--hide-zero-events[hide events with a count of zero]' \
                '*--hybrid-merge[add the counts of all kinds of cores]' \
                '*--all-kernel[count only kernel code]' \
                '*--all-user[count only code in user space]' \
                '*--summary[with -I\: print the totals at the end]' \
                '*--no-csv-summary[omit the word '\''summary'\'' from --summary'\''s lines with -x]' \
                '*--quiet[print nothing]' \
                '*--control=[read enable and disable commands from here, answer ack]:value: ' \
                '*--compare=[compare with this command, run in turns]:program: _command_names -e' \
                '*--warmup=[with --compare\: run each command n times first, uncounted]:value: ' \
                '*--min-change=[with --compare\: ignore differences below this]:value: ' \
                '*--fail-if-slower=[with --compare\: exit with 90 if a command is slower by more]:value: ' \
                '*--ignore-failure[with --compare\: also compare failing runs]' \
                '*-h[show this text]' \
                '*--help[show this text]' \
                '(-)1:program: _command_names -e' \
                '*::arguments:_normal'
            ;;
        record)
            _arguments -s -S \
                '*-p+[only these processes]:pids: _sequence _perfpy_ask pids -' \
                '*--pid=[only these processes]:pids: _sequence _perfpy_ask pids -' \
                '*-t+[only these threads]:tids: _sequence _perfpy_ask tids -' \
                '*--tid=[only these threads]:tids: _sequence _perfpy_ask tids -' \
                '*-u+[only the threads of this user]:user:_users' \
                '*--uid=[only the threads of this user]:user:_users' \
                '*-C+[only these CPUs, such as 0-2,5]:value: ' \
                '*--cpu=[only these CPUs, such as 0-2,5]:value: ' \
                '*-a[record all CPUs]' \
                '*--all-cpus[record all CPUs]' \
                '*-G+[record only the tasks of these cgroups]:value: ' \
                '*--cgroup=[record only the tasks of these cgroups]:value: ' \
                '*--per-thread[use one ring buffer for each thread instead of each CPU]' \
                '*-i[do not record child tasks]' \
                '*--no-inherit[do not record child tasks]' \
                '*--descendants[with -p\: also its running children]' \
                '*-D+[start after n ms]:value: ' \
                '*--delay=[start after n ms]:value: ' \
                '*--control=[read commands\: enable, disable, evlist, stop, ping]:value: ' \
                '*--exclude-perf[drop tracepoint hits of perfpy itself]' \
                '*-e+[select events]:events: _sequence _perfpy_ask events -' \
                '*--event=[select events]:events: _sequence _perfpy_ask events -' \
                '*--filter=[filter the tracepoints or addresses of the last -e]:value: ' \
                '*-S-[record a tracer'\''s last data on SIGUSR2]::value: ' \
                '*--snapshot=-[record a tracer'\''s last data on SIGUSR2]::value: ' \
                '*--aux-sample=-[add a tracer'\''s last data to samples of its group]::value: ' \
                '*--event-files=[also take named events from these JSON files]:directory: _files -/' \
                '*-F+[samples per second]:value:(max 99 997)' \
                '*--freq=[samples per second]:value:(max 99 997)' \
                '*-c+[take one sample every n events]:value: ' \
                '*--count=[take one sample every n events]:value: ' \
                '*--strict-freq[fail if the kernel would lower the frequency]' \
                '*--all-kernel[sample only kernel code]' \
                '*--all-user[sample only code in user space]' \
                '*-n[take no samples]' \
                '*--no-samples[take no samples]' \
                '*--no-buffering[wake up at every sample]' \
                '*-g[record callchains by frame pointers]' \
                '*--call-graph=[record callchains\: fp\[,frames\]\[,defer\], dwarf\[,bytes\] or lbr]:value:(dwarf fp lbr)' \
                '*--unwind[unwind DWARF stacks while recording]' \
                '*--keep-stacks[with --unwind\: also write the stacks to <output>.stacks]' \
                '*--kernel-callchains[record only the kernel part of callchains]' \
                '*--user-callchains[record only the user part of callchains]' \
                '*--off-cpu[also record waits with their stacks]' \
                '*--off-cpu-thresh=[with --off-cpu\: sum up shorter waits]:value: ' \
                '*--off-cpu-limit=[with --off-cpu\: stacks per second]:value: ' \
                '*--latency[record context switches, for perfpy report --latency]' \
                '*--jit[record the names of JIT-compiled and interpreted functions]' \
                '*--python[record Python functions and lines, also of running programs]' \
                '*--self-contained=-[store symbol names or binaries in the file]::value:(names binaries)' \
                '*-s[record per-thread counts at thread exit]' \
                '*--stat[record per-thread counts at thread exit]' \
                '*-R[record raw data, such as tracepoint fields]' \
                '*--raw-samples[record raw data, such as tracepoint fields]' \
                '*-d[record data addresses]' \
                '*--data[record data addresses]' \
                '*--data-mmap[record data mappings, too]' \
                '*--sample-mem-info[record data sources in the memory hierarchy]' \
                '*--phys-data[record physical data addresses]' \
                '*--data-page-size[record the page size of data addresses]' \
                '*--code-page-size[record the page size of code addresses]' \
                '*-T[record timestamps]' \
                '*--timestamp[record timestamps]' \
                '*-P[record periods]' \
                '*--period[record periods]' \
                '*--sample-cpu[record CPU numbers]' \
                '*--sample-identifier[record ids at a fixed offset]' \
                '*-W[record sample weights]' \
                '*--weight[record sample weights]' \
                '*--transaction[record transaction flags, if the CPU has them]' \
                '*-b[record taken branches]' \
                '*--branch-any[record taken branches]' \
                '*-j+[record taken branches of these kinds]:value: _sequence compadd - u k hv any any_call any_ret ind_call abort_tx in_tx no_tx cond ind_jmp call no_flags no_cycles save_type stack hw_index priv counter' \
                '*--branch-filter=[record taken branches of these kinds]:value: _sequence compadd - u k hv any any_call any_ret ind_call abort_tx in_tx no_tx cond ind_jmp call no_flags no_cycles save_type stack hw_index priv counter' \
                '*-I-[record registers at the interrupt]::value: ' \
                '*--intr-regs=-[record registers at the interrupt]::value: ' \
                '*--user-regs=-[record user registers]::value: ' \
                '*--running-time[record how long \:S groups were enabled and running]' \
                '*-k+[use this clock\: monotonic, boottime ... or a number]:value:(monotonic monotonic_raw realtime boottime tai mono raw real boot)' \
                '*--clockid=[use this clock\: monotonic, boottime ... or a number]:value:(monotonic monotonic_raw realtime boottime tai mono raw real boot)' \
                '*--switch-events[record context switches]' \
                '*--namespaces[record namespaces of tasks]' \
                '*--all-cgroups[record cgroups of tasks]' \
                '*--no-bpf-event[do not record BPF programs]' \
                '*--buildid-mmap[record build-ids in mappings instead of a table]' \
                '*--synth=[existing state to synthesize\: no, all, task, mmap, cgroup]:value: _sequence compadd - no all task mmap cgroup' \
                '*--tail-synthesize[synthesize existing state at the end]' \
                '*--num-thread-synthesize=[ignored\: one thread is enough]:value: ' \
                '*--proc-map-timeout=[ignored\: reading maps never takes that long]:value: ' \
                '*-o+[output file]:file:_files' \
                '*--output=[output file]:file:_files' \
                '*-m+[size of ring buffers\[,AUX areas\] in pages, or bytes\: 64K, 2M]:value: ' \
                '*--mmap-pages=[size of ring buffers\[,AUX areas\] in pages, or bytes\: 64K, 2M]:value: ' \
                '*--mmap-flush=[write at least this many bytes at once]:value: ' \
                '*--affinity=[read ring buffers on any CPU]:value:(sys node cpu)' \
                '*--threads=-[read ring buffers with several threads, into a folder]::value: ' \
                '*--aio=-[ignored\: the kernel writes to the disk later anyway]::value: ' \
                '*--overwrite[overwrite the oldest samples if the ring buffer is full]' \
                '*--switch-output=-[start a new file on SIGUSR2, or by size]::value: ' \
                '*--switch-output-event=[start a new file on each of these events]:events: _sequence _perfpy_ask events -' \
                '*--switch-max-files=[keep this many switched output files]:value: ' \
                '*--max-cpu=[sample less if recording uses more of one CPU than this]:value: ' \
                '*--max-size=[stop when the file reaches this size]:value: ' \
                '*--timestamp-filename[append the time to the file name]' \
                '*--timestamp-boundary[record the times of the first and last samples]' \
                '*-z-[compress with zstd]::value: ' \
                '*--compression-level=-[compress with zstd]::value: ' \
                '*--kcore[copy the code of the kernel and its modules into a folder]' \
                '*-N[do not copy recorded programs into the build-id cache]' \
                '*--no-buildid-cache[do not copy recorded programs into the build-id cache]' \
                '*-B[do not record build-ids]' \
                '*--no-buildid[do not record build-ids]' \
                '*--buildid-all[record build-ids of all files, sampled or not]' \
                '*-r+[run with this SCHED_FIFO priority]:value: ' \
                '*--realtime=[run with this SCHED_FIFO priority]:value: ' \
                '*--debuginfod=-[ignored\: set DEBUGINFOD_URLS for report]::value: ' \
                '*--vmlinux=[ignored\: only perf'\''s BPF programs need it]:file:_files' \
                '*--dry-run[parse the options, then exit]' \
                '*-v[print more details]' \
                '*--verbose[print more details]' \
                '*-q[print no warnings or messages]' \
                '*--quiet[print no warnings or messages]' \
                '*--brief[print warnings only, no status lines]' \
                '*-h[show this text]' \
                '*--help[show this text]' \
                '(-)1:program: _command_names -e' \
                '*::arguments:_normal'
            ;;
        top)
            _arguments -s -S \
                '*-p+[only these processes]:pids: _sequence _perfpy_ask pids -' \
                '*--pid=[only these processes]:pids: _sequence _perfpy_ask pids -' \
                '*-t+[only these threads]:tids: _sequence _perfpy_ask tids -' \
                '*--tid=[only these threads]:tids: _sequence _perfpy_ask tids -' \
                '*-u+[only the threads of this user]:user:_users' \
                '*--uid=[only the threads of this user]:user:_users' \
                '*-C+[only these CPUs, such as 0-2,5]:value: ' \
                '*--cpu=[only these CPUs, such as 0-2,5]:value: ' \
                '*-a[watch all CPUs]' \
                '*--all-cpus[watch all CPUs]' \
                '*-G+[watch only the tasks of these cgroups]:value: ' \
                '*--cgroup=[watch only the tasks of these cgroups]:value: ' \
                '*-i[do not watch child tasks]' \
                '*--no-inherit[do not watch child tasks]' \
                '*--descendants[with -p\: also its running children]' \
                '*--show-self[also show perfpy top'\''s own samples]' \
                '*-e+[select events]:events: _sequence _perfpy_ask events -' \
                '*--event=[select events]:events: _sequence _perfpy_ask events -' \
                '*--filter=[filter the tracepoints of the last -e]:value: ' \
                '*-F+[samples per second]:value:(max 99 997)' \
                '*--freq=[samples per second]:value:(max 99 997)' \
                '*-c+[take one sample every n events]:value: ' \
                '*--count=[take one sample every n events]:value: ' \
                '*-m+[size of ring buffers in pages, or bytes\: 64K, 2M]:value: ' \
                '*--mmap-pages=[size of ring buffers in pages, or bytes\: 64K, 2M]:value: ' \
                '*--overwrite[overwrite the oldest samples if the ring buffer is full]' \
                '*-r+[run with this SCHED_FIFO priority]:value: ' \
                '*--realtime=[run with this SCHED_FIFO priority]:value: ' \
                '*--namespaces[follow namespaces of tasks]' \
                '*--all-cgroups[follow cgroups of tasks, for --sort cgroup]' \
                '*--no-bpf-event[do not follow BPF programs]' \
                '*-g[record and show callchains by frame pointers]' \
                '*--call-graph=[show callchains\: fp or dwarf\[,bytes\], print_type, order]:value: ' \
                '*--children[add callers'\'' overhead]' \
                '*-b[sample taken branches]' \
                '*--branch-any[sample taken branches]' \
                '*-j+[sample taken branches of these kinds]:value: _sequence compadd - u k hv any any_call any_ret ind_call abort_tx in_tx no_tx cond ind_jmp call no_flags no_cycles save_type stack hw_index priv counter' \
                '*--branch-filter=[sample taken branches of these kinds]:value: _sequence compadd - u k hv any any_call any_ret ind_call abort_tx in_tx no_tx cond ind_jmp call no_flags no_cycles save_type stack hw_index priv counter' \
                '*--max-stack=[use at most n frames of a callchain]:value: ' \
                '*--off-cpu[show what threads wait for now]' \
                '*--python[show Python functions]' \
                '*--jit[request names of JIT-compiled code from JVMs]' \
                '*-s+[sort by these keys\: comm, pid, cpu]:value: _sequence compadd - overhead overhead_sys overhead_us overhead_guest_sys overhead_guest_us overhead_children sample period weight1 weight2 weight3 latency latency_children seconds pid comm dso symbol parent cpu socket srcline srcfile local_weight weight transaction trace symbol_size dso_size cgroup cgroup_id ipc_null time code_page_size local_ins_lat ins_lat local_p_stage_cyc p_stage_cyc addr local_retire_lat retire_lat simd symoff tgid comm_nodigit parallelism dso_from dso_to symbol_from symbol_to mispredict abort in_tx cycles srcline_from srcline_to ipc_lbr addr_from addr_to symbol_daddr dso_daddr locked tlb mem snoop dcacheline symbol_iaddr phys_daddr data_page_size blocked state waker container gil host recording tod date build_id pyfunc pyline' \
                '*--sort=[sort by these keys\: comm, pid, cpu]:value: _sequence compadd - overhead overhead_sys overhead_us overhead_guest_sys overhead_guest_us overhead_children sample period weight1 weight2 weight3 latency latency_children seconds pid comm dso symbol parent cpu socket srcline srcfile local_weight weight transaction trace symbol_size dso_size cgroup cgroup_id ipc_null time code_page_size local_ins_lat ins_lat local_p_stage_cyc p_stage_cyc addr local_retire_lat retire_lat simd symoff tgid comm_nodigit parallelism dso_from dso_to symbol_from symbol_to mispredict abort in_tx cycles srcline_from srcline_to ipc_lbr addr_from addr_to symbol_daddr dso_daddr locked tlb mem snoop dcacheline symbol_iaddr phys_daddr data_page_size blocked state waker container gil host recording tod date build_id pyfunc pyline' \
                '*--by=[show a row for each process, thread, cgroup or container]:value:(process thread cgroup container)' \
                '*--fields=[choose the columns]:value: _sequence compadd - overhead overhead_sys overhead_us overhead_guest_sys overhead_guest_us overhead_children sample period weight1 weight2 weight3 latency latency_children seconds pid comm dso symbol parent cpu socket srcline srcfile local_weight weight transaction trace symbol_size dso_size cgroup cgroup_id ipc_null time code_page_size local_ins_lat ins_lat local_p_stage_cyc p_stage_cyc addr local_retire_lat retire_lat simd symoff tgid comm_nodigit parallelism dso_from dso_to symbol_from symbol_to mispredict abort in_tx cycles srcline_from srcline_to ipc_lbr addr_from addr_to symbol_daddr dso_daddr locked tlb mem snoop dcacheline symbol_iaddr phys_daddr data_page_size blocked state waker container gil host recording tod date build_id pyfunc pyline' \
                '*-H[print a tree of rows, one level per sort key]' \
                '*--hierarchy[print a tree of rows, one level per sort key]' \
                '*-n[show a column with the number of samples]' \
                '*--show-nr-samples[show a column with the number of samples]' \
                '*--show-total-period[show a column with the sum of periods]' \
                '*--comms=[only these commands]:value: ' \
                '*--dsos=[only these shared objects]:value: ' \
                '*--symbols=[only these functions]:value: ' \
                '*-K[hide kernel functions]' \
                '*--hide_kernel_symbols[hide kernel functions]' \
                '*-U[hide user functions]' \
                '*--hide_user_symbols[hide user functions]' \
                '*--percent-limit=[hide rows below this share]:value: ' \
                '*--percentage=[percentages of the filtered or of all samples]:value:(relative absolute)' \
                '*--raw-trace[show raw fields of tracepoints]' \
                '*-w+[set the column widths]:value: ' \
                '*--column-widths=[set the column widths]:value: ' \
                '*-E+[show this many rows]:value: ' \
                '*--entries=[show this many rows]:value: ' \
                '*-z[forget earlier samples at each update]' \
                '*--zero[forget earlier samples at each update]' \
                '*--kallsyms=[read kernel symbols from this copy of /proc/kallsyms]:file:_files' \
                '*-k+[read kernel symbols from this ELF file]:file:_files' \
                '*--vmlinux=[read kernel symbols from this ELF file]:file:_files' \
                '*--ignore-vmlinux[do not look for a vmlinux]' \
                '*-D[print the symbols that were loaded, at the end, to stderr]' \
                '*--dump-symtab[print the symbols that were loaded, at the end, to stderr]' \
                '*--demangle-kernel[demangle kernel names, too]' \
                '*--sym-annotate=[show the code of this function instead of rows]:value: ' \
                '*--source[include source lines in code]' \
                '*--asm-raw[show the bytes of instructions]' \
                '*-M+[syntax of code\: intel, att]:value: ' \
                '*--disassembler-style=[syntax of code\: intel, att]:value: ' \
                '*--objdump=[disassemble with this objdump]:value: ' \
                '*--prefix=[prepend this to paths of source files]:value: ' \
                '*--prefix-strip=[remove n folders from source paths first]:value: ' \
                '*-d+[seconds between two updates]:value: ' \
                '*--delay=[seconds between two updates]:value: ' \
                '*--updates=[exit after n updates]:value: ' \
                '*--keep=[time that the key w writes as perf.data]:value: ' \
                '*--stdio[print perf'\''s plain text, also on a terminal]' \
                '*--json[print one JSON object per update, on one line]' \
                '*-v[print more details]' \
                '*--verbose[print more details]' \
                '*-h[show this text]' \
                '*--help[show this text]' \
                '*:file:_files'
            ;;
        trace)
            _arguments -s -S \
                '*-i+[input file]:recording:_perfpy_recordings' \
                '*--input=[input file]:recording:_perfpy_recordings' \
                '*-f[skip the file ownership check]' \
                '*--force[skip the file ownership check]' \
                '*-p+[only these processes]:pids: _sequence _perfpy_ask pids -' \
                '*--pid=[only these processes]:pids: _sequence _perfpy_ask pids -' \
                '*-t+[only these threads]:tids: _sequence _perfpy_ask tids -' \
                '*--tid=[only these threads]:tids: _sequence _perfpy_ask tids -' \
                '*-u+[only the threads of this user]:user:_users' \
                '*--uid=[only the threads of this user]:user:_users' \
                '*-C+[only these CPUs, such as 0-2,5]:value: ' \
                '*--cpu=[only these CPUs, such as 0-2,5]:value: ' \
                '*-a[trace all CPUs]' \
                '*--all-cpus[trace all CPUs]' \
                '*-G+[trace only the tasks of this cgroup]:value: ' \
                '*--cgroup=[trace only the tasks of this cgroup]:value: ' \
                '*--no-inherit[do not trace child tasks]' \
                '*--filter-pids=[skip these processes]:pids: _sequence _perfpy_ask pids -' \
                '*-m+[size of ring buffers in pages, or bytes\: 64K, 2M]:value: ' \
                '*--mmap-pages=[size of ring buffers in pages, or bytes\: 64K, 2M]:value: ' \
                '*-e+[calls]:value: ' \
                '*--event=[calls]:value: ' \
                '*--expr=[calls]:value: ' \
                '*--filter=[filter the tracepoints of the last -e]:value: ' \
                '*--syscalls[print system calls]' \
                '*-F+[print page faults]:value:(all maj min)' \
                '*--pf=[print page faults]:value:(all maj min)' \
                '*--strings[read file names and structures, as root]' \
                '*--failure[print only calls that failed]' \
                '*--duration=[print only calls that took more than n milliseconds]:value: ' \
                '*--slowest=[print only the n slowest calls, at the end]:value: ' \
                '*--switch-on=[print only what happens after this event]:events: _sequence _perfpy_ask events -' \
                '*--switch-off=[print only what happens before this event]:events: _sequence _perfpy_ask events -' \
                '*--show-on-off-events[print the events of --switch-on and --switch-off, too]' \
                '*--calls=-[show the calls of these functions]::value: ' \
                '*--calls-from=[source of --calls\: pt, probes or steps\[\:TIME\]]:value: ' \
                '*--when=[end --calls with such a call\: '\''handle > 10ms'\'']:value: ' \
                '*--last=[show the --calls of this time before the end\: 10ms]:value: ' \
                '*--max-events=[stop after n lines]:value: ' \
                '*--call-graph=[print callchains\: fp or dwarf\[,bytes\]]:value: ' \
                '*--kernel-syscall-graph[print the kernel'\''s frames of system calls, too]' \
                '*--max-stack=[print at most n frames of a callchain]:value: ' \
                '*--min-stack=[print only calls with at least n frames]:value: ' \
                '*-T[print times of the clock, not since the first event]' \
                '*--time[print times of the clock, not since the first event]' \
                '*--comm[print the comm of the thread]' \
                '*--show-cpu[print the CPU]' \
                '*-s[print only tables of calls and times by thread]' \
                '*--summary[print only tables of calls and times by thread]' \
                '*-S[print the calls, then the tables]' \
                '*--with-summary[print the calls, then the tables]' \
                '*--sched[print the time on a CPU of each thread in the tables]' \
                '*--errno-summary[print the errors of each call in the tables]' \
                '*--summary-mode=[a table for each thread, or one for all]:value:(thread total)' \
                '*--max-summary=[print at most n rows of a table]:value: ' \
                '*--percentiles[print a table with percentiles and shares of the time]' \
                '*--histogram[print the table and a histogram of each call'\''s times]' \
                '*--html=[write a page with a lane of calls for each thread]:file:_files' \
                '*--chrome-trace=[write --calls for Perfetto]:file:_files' \
                '*--by=[print a table by file or by peer address]:value:(path peer)' \
                '*--json[print JSON objects, one a line, on standard output]' \
                '*-o+[write to this file]:file:_files' \
                '*--output=[write to this file]:file:_files' \
                '*-v[print more details]' \
                '*--verbose[print more details]' \
                '*-h[show this text]' \
                '*--help[show this text]' \
                '(-)1:program: _command_names -e' \
                '*::arguments:_normal'
            ;;
        stacks)
            _arguments -s -S \
                '*-p+[print the stacks of these processes]:pids: _sequence _perfpy_ask pids -' \
                '*--pid=[print the stacks of these processes]:pids: _sequence _perfpy_ask pids -' \
                '*--locks[print only threads that wait for locks, and their holders]' \
                '*--running[print one line for each thread that runs, no others]' \
                '*--descendants[also print the processes that they have started]' \
                '*--inspect[ask the inspector of your own Node for functions]' \
                '*--locals[also print local variables of Python functions]' \
                '*--json[print one JSON object]' \
                '*-h[show this text]' \
                '*--help[show this text]' \
                '*:file:_files'
            ;;
        leaks)
            _arguments -s -S \
                '*-p+[watch this process]:pids: _sequence _perfpy_ask pids -' \
                '*--pid=[watch this process]:pids: _sequence _perfpy_ask pids -' \
                '*-d+[seconds to watch a process]:value: ' \
                '*--duration=[seconds to watch a process]:value: ' \
                '*--descendants[also watch the Python processes that it has started]' \
                '*--small-objects[count each object of up to 512 bytes]' \
                '*--html=[write a page with flame graphs of a command'\''s memory]:file:_files' \
                '*--json[print one JSON object]' \
                '*-h[show this text]' \
                '*--help[show this text]' \
                '(-)1:program: _command_names -e' \
                '*::arguments:_normal'
            ;;
        report)
            _arguments -s -S \
                '*-i+[input file]:recording:_perfpy_recordings' \
                '*--input=[input file]:recording:_perfpy_recordings' \
                '*-f[skip the file ownership check]' \
                '*--force[skip the file ownership check]' \
                '*-s+[sort by these keys\: comm, dso, symbol, pid, cpu, host, tod]:value: _sequence compadd - overhead overhead_sys overhead_us overhead_guest_sys overhead_guest_us overhead_children sample period weight1 weight2 weight3 latency latency_children seconds pid comm dso symbol parent cpu socket srcline srcfile local_weight weight transaction trace symbol_size dso_size cgroup cgroup_id ipc_null time code_page_size local_ins_lat ins_lat local_p_stage_cyc p_stage_cyc addr local_retire_lat retire_lat simd symoff tgid comm_nodigit parallelism dso_from dso_to symbol_from symbol_to mispredict abort in_tx cycles srcline_from srcline_to ipc_lbr addr_from addr_to symbol_daddr dso_daddr locked tlb mem snoop dcacheline symbol_iaddr phys_daddr data_page_size blocked state waker container gil host recording tod date build_id pyfunc pyline' \
                '*--sort=[sort by these keys\: comm, dso, symbol, pid, cpu, host, tod]:value: _sequence compadd - overhead overhead_sys overhead_us overhead_guest_sys overhead_guest_us overhead_children sample period weight1 weight2 weight3 latency latency_children seconds pid comm dso symbol parent cpu socket srcline srcfile local_weight weight transaction trace symbol_size dso_size cgroup cgroup_id ipc_null time code_page_size local_ins_lat ins_lat local_p_stage_cyc p_stage_cyc addr local_retire_lat retire_lat simd symoff tgid comm_nodigit parallelism dso_from dso_to symbol_from symbol_to mispredict abort in_tx cycles srcline_from srcline_to ipc_lbr addr_from addr_to symbol_daddr dso_daddr locked tlb mem snoop dcacheline symbol_iaddr phys_daddr data_page_size blocked state waker container gil host recording tod date build_id pyfunc pyline' \
                '*-F+[choose the columns]:value: _sequence compadd - overhead overhead_sys overhead_us overhead_guest_sys overhead_guest_us overhead_children sample period weight1 weight2 weight3 latency latency_children seconds pid comm dso symbol parent cpu socket srcline srcfile local_weight weight transaction trace symbol_size dso_size cgroup cgroup_id ipc_null time code_page_size local_ins_lat ins_lat local_p_stage_cyc p_stage_cyc addr local_retire_lat retire_lat simd symoff tgid comm_nodigit parallelism dso_from dso_to symbol_from symbol_to mispredict abort in_tx cycles srcline_from srcline_to ipc_lbr addr_from addr_to symbol_daddr dso_daddr locked tlb mem snoop dcacheline symbol_iaddr phys_daddr data_page_size blocked state waker container gil host recording tod date build_id pyfunc pyline' \
                '*--fields=[choose the columns]:value: _sequence compadd - overhead overhead_sys overhead_us overhead_guest_sys overhead_guest_us overhead_children sample period weight1 weight2 weight3 latency latency_children seconds pid comm dso symbol parent cpu socket srcline srcfile local_weight weight transaction trace symbol_size dso_size cgroup cgroup_id ipc_null time code_page_size local_ins_lat ins_lat local_p_stage_cyc p_stage_cyc addr local_retire_lat retire_lat simd symoff tgid comm_nodigit parallelism dso_from dso_to symbol_from symbol_to mispredict abort in_tx cycles srcline_from srcline_to ipc_lbr addr_from addr_to symbol_daddr dso_daddr locked tlb mem snoop dcacheline symbol_iaddr phys_daddr data_page_size blocked state waker container gil host recording tod date build_id pyfunc pyline' \
                '*-n[show a column with the number of samples]' \
                '*--show-nr-samples[show a column with the number of samples]' \
                '*--show-total-period[show a column with the sum of periods]' \
                '*--show-cpu-utilization[show shares of kernel and user code]' \
                '*--showcpuutilization[show shares of kernel and user code]' \
                '*-T[show counts per thread]' \
                '*--threads[show counts per thread]' \
                '*-g+[choose how to show callchains]::value: _sequence compadd - none graph flat fractal folded caller callee function address srcline branch percent period count' \
                '*--call-graph=[choose how to show callchains]::value: _sequence compadd - none graph flat fractal folded caller callee function address srcline branch percent period count' \
                '*--children[add callers'\'' overhead]' \
                '*--latency[sort by share of wall-clock time]' \
                '*-G[show call graphs from callers to callees]' \
                '*--inverted[show call graphs from callers to callees]' \
                '*-H[nest the rows, one level for each sort key]' \
                '*--hierarchy[nest the rows, one level for each sort key]' \
                '*--max-stack=[use at most n frames of a callchain]:value: ' \
                '*--branch-history[begin callchains with the recorded branches]' \
                '*--stitch-lbr[no effect without call stacks of branch records]' \
                '*--ignore-callees=[drop callees of these functions from callchains]:value: ' \
                '*-p+[regex that identifies the parent, for --sort parent]:value: ' \
                '*--parent=[regex that identifies the parent, for --sort parent]:value: ' \
                '*-x[only samples with a parent]' \
                '*--exclude-other[only samples with a parent]' \
                '*-c+[only these commands]:value: ' \
                '*--comms=[only these commands]:value: ' \
                '*--pid=[only these processes]:value: ' \
                '*--tid=[only these threads]:value: ' \
                '*-C+[only these CPUs]:value: ' \
                '*--cpu=[only these CPUs]:value: ' \
                '*-d+[only these shared objects]:value: ' \
                '*--dsos=[only these shared objects]:value: ' \
                '*-S+[only these functions]:value: ' \
                '*--symbols=[only these functions]:value: ' \
                '*--symbol-filter=[only functions with this part in their name]:value: ' \
                '*--socket-filter=[only the CPUs of this socket]:value: ' \
                '*--parallelism=[only samples at this parallelism]:value: ' \
                '*--event=[only samples of this event]:events: _sequence _perfpy_ask events -' \
                '*--time=[only this time\: start,stop, 10%-20%, 10%/2]:value: ' \
                '*--switch-on=[only samples after this event]:events: _sequence _perfpy_ask events -' \
                '*--switch-off=[only samples before this event]:events: _sequence _perfpy_ask events -' \
                '*--show-on-off-events[include the events of --switch-on and --switch-off]' \
                '*--percent-limit=[hide rows below this share]:value: ' \
                '*--percentage=[percentages of the filtered or of all samples]:value:(relative absolute)' \
                '*-U[hide entries without a symbol]' \
                '*--hide-unresolved[hide entries without a symbol]' \
                '*--group[show the events of a group side by side]' \
                '*--group-sort-idx=[sort groups by this event]:value: ' \
                '*-t+[separate columns with this string]:value: ' \
                '*--field-separator=[separate columns with this string]:value: ' \
                '*-w+[set the column widths]:value: ' \
                '*--column-widths=[set the column widths]:value: ' \
                '*--total-cycles[show blocks between branches, most cycles first]' \
                '*-b[show one row for each branch]' \
                '*--branch-stack[show one row for each branch]' \
                '*--mem-mode[show one row for each kind of memory access]' \
                '*--with-off-cpu[merge on-CPU and off-CPU time]' \
                '*--ns[show times in nanoseconds]' \
                '*--time-quantum=[quantum of --sort time and tod]:value: ' \
                '*--raw-trace[show raw fields of tracepoints]' \
                '*--full-source-path[show full paths of source files]' \
                '*--skip-empty[hide events without samples]' \
                '*--stdio[print perf'\''s plain text, also on a terminal]' \
                '*--verdict[print only the sentences that screens begin with]' \
                '*--tui[browse the report]' \
                '*--stdio-color=[colour plain text\: always, never or auto]::value:(always never auto)' \
                '*--full-names[show full function names on screens]' \
                '*--json=[write the report as JSON]::file:_files' \
                '*--flamegraph=[write one HTML page\: flame graph, time line, tables, code]::file:_files' \
                '*--html=[write one HTML page\: flame graph, time line, tables, code]::file:_files' \
                '*--source[include the code of hot functions in a page]' \
                '*--folded=[write folded stacks, as for flamegraph.pl]::file:_files' \
                '*--speedscope=[write stacks for speedscope]::file:_files' \
                '*--firefox=[write samples for the Firefox Profiler]::file:_files' \
                '*--pprof=[write stacks for pprof]::file:_files' \
                '*--itrace=-[decode a hardware trace into these samples, such as i100us]::value: ' \
                '*--header[show the file'\''s header, too]' \
                '*--header-only[show only the file'\''s header]' \
                '*-I[show the extended header]' \
                '*--show-info[show the extended header]' \
                '*--stats[show the number of records by type]' \
                '*--tasks[show the recorded tasks]' \
                '*--mmaps[show the recorded tasks with their mappings]' \
                '*-D[print every record as bytes and text]' \
                '*--dump-raw-trace[print every record as bytes and text]' \
                '*--symfs=[look for symbol files below this directory]:directory: _files -/' \
                '*--kallsyms=[read kernel symbols from this copy of /proc/kallsyms]:file:_files' \
                '*-k+[read kernel symbols from this ELF file]:file:_files' \
                '*--vmlinux=[read kernel symbols from this ELF file]:file:_files' \
                '*--demangle[demangle C++ and Rust names]' \
                '*--demangle-kernel[demangle kernel names, too]' \
                '*--fold-interpreters[give an interpreter'\''s time to the functions it runs]' \
                '*-m[ignored\: symbols of modules are always loaded]' \
                '*--modules[ignored\: symbols of modules are always loaded]' \
                '*--ignore-vmlinux[do not look for a vmlinux]' \
                '*--jobs=[read large files with at most n processes]:value: ' \
                '*--weights=[weigh recordings by time]:value:(time samples equal)' \
                '*--cluster=[read the recordings with this Dask cluster]:value: ' \
                '*-v[print more details]' \
                '*--verbose[print more details]' \
                '*-q[print no warnings or messages]' \
                '*--quiet[print no warnings or messages]' \
                '*--inline[show inlined calls]' \
                '*-h[show this text]' \
                '*--help[show this text]' \
                '*:file:_files'
            ;;
        view)
            _arguments -s -S \
                '*-i+[input file]:recording:_perfpy_recordings' \
                '*--input=[input file]:recording:_perfpy_recordings' \
                '*-f[skip the file ownership check]' \
                '*--force[skip the file ownership check]' \
                '*-o+[write the page to this file]:file:_files' \
                '*--output=[write the page to this file]:file:_files' \
                '*--source[include the code of hot functions]' \
                '*--browser[open the page in the browser]' \
                '*--symfs=[look for symbol files below this directory]:directory: _files -/' \
                '*--kallsyms=[read kernel symbols from this copy of /proc/kallsyms]:file:_files' \
                '*-k+[read kernel symbols from this ELF file]:file:_files' \
                '*--vmlinux=[read kernel symbols from this ELF file]:file:_files' \
                '*--demangle[demangle C++ and Rust names]' \
                '*--demangle-kernel[demangle kernel names, too]' \
                '*--fold-interpreters[give an interpreter'\''s time to the functions it runs]' \
                '*-q[print no warnings or messages]' \
                '*--quiet[print no warnings or messages]' \
                '*-h[show this text]' \
                '*--help[show this text]' \
                '*:file:_files'
            ;;
        annotate)
            _arguments -s -S \
                '*-i+[input file]:recording:_perfpy_recordings' \
                '*--input=[input file]:recording:_perfpy_recordings' \
                '*-f[skip the file ownership check]' \
                '*--force[skip the file ownership check]' \
                '*-s+[only this function]:value: ' \
                '*--symbol=[only this function]:value: ' \
                '*-d+[only these shared objects]:value: ' \
                '*--dsos=[only these shared objects]:value: ' \
                '*-C+[only these CPUs]:value: ' \
                '*--cpu=[only these CPUs]:value: ' \
                '*--percent-limit=[hide functions below this share]:value: ' \
                '*--skip-missing[skip functions whose code is missing]' \
                '*--group[show the events of a group side by side]' \
                '*--skip-empty[hide columns of events without samples]' \
                '*--source[show source lines among the instructions]' \
                '*--asm-raw[show the bytes of each instruction]' \
                '*-M+[set the disassembler style, such as intel]:value: ' \
                '*--disassembler-style=[set the disassembler style, such as intel]:value: ' \
                '*-l[print source lines of hot instructions, and a summary]' \
                '*--print-line[print source lines of hot instructions, and a summary]' \
                '*-P[show full paths of files]' \
                '*--full-paths[show full paths of files]' \
                '*--objdump=[run this objdump]:value: ' \
                '*--prefix=[add this prefix to the paths of source files]:value: ' \
                '*--prefix-strip=[strip n leading folders from the paths of source files]:value: ' \
                '*-n[show numbers of samples instead of shares]' \
                '*--show-nr-samples[show numbers of samples instead of shares]' \
                '*--show-total-period[show sums of periods instead of shares]' \
                '*--percent-type=[shares of the function or]:value:(local-period global-period local-hits global-hits period-local period-global hits-local hits-global)' \
                '*--stdio-color=[colour plain text\: always, never or auto]::value:(always never auto)' \
                '*--by-line[show source files by line, inlined calls included]' \
                '*-D[print every record as bytes and text]' \
                '*--dump-raw-trace[print every record as bytes and text]' \
                '*--stdio[print perf'\''s plain text, also on a terminal]' \
                '*--symfs=[look for symbol files below this directory]:directory: _files -/' \
                '*--kallsyms=[read kernel symbols from this copy of /proc/kallsyms]:file:_files' \
                '*-k+[read kernel symbols from this ELF file]:file:_files' \
                '*--vmlinux=[read kernel symbols from this ELF file]:file:_files' \
                '*--demangle[demangle C++ and Rust names]' \
                '*--demangle-kernel[demangle kernel names, too]' \
                '*--fold-interpreters[give an interpreter'\''s time to the functions it runs]' \
                '*--itrace=-[decode a hardware trace into these samples, such as i100us]::value: ' \
                '*-m[ignored\: symbols of modules are always loaded]' \
                '*--modules[ignored\: symbols of modules are always loaded]' \
                '*--ignore-vmlinux[do not look for a vmlinux]' \
                '*-v[print more details]' \
                '*--verbose[print more details]' \
                '*-q[print no warnings or messages]' \
                '*--quiet[print no warnings or messages]' \
                '*-h[show this text]' \
                '*--help[show this text]' \
                '*:file:_files'
            ;;
        diff)
            _arguments -s -S \
                '*-s+[compare by these keys]:value: _sequence compadd - overhead overhead_sys overhead_us overhead_guest_sys overhead_guest_us overhead_children sample period weight1 weight2 weight3 latency latency_children seconds pid comm dso symbol parent cpu socket srcline srcfile local_weight weight transaction trace symbol_size dso_size cgroup cgroup_id ipc_null time code_page_size local_ins_lat ins_lat local_p_stage_cyc p_stage_cyc addr local_retire_lat retire_lat simd symoff tgid comm_nodigit parallelism dso_from dso_to symbol_from symbol_to mispredict abort in_tx cycles srcline_from srcline_to ipc_lbr addr_from addr_to symbol_daddr dso_daddr locked tlb mem snoop dcacheline symbol_iaddr phys_daddr data_page_size blocked state waker container gil host recording tod date build_id pyfunc pyline' \
                '*--sort=[compare by these keys]:value: _sequence compadd - overhead overhead_sys overhead_us overhead_guest_sys overhead_guest_us overhead_children sample period weight1 weight2 weight3 latency latency_children seconds pid comm dso symbol parent cpu socket srcline srcfile local_weight weight transaction trace symbol_size dso_size cgroup cgroup_id ipc_null time code_page_size local_ins_lat ins_lat local_p_stage_cyc p_stage_cyc addr local_retire_lat retire_lat simd symoff tgid comm_nodigit parallelism dso_from dso_to symbol_from symbol_to mispredict abort in_tx cycles srcline_from srcline_to ipc_lbr addr_from addr_to symbol_daddr dso_daddr locked tlb mem snoop dcacheline symbol_iaddr phys_daddr data_page_size blocked state waker container gil host recording tod date build_id pyfunc pyline' \
                '*-c+[compute delta, delta-abs]:value:(delta delta-abs ratio wdiff\:)' \
                '*--compute=[compute delta, delta-abs]:value:(delta delta-abs ratio wdiff\:)' \
                '*-b[only rows of the baseline that have a counterpart]' \
                '*--baseline-only[only rows of the baseline that have a counterpart]' \
                '*-p[show periods]' \
                '*--period[show periods]' \
                '*-F[show the formula of each result]' \
                '*--formula[show the formula of each result]' \
                '*-o+[sort by this file'\''s change]:value: ' \
                '*--order=[sort by this file'\''s change]:value: ' \
                '*-d+[only these shared objects]:value: ' \
                '*--dsos=[only these shared objects]:value: ' \
                '*-C+[only these commands]:value: ' \
                '*--comms=[only these commands]:value: ' \
                '*-S+[only these functions]:value: ' \
                '*--symbols=[only these functions]:value: ' \
                '*--pid=[only these processes]:value: ' \
                '*--tid=[only these threads]:value: ' \
                '*--cpu=[only these CPUs]:value: ' \
                '*--time=[only this time\: 10%-20%, or start,stop\:start,stop]:value: ' \
                '*--percentage=[percentages of the filtered or of all samples]:value:(relative absolute)' \
                '*-t+[separate columns with this string]:value: ' \
                '*--field-separator=[separate columns with this string]:value: ' \
                '*--with-off-cpu[merge on-CPU and off-CPU time]' \
                '*--fail-above=[exit with 90 if a row rises by more than noise and this]:value: ' \
                '*--noise[mark changes beyond sampling noise]' \
                '*--stdio[print perf'\''s plain text, also on a terminal]' \
                '*--json=-[write the comparison as JSON]::file:_files' \
                '*--flamegraph=[write the changes as one HTML page]:file:_files' \
                '*--html=[write the changes as one HTML page]:file:_files' \
                '*--all[on a terminal\: show rows within sampling noise, too]' \
                '*--ignore-comm[ignore command names]' \
                '*--full-names[show full function names on screens and in flame graphs]' \
                '*-f[skip the file ownership check]' \
                '*--force[skip the file ownership check]' \
                '*--jobs=[read large files with at most n processes]:value: ' \
                '*--before=[first group of recordings\: file, pattern, folder]:file:_files' \
                '*--after=[second group of recordings]:file:_files' \
                '*--unit=[groups\: observe hosts]:value:(host recording)' \
                '*--weights=[groups\: weigh hosts by time]:value:(time samples equal)' \
                '*--cluster=[read the groups with this Dask cluster]:value: ' \
                '*--symfs=[look for symbol files below this directory]:directory: _files -/' \
                '*--kallsyms=[read kernel symbols from this copy of /proc/kallsyms]:file:_files' \
                '*-k+[read kernel symbols from this ELF file]:file:_files' \
                '*--vmlinux=[read kernel symbols from this ELF file]:file:_files' \
                '*--demangle[demangle C++ and Rust names]' \
                '*--demangle-kernel[demangle kernel names, too]' \
                '*--fold-interpreters[give an interpreter'\''s time to the functions it runs]' \
                '*-m[ignored\: symbols of modules are always loaded]' \
                '*--modules[ignored\: symbols of modules are always loaded]' \
                '*-v[print more details]' \
                '*--verbose[print more details]' \
                '*-q[print no warnings or messages]' \
                '*--quiet[print no warnings or messages]' \
                '*-h[show this text]' \
                '*--help[show this text]' \
                '*:recording:_perfpy_recordings'
            ;;
        script)
            _arguments -s -S \
                '*-i+[input file]:recording:_perfpy_recordings' \
                '*--input=[input file]:recording:_perfpy_recordings' \
                '*-f[skip the file ownership check]' \
                '*--force[skip the file ownership check]' \
                '*--jobs=[read large files with at most n processes]:value: ' \
                '*--itrace=-[decode a hardware trace into these samples, such as i100us]::value: ' \
                '*-F+[print these fields]:value: _sequence compadd - comm tid pid time cpu event trace ip sym dso dsoff addr symoff srcline period iregs uregs brstack brstacksym data_src weight bpf-output callindent insn disasm insnlen brstackinsn brstackoff synth phys_addr metric misc srccode ipc tod data_page_size code_page_size ins_lat brstackinsnlen machine_pid vcpu cgroup retire_lat brstackdisasm brcntr' \
                '*--fields=[print these fields]:value: _sequence compadd - comm tid pid time cpu event trace ip sym dso dsoff addr symoff srcline period iregs uregs brstack brstacksym data_src weight bpf-output callindent insn disasm insnlen brstackinsn brstackoff synth phys_addr metric misc srccode ipc tod data_page_size code_page_size ins_lat brstackinsnlen machine_pid vcpu cgroup retire_lat brstackdisasm brcntr' \
                '*-D[print every record as bytes and text]' \
                '*--dump-raw-trace[print every record as bytes and text]' \
                '*--dump-unsorted-raw-trace[print every record in file order]' \
                '*--time=[only this time\: start,stop, 10%-20%, 10%/2]:value: ' \
                '*-L[shorten names of commands and CPUs]' \
                '*--Latency[shorten names of commands and CPUs]' \
                '*-d[print no samples, count those out of order]' \
                '*--debug-mode[print no samples, count those out of order]' \
                '*--ns[show times with 9 decimal places]' \
                '*--reltime[show times since the first sample]' \
                '*--deltatime[show times since the previous sample]' \
                '*-G[hide callchains, show only the sampled address]' \
                '*--hide-call-graph[hide callchains, show only the sampled address]' \
                '*--max-stack=[print at most n frames of a callchain]:value: ' \
                '*--max-blocks=[with brstackinsn\: print at most n blocks]:value: ' \
                '*--stop-bt=[end callchains at these functions]:value: ' \
                '*--full-source-path[show full paths of source files]' \
                '*--show-kernel-path[show the path of the kernel'\''s symbol file]' \
                '*--call-trace=-[show calls of hardware traces]::value: ' \
                '*--call-ret-trace=-[show calls and returns of hardware traces]::value: ' \
                '*--insn-trace=-[show instructions of hardware traces]::value: ' \
                '*--show-task-events[print task records, too]' \
                '*--show-mmap-events[print mmap records, too]' \
                '*--show-switch-events[print switch records, too]' \
                '*--show-namespace-events[print namespace records, too]' \
                '*--show-cgroup-events[print cgroup records, too]' \
                '*--show-lost-events[print lost records, too]' \
                '*--show-bpf-events[print bpf records, too]' \
                '*--show-text-poke-events[print text-poke records, too]' \
                '*--show-round-events[print round records, too]' \
                '*-c+[only these commands]:value: ' \
                '*--comms=[only these commands]:value: ' \
                '*--pid=[only these processes]:value: ' \
                '*--tid=[only these threads]:value: ' \
                '*-C+[only these CPUs]:value: ' \
                '*--cpu=[only these CPUs]:value: ' \
                '*--per-event-dump[write each event'\''s lines to INPUT.EVENT.dump]' \
                '*-S+[only samples in these functions, or at 0xADDRESS]:value: ' \
                '*--symbols=[only samples in these functions, or at 0xADDRESS]:value: ' \
                '*--addr-range=[with -S 0xADDRESS\: the n bytes from there on]:value: ' \
                '*--dsos=[only samples in these files]:value: ' \
                '*--switch-on=[only samples after this event]:events: _sequence _perfpy_ask events -' \
                '*--switch-off=[only samples before this event]:events: _sequence _perfpy_ask events -' \
                '*--show-on-off-events[print the events of --switch-on and --switch-off, too]' \
                '*--stitch-lbr[no effect without call stacks of branch records]' \
                '*--header[show the file'\''s header, too]' \
                '*--header-only[show only the file'\''s header]' \
                '*-I[show the extended header]' \
                '*--show-info[show the extended header]' \
                '*--symfs=[look for symbol files below this directory]:directory: _files -/' \
                '*--kallsyms=[read kernel symbols from this copy of /proc/kallsyms]:file:_files' \
                '*-k+[read kernel symbols from this ELF file]:file:_files' \
                '*--vmlinux=[read kernel symbols from this ELF file]:file:_files' \
                '*--demangle[demangle C++ and Rust names]' \
                '*--demangle-kernel[demangle kernel names, too]' \
                '*--fold-interpreters[give an interpreter'\''s time to the functions it runs]' \
                '*--guestmount=[this folder has a folder PID/proc for each guest]:directory: _files -/' \
                '*--guestkallsyms=[the guest'\''s /proc/kallsyms]:file:_files' \
                '*--guestmodules=[the guest'\''s /proc/modules]:file:_files' \
                '*--guestvmlinux=[the guest kernel'\''s file with symbols]:file:_files' \
                '*-v[print more details]' \
                '*--verbose[print more details]' \
                '*-q[print no warnings or messages]' \
                '*--quiet[print no warnings or messages]' \
                '*-s+[call the functions of a Python program for each sample]:value: ' \
                '*--script=[call the functions of a Python program for each sample]:value: ' \
                '*--py=[call on_sample(batch) of a Python program, on columns]:file:_files' \
                '*-g+[write a starter program\: python, or FILE.py]:value: ' \
                '*--gen-script=[write a starter program\: python, or FILE.py]:value: ' \
                '*-l[list the scripts of an installed perf]' \
                '*--list[list the scripts of an installed perf]' \
                '*-a[with script record NAME\: record all CPUs]' \
                '*--all-cpus[with script record NAME\: record all CPUs]' \
                '*--inline[show inlined calls]' \
                '*-h[show this text]' \
                '*--help[show this text]' \
                '(-)1:program: _command_names -e' \
                '*::arguments:_normal'
            ;;
        sched)
            _arguments -s -S \
                '*-i+[input file]:recording:_perfpy_recordings' \
                '*--input=[input file]:recording:_perfpy_recordings' \
                '*-f[skip the file ownership check]' \
                '*--force[skip the file ownership check]' \
                '*-v[print more details]' \
                '*--verbose[print more details]' \
                '*-D[print every record as bytes and text first]' \
                '*--dump-raw-trace[print every record as bytes and text first]' \
                '*-h[show this text]' \
                '*--help[show this text]' \
                '*-s+[sort by\: pid, runtime, switch, avg, max]:value: _sequence compadd - pid runtime switch avg max' \
                '*--sort=[sort by\: pid, runtime, switch, avg, max]:value: _sequence compadd - pid runtime switch avg max' \
                '*-C+[count migrations as on this CPU]:value: ' \
                '*--CPU=[count migrations as on this CPU]:value: ' \
                '*-p[one row per task instead of per name]' \
                '*--pids[one row per task instead of per name]' \
                '*-k+[read kernel symbols from this ELF file]:file:_files' \
                '*--vmlinux=[read kernel symbols from this ELF file]:file:_files' \
                '*--kallsyms=[read kernel symbols from this copy of /proc/kallsyms]:file:_files' \
                '*-g[show callchains of switches]' \
                '*--call-graph[show callchains of switches]' \
                '*--max-stack=[show at most n functions of a callchain]:value: ' \
                '*--symfs=[look for symbol files below this directory]:directory: _files -/' \
                '*--summary[show only the summary of each thread]' \
                '*-S[show the switches and the summary]' \
                '*--with-summary[show the switches and the summary]' \
                '*-w[show wakeups, too]' \
                '*--wakeups[show wakeups, too]' \
                '*-n[show the next thread]' \
                '*--next[show the next thread]' \
                '*-M[show migrations, too]' \
                '*--migrations[show migrations, too]' \
                '*-V[show a column for each CPU]' \
                '*--cpu-visual[show a column for each CPU]' \
                '*-I[show idle times only]' \
                '*--idle-hist[show idle times only]' \
                '*--time=[only this time\: start,stop]:value: ' \
                '*--state[show the state in which threads leave a CPU]' \
                '*--pid=[only these processes]:value: ' \
                '*-t+[only these threads]:value: ' \
                '*--tid=[only these threads]:value: ' \
                '*--cpu=[only these CPUs]:value: ' \
                '*--show-prio[show priorities]' \
                '*--prio=[only threads with these priorities]:value: ' \
                '*-P[show the wait before migrations]' \
                '*--pre-migrations[show the wait before migrations]' \
                '*--comm=[only threads with these names]:value: ' \
                '*--compact[show only CPUs with switches]' \
                '*--cpus=[only these CPUs]:value: ' \
                '*--task-name=[only tasks with these names]:value: ' \
                '*--fuzzy-name[task names may match in part]' \
                '*--color-pids=[highlight these tasks]:value: ' \
                '*--color-cpus=[highlight these CPUs]:value: ' \
                '*-r+[repeat the load n times]:value: ' \
                '*--repeat=[repeat the load n times]:value: ' \
                '*-o+[the file to write]:file:_files' \
                '*--output=[the file to write]:file:_files' \
                '1:action:(record latency timehist map replay stats script)' \
                '*:file:_files'
            ;;
        lock)
            _arguments -s -S \
                '*-i+[input file]:recording:_perfpy_recordings' \
                '*--input=[input file]:recording:_perfpy_recordings' \
                '*-f[skip the file ownership check]' \
                '*--force[skip the file ownership check]' \
                '*-q[print no warnings or messages]' \
                '*--quiet[print no warnings or messages]' \
                '*-v[print more details]' \
                '*--verbose[print more details]' \
                '*-D[print every record as bytes and text first]' \
                '*--dump-raw-trace[print every record as bytes and text first]' \
                '*--vmlinux=[read kernel symbols from this ELF file]:file:_files' \
                '*--kallsyms=[read kernel symbols from this copy of /proc/kallsyms]:file:_files' \
                '*--output=[write the text to this file]:file:_files' \
                '*-h[show this text]' \
                '*--help[show this text]' \
                '*-k+[sort by this field]:value: ' \
                '*--key=[sort by this field]:value: ' \
                '*-F+[show these fields, such as acquired,contended,avg_wait]:value: ' \
                '*--field=[show these fields, such as acquired,contended,avg_wait]:value: ' \
                '*-t[one row per thread]' \
                '*--threads[one row per thread]' \
                '*-c[one row for all locks of the same name]' \
                '*--combine-locks[one row for all locks of the same name]' \
                '*-E+[show at most n rows]:value: ' \
                '*--entries=[show at most n rows]:value: ' \
                '*-m[list only the locks]' \
                '*--map[list only the locks]' \
                '*-o[one row per thread that held a lock]' \
                '*--lock-owner[one row per thread that held a lock]' \
                '*-l[one row per lock]' \
                '*--lock-addr[one row per lock]' \
                '*--max-stack=[use n functions of a callchain]:value: ' \
                '*--stack-skip=[skip n functions for the caller]:value: ' \
                '*-Y+[only these types of locks]:value: ' \
                '*--type-filter=[only these types of locks]:value: ' \
                '*-L+[only these locks\: addresses or symbols]:value: ' \
                '*--lock-filter=[only these locks\: addresses or symbols]:value: ' \
                '*-S+[only waits in these functions]:value: ' \
                '*--callstack-filter=[only waits in these functions]:value: ' \
                '*-x+[print values with this separator]:value: ' \
                '*--field-separator=[print values with this separator]:value: ' \
                '1:action:(record report info contention script)' \
                '*:file:_files'
            ;;
        kwork)
            _arguments -s -S \
                '*-k+[only this work\: irq, softirq, workqueue, sched]:value: ' \
                '*--kwork=[only this work\: irq, softirq, workqueue, sched]:value: ' \
                '*-i+[input file]:recording:_perfpy_recordings' \
                '*--input=[input file]:recording:_perfpy_recordings' \
                '*-f[skip the file ownership check]' \
                '*--force[skip the file ownership check]' \
                '*-v[print more details]' \
                '*--verbose[print more details]' \
                '*-D[print every record as bytes and text first]' \
                '*--dump-raw-trace[print every record as bytes and text first]' \
                '*--vmlinux=[read kernel symbols from this ELF file]:file:_files' \
                '*--kallsyms=[read kernel symbols from this copy of /proc/kallsyms]:file:_files' \
                '*-C+[only these CPUs]:value: ' \
                '*--cpu=[only these CPUs]:value: ' \
                '*-n+[only work of this name]:value: ' \
                '*--name=[only work of this name]:value: ' \
                '*--time=[only this time\: start,stop]:value: ' \
                '*--symfs=[look for symbol files below this directory]:directory: _files -/' \
                '*-h[show this text]' \
                '*--help[show this text]' \
                '*-s+[sort by\: runtime, max, count]:value: _sequence compadd - runtime max count' \
                '*--sort=[sort by\: runtime, max, count]:value: _sequence compadd - runtime max count' \
                '*-S[show the summary of all work]' \
                '*--with-summary[show the summary of all work]' \
                '*-g[show callchains, if recorded]' \
                '*--call-graph[show callchains, if recorded]' \
                '*--max-stack=[show at most n functions of a callchain]:value: ' \
                '1:action:(record report latency timehist top)' \
                '*:file:_files'
            ;;
        kmem)
            _arguments -s -S \
                '*-i+[input file]:recording:_perfpy_recordings' \
                '*--input=[input file]:recording:_perfpy_recordings' \
                '*-f[skip the file ownership check]' \
                '*--force[skip the file ownership check]' \
                '*-v[print more details]' \
                '*--verbose[print more details]' \
                '*--slab[objects of the slab allocator]' \
                '*--page[pages]' \
                '*--vmlinux=[read kernel symbols from this ELF file]:file:_files' \
                '*--kallsyms=[read kernel symbols from this copy of /proc/kallsyms]:file:_files' \
                '*--alloc[one row per object or page]' \
                '*--caller[one row per call site]' \
                '*-s+[sort by\: frag, hit, bytes, pingpong, ptr, callsite]:value: _sequence compadd - frag hit bytes pingpong ptr callsite' \
                '*--sort=[sort by\: frag, hit, bytes, pingpong, ptr, callsite]:value: _sequence compadd - frag hit bytes pingpong ptr callsite' \
                '*-l+[show n rows of the last table named before]:value: ' \
                '*--line=[show n rows of the last table named before]:value: ' \
                '*--raw-ip[show addresses instead of functions]' \
                '*--live[only pages that were not freed]' \
                '*--time=[only this time\: start,stop]:value: ' \
                '*-h[show this text]' \
                '*--help[show this text]' \
                '1:action:(record stat)' \
                '*:file:_files'
            ;;
        timechart)
            _arguments -s -S \
                '*-P[only idle states and frequencies of CPUs]' \
                '*--power-only[only idle states and frequencies of CPUs]' \
                '*-T[only tasks]' \
                '*--tasks-only[only tasks]' \
                '*-i+[input file]:recording:_perfpy_recordings' \
                '*--input=[input file]:recording:_perfpy_recordings' \
                '*-f[skip the file ownership check]' \
                '*--force[skip the file ownership check]' \
                '*-v[print more details]' \
                '*--verbose[print more details]' \
                '*-o+[write this file]:file:_files' \
                '*--output=[write this file]:file:_files' \
                '*--html=[write a page with a lane for each CPU and task instead]:file:_files' \
                '*-w+[width in pixels]:value: ' \
                '*--width=[width in pixels]:value: ' \
                '*-n+[show at least n tasks, the busiest]:value: ' \
                '*--proc-num=[show at least n tasks, the busiest]:value: ' \
                '*-p+[only this process\: a number or a name]:value: ' \
                '*--process=[only this process\: a number or a name]:value: ' \
                '*-t[sort CPUs by core and socket]' \
                '*--topology[sort CPUs by core and socket]' \
                '*--highlight=[highlight runs by task name or least length]:value: ' \
                '*--io-skip-eagain[leave out calls that failed with EAGAIN]' \
                '*--io-min-time=[show shorter calls as this long]:value: ' \
                '*--io-merge-dist=[join calls as close as this]:value: ' \
                '*-h[show this text]' \
                '*--help[show this text]' \
                '*-I[record only input and output]' \
                '*--io-only[record only input and output]' \
                '*-g[record callchains]' \
                '*--callchain[record callchains]' \
                '1:action:(record)' \
                '*:file:_files'
            ;;
        why)
            _arguments -s -S \
                '*-i+[input file]:recording:_perfpy_recordings' \
                '*--input=[input file]:recording:_perfpy_recordings' \
                '*-f[skip the file ownership check]' \
                '*--force[skip the file ownership check]' \
                '*-v[print more details]' \
                '*--verbose[print more details]' \
                '*-q[print no warnings or messages]' \
                '*--quiet[print no warnings or messages]' \
                '*--symfs=[look for symbol files below this directory]:directory: _files -/' \
                '*--kallsyms=[read kernel symbols from this copy of /proc/kallsyms]:file:_files' \
                '*-k+[read kernel symbols from this ELF file]:file:_files' \
                '*--vmlinux=[read kernel symbols from this ELF file]:file:_files' \
                '*--demangle[demangle C++ and Rust names]' \
                '*--demangle-kernel[demangle kernel names, too]' \
                '*--fold-interpreters[give an interpreter'\''s time to the functions it runs]' \
                '*-p+[explain these processes]:pids: _sequence _perfpy_ask pids -' \
                '*--pid=[explain these processes]:pids: _sequence _perfpy_ask pids -' \
                '*-d+[seconds to record a process]:value: ' \
                '*--duration=[seconds to record a process]:value: ' \
                '*--python[name Python functions and lines, also of other processes]' \
                '*-j[print JSON]' \
                '*--json[print JSON]' \
                '*-o+[keep the recording in this file]:file:_files' \
                '*--output=[keep the recording in this file]:file:_files' \
                '*--chrome-trace=[also write the states of threads for Perfetto]:file:_files' \
                '*--html=[also write one HTML page with who waited for whom]:file:_files' \
                '*-h[show this text]' \
                '*--help[show this text]' \
                '(-)1:program: _command_names -e' \
                '*::arguments:_normal'
            ;;
        mem)
            _arguments -s -S \
                '*-v[print more details]' \
                '*--verbose[print more details]' \
                '*-t+[kinds of accesses\: load, store]:value: ' \
                '*--type=[kinds of accesses\: load, store]:value: ' \
                '*-p[include physical addresses of data]' \
                '*--phys-data[include physical addresses of data]' \
                '*--data-page-size[include page sizes of data]' \
                '*-C+[only these CPUs]:value: ' \
                '*--cpu=[only these CPUs]:value: ' \
                '*-f[skip the file ownership check]' \
                '*--force[skip the file ownership check]' \
                '*-h[show this text]' \
                '*--help[show this text]' \
                '*-e+[memory events]:events: _sequence _perfpy_ask events -' \
                '*--event=[memory events]:events: _sequence _perfpy_ask events -' \
                '*-K[sample only the kernel]' \
                '*--all-kernel[sample only the kernel]' \
                '*-U[sample only user code]' \
                '*--all-user[sample only user code]' \
                '*--ldlat=[sample loads of n or more cycles]:value: ' \
                '*-i+[input file]:recording:_perfpy_recordings' \
                '*--input=[input file]:recording:_perfpy_recordings' \
                '*-D[print every access on a line]' \
                '*--dump-raw-samples[print every access on a line]' \
                '*-s+[sort by these keys\: mem, sym, symbol_daddr, dcacheline]:value: _sequence compadd - overhead overhead_sys overhead_us overhead_guest_sys overhead_guest_us overhead_children sample period weight1 weight2 weight3 latency latency_children seconds pid comm dso symbol parent cpu socket srcline srcfile local_weight weight transaction trace symbol_size dso_size cgroup cgroup_id ipc_null time code_page_size local_ins_lat ins_lat local_p_stage_cyc p_stage_cyc addr local_retire_lat retire_lat simd symoff tgid comm_nodigit parallelism dso_from dso_to symbol_from symbol_to mispredict abort in_tx cycles srcline_from srcline_to ipc_lbr addr_from addr_to symbol_daddr dso_daddr locked tlb mem snoop dcacheline symbol_iaddr phys_daddr data_page_size blocked state waker container gil host recording tod date build_id pyfunc pyline' \
                '*--sort=[sort by these keys\: mem, sym, symbol_daddr, dcacheline]:value: _sequence compadd - overhead overhead_sys overhead_us overhead_guest_sys overhead_guest_us overhead_children sample period weight1 weight2 weight3 latency latency_children seconds pid comm dso symbol parent cpu socket srcline srcfile local_weight weight transaction trace symbol_size dso_size cgroup cgroup_id ipc_null time code_page_size local_ins_lat ins_lat local_p_stage_cyc p_stage_cyc addr local_retire_lat retire_lat simd symoff tgid comm_nodigit parallelism dso_from dso_to symbol_from symbol_to mispredict abort in_tx cycles srcline_from srcline_to ipc_lbr addr_from addr_to symbol_daddr dso_daddr locked tlb mem snoop dcacheline symbol_iaddr phys_daddr data_page_size blocked state waker container gil host recording tod date build_id pyfunc pyline' \
                '*--hide-unresolved[hide entries without a symbol]' \
                '*-x+[separate columns with this string]:value: ' \
                '*--field-separator=[separate columns with this string]:value: ' \
                '1:action:(record report)' \
                '*:file:_files'
            ;;
        c2c)
            _arguments -s -S \
                '*-v[print more details]' \
                '*--verbose[print more details]' \
                '*-h[show this text]' \
                '*--help[show this text]' \
                '*-e+[memory events]:events: _sequence _perfpy_ask events -' \
                '*--event=[memory events]:events: _sequence _perfpy_ask events -' \
                '*-k[sample only the kernel]' \
                '*--all-kernel[sample only the kernel]' \
                '*-u[sample only user code]' \
                '*--all-user[sample only user code]' \
                '*-l+[sample loads of n or more cycles]:value: ' \
                '*--ldlat=[sample loads of n or more cycles]:value: ' \
                '*-i+[input file]:recording:_perfpy_recordings' \
                '*--input=[input file]:recording:_perfpy_recordings' \
                '*-f[skip the file ownership check]' \
                '*--force[skip the file ownership check]' \
                '*--stdio[print perf'\''s plain text, also on a terminal]' \
                '*--symfs=[look for symbol files below this directory]:directory: _files -/' \
                '*--kallsyms=[read kernel symbols from this copy of /proc/kallsyms]:file:_files' \
                '*--vmlinux=[read kernel symbols from this ELF file]:file:_files' \
                '*--demangle[demangle C++ and Rust names]' \
                '*--demangle-kernel[demangle kernel names, too]' \
                '*--fold-interpreters[give an interpreter'\''s time to the functions it runs]' \
                '*-q[print no warnings or messages]' \
                '*--quiet[print no warnings or messages]' \
                '*-N[show shares of nodes]' \
                '*--node-info[show shares of nodes]' \
                '*--show-all[also show lines that no other cache had modified]' \
                '*--stats[show only the statistics]' \
                '*--full-symbols[do not shorten names of functions]' \
                '*--no-source[show no source lines]' \
                '*-d+[sort lines by these loads\: tot, lcl, rmt, peer]:value: ' \
                '*--display=[sort lines by these loads\: tot, lcl, rmt, peer]:value: ' \
                '*-c+[one row for each of pid, tid, iaddr, dso]:value: ' \
                '*--coalesce=[one row for each of pid, tid, iaddr, dso]:value: ' \
                '*--double-cl[group pairs of cache lines, which some CPUs fetch together]' \
                '1:action:(record report)' \
                '*:file:_files'
            ;;
        kvm)
            _arguments -s -S \
                '*-i+[input file]:recording:_perfpy_recordings' \
                '*--input=[input file]:recording:_perfpy_recordings' \
                '*-f[skip the file ownership check]' \
                '*--force[skip the file ownership check]' \
                '*-v[print more details]' \
                '*--verbose[print more details]' \
                '*--guestmount=[this folder has a folder PID/proc for each guest]:directory: _files -/' \
                '*--guestkallsyms=[the guest'\''s /proc/kallsyms]:file:_files' \
                '*--guestmodules=[the guest'\''s /proc/modules]:file:_files' \
                '*--guestvmlinux=[the guest kernel'\''s file with symbols]:file:_files' \
                '*--host[include the host]' \
                '*--guest[include virtual machines]' \
                '*--guest-code[ignored by record]' \
                '*-o+[write the recording to this file]:file:_files' \
                '*--output=[write the recording to this file]:file:_files' \
                '*-h[show this text]' \
                '*--help[show this text]' \
                '*-p+[only these processes]:pids: _sequence _perfpy_ask pids -' \
                '*--pid=[only these processes]:pids: _sequence _perfpy_ask pids -' \
                '*-t+[only these threads]:tids: _sequence _perfpy_ask tids -' \
                '*--tid=[only these threads]:tids: _sequence _perfpy_ask tids -' \
                '*-u+[only the threads of this user]:user:_users' \
                '*--uid=[only the threads of this user]:user:_users' \
                '*-C+[only these CPUs, such as 0-2,5]:value: ' \
                '*--cpu=[only these CPUs, such as 0-2,5]:value: ' \
                '*-a[record all CPUs]' \
                '*--all-cpus[record all CPUs]' \
                '*-G+[record only the tasks of these cgroups]:value: ' \
                '*--cgroup=[record only the tasks of these cgroups]:value: ' \
                '*--per-thread[use one ring buffer for each thread instead of each CPU]' \
                '*--no-inherit[do not record child tasks]' \
                '*--descendants[with -p\: also its running children]' \
                '*-D+[start after n ms]:value: ' \
                '*--delay=[start after n ms]:value: ' \
                '*--control=[read commands\: enable, disable, evlist, stop, ping]:value: ' \
                '*--exclude-perf[drop tracepoint hits of perfpy itself]' \
                '*-e+[select events]:events: _sequence _perfpy_ask events -' \
                '*--event=[select events]:events: _sequence _perfpy_ask events -' \
                '*--filter=[filter the tracepoints or addresses of the last -e]:value: ' \
                '*-S-[record a tracer'\''s last data on SIGUSR2]::value: ' \
                '*--snapshot=-[record a tracer'\''s last data on SIGUSR2]::value: ' \
                '*--aux-sample=-[add a tracer'\''s last data to samples of its group]::value: ' \
                '*--event-files=[also take named events from these JSON files]:directory: _files -/' \
                '*-F+[samples per second]:value:(max 99 997)' \
                '*--freq=[samples per second]:value:(max 99 997)' \
                '*-c+[take one sample every n events]:value: ' \
                '*--count=[take one sample every n events]:value: ' \
                '*--strict-freq[fail if the kernel would lower the frequency]' \
                '*--all-kernel[sample only kernel code]' \
                '*--all-user[sample only code in user space]' \
                '*-n[take no samples]' \
                '*--no-samples[take no samples]' \
                '*--no-buffering[wake up at every sample]' \
                '*-g[record callchains by frame pointers]' \
                '*--call-graph=[record callchains\: fp\[,frames\]\[,defer\], dwarf\[,bytes\] or lbr]:value:(dwarf fp lbr)' \
                '*--unwind[unwind DWARF stacks while recording]' \
                '*--keep-stacks[with --unwind\: also write the stacks to <output>.stacks]' \
                '*--kernel-callchains[record only the kernel part of callchains]' \
                '*--user-callchains[record only the user part of callchains]' \
                '*--off-cpu[also record waits with their stacks]' \
                '*--off-cpu-thresh=[with --off-cpu\: sum up shorter waits]:value: ' \
                '*--off-cpu-limit=[with --off-cpu\: stacks per second]:value: ' \
                '*--latency[record context switches, for perfpy report --latency]' \
                '*--jit[record the names of JIT-compiled and interpreted functions]' \
                '*--python[record Python functions and lines, also of running programs]' \
                '*--self-contained=-[store symbol names or binaries in the file]::value:(names binaries)' \
                '*-s[record per-thread counts at thread exit]' \
                '*--stat[record per-thread counts at thread exit]' \
                '*-R[record raw data, such as tracepoint fields]' \
                '*--raw-samples[record raw data, such as tracepoint fields]' \
                '*-d[record data addresses]' \
                '*--data[record data addresses]' \
                '*--data-mmap[record data mappings, too]' \
                '*--sample-mem-info[record data sources in the memory hierarchy]' \
                '*--phys-data[record physical data addresses]' \
                '*--data-page-size[record the page size of data addresses]' \
                '*--code-page-size[record the page size of code addresses]' \
                '*-T[record timestamps]' \
                '*--timestamp[record timestamps]' \
                '*-P[record periods]' \
                '*--period[record periods]' \
                '*--sample-cpu[record CPU numbers]' \
                '*--sample-identifier[record ids at a fixed offset]' \
                '*-W[record sample weights]' \
                '*--weight[record sample weights]' \
                '*--transaction[record transaction flags, if the CPU has them]' \
                '*-b[record taken branches]' \
                '*--branch-any[record taken branches]' \
                '*-j+[record taken branches of these kinds]:value: _sequence compadd - u k hv any any_call any_ret ind_call abort_tx in_tx no_tx cond ind_jmp call no_flags no_cycles save_type stack hw_index priv counter' \
                '*--branch-filter=[record taken branches of these kinds]:value: _sequence compadd - u k hv any any_call any_ret ind_call abort_tx in_tx no_tx cond ind_jmp call no_flags no_cycles save_type stack hw_index priv counter' \
                '*-I-[record registers at the interrupt]::value: ' \
                '*--intr-regs=-[record registers at the interrupt]::value: ' \
                '*--user-regs=-[record user registers]::value: ' \
                '*--running-time[record how long \:S groups were enabled and running]' \
                '*-k+[use this clock\: monotonic, boottime ... or a number]:value:(monotonic monotonic_raw realtime boottime tai mono raw real boot)' \
                '*--clockid=[use this clock\: monotonic, boottime ... or a number]:value:(monotonic monotonic_raw realtime boottime tai mono raw real boot)' \
                '*--switch-events[record context switches]' \
                '*--namespaces[record namespaces of tasks]' \
                '*--all-cgroups[record cgroups of tasks]' \
                '*--no-bpf-event[do not record BPF programs]' \
                '*--buildid-mmap[record build-ids in mappings instead of a table]' \
                '*--synth=[existing state to synthesize\: no, all, task, mmap, cgroup]:value: _sequence compadd - no all task mmap cgroup' \
                '*--tail-synthesize[synthesize existing state at the end]' \
                '*--num-thread-synthesize=[ignored\: one thread is enough]:value: ' \
                '*--proc-map-timeout=[ignored\: reading maps never takes that long]:value: ' \
                '*-m+[size of ring buffers\[,AUX areas\] in pages, or bytes\: 64K, 2M]:value: ' \
                '*--mmap-pages=[size of ring buffers\[,AUX areas\] in pages, or bytes\: 64K, 2M]:value: ' \
                '*--mmap-flush=[write at least this many bytes at once]:value: ' \
                '*--affinity=[read ring buffers on any CPU]:value:(sys node cpu)' \
                '*--threads=-[read ring buffers with several threads, into a folder]::value: ' \
                '*--aio=-[ignored\: the kernel writes to the disk later anyway]::value: ' \
                '*--overwrite[overwrite the oldest samples if the ring buffer is full]' \
                '*--switch-output=-[start a new file on SIGUSR2, or by size]::value: ' \
                '*--switch-output-event=[start a new file on each of these events]:events: _sequence _perfpy_ask events -' \
                '*--switch-max-files=[keep this many switched output files]:value: ' \
                '*--max-cpu=[sample less if recording uses more of one CPU than this]:value: ' \
                '*--max-size=[stop when the file reaches this size]:value: ' \
                '*--timestamp-filename[append the time to the file name]' \
                '*--timestamp-boundary[record the times of the first and last samples]' \
                '*-z-[compress with zstd]::value: ' \
                '*--compression-level=-[compress with zstd]::value: ' \
                '*--kcore[copy the code of the kernel and its modules into a folder]' \
                '*-N[do not copy recorded programs into the build-id cache]' \
                '*--no-buildid-cache[do not copy recorded programs into the build-id cache]' \
                '*-B[do not record build-ids]' \
                '*--no-buildid[do not record build-ids]' \
                '*--buildid-all[record build-ids of all files, sampled or not]' \
                '*-r+[run with this SCHED_FIFO priority]:value: ' \
                '*--realtime=[run with this SCHED_FIFO priority]:value: ' \
                '*--debuginfod=-[ignored\: set DEBUGINFOD_URLS for report]::value: ' \
                '*--vmlinux=[ignored\: only perf'\''s BPF programs need it]:file:_files' \
                '*--dry-run[parse the options, then exit]' \
                '*-q[print no warnings or messages]' \
                '*--quiet[print no warnings or messages]' \
                '*--brief[print warnings only, no status lines]' \
                '*--sort=[sort by these keys\: comm, dso, symbol, pid, cpu, host, tod]:value: _sequence compadd - overhead overhead_sys overhead_us overhead_guest_sys overhead_guest_us overhead_children sample period weight1 weight2 weight3 latency latency_children seconds pid comm dso symbol parent cpu socket srcline srcfile local_weight weight transaction trace symbol_size dso_size cgroup cgroup_id ipc_null time code_page_size local_ins_lat ins_lat local_p_stage_cyc p_stage_cyc addr local_retire_lat retire_lat simd symoff tgid comm_nodigit parallelism dso_from dso_to symbol_from symbol_to mispredict abort in_tx cycles srcline_from srcline_to ipc_lbr addr_from addr_to symbol_daddr dso_daddr locked tlb mem snoop dcacheline symbol_iaddr phys_daddr data_page_size blocked state waker container gil host recording tod date build_id pyfunc pyline' \
                '*--fields=[choose the columns]:value: _sequence compadd - overhead overhead_sys overhead_us overhead_guest_sys overhead_guest_us overhead_children sample period weight1 weight2 weight3 latency latency_children seconds pid comm dso symbol parent cpu socket srcline srcfile local_weight weight transaction trace symbol_size dso_size cgroup cgroup_id ipc_null time code_page_size local_ins_lat ins_lat local_p_stage_cyc p_stage_cyc addr local_retire_lat retire_lat simd symoff tgid comm_nodigit parallelism dso_from dso_to symbol_from symbol_to mispredict abort in_tx cycles srcline_from srcline_to ipc_lbr addr_from addr_to symbol_daddr dso_daddr locked tlb mem snoop dcacheline symbol_iaddr phys_daddr data_page_size blocked state waker container gil host recording tod date build_id pyfunc pyline' \
                '*--show-nr-samples[show a column with the number of samples]' \
                '*--show-total-period[show a column with the sum of periods]' \
                '*--show-cpu-utilization[show shares of kernel and user code]' \
                '*--showcpuutilization[show shares of kernel and user code]' \
                '*--children[add callers'\'' overhead]' \
                '*--inverted[show call graphs from callers to callees]' \
                '*-H[nest the rows, one level for each sort key]' \
                '*--hierarchy[nest the rows, one level for each sort key]' \
                '*--max-stack=[use at most n frames of a callchain]:value: ' \
                '*--branch-history[begin callchains with the recorded branches]' \
                '*--stitch-lbr[no effect without call stacks of branch records]' \
                '*--ignore-callees=[drop callees of these functions from callchains]:value: ' \
                '*--parent=[regex that identifies the parent, for --sort parent]:value: ' \
                '*-x[only samples with a parent]' \
                '*--exclude-other[only samples with a parent]' \
                '*--comms=[only these commands]:value: ' \
                '*--dsos=[only these shared objects]:value: ' \
                '*--symbols=[only these functions]:value: ' \
                '*--symbol-filter=[only functions with this part in their name]:value: ' \
                '*--socket-filter=[only the CPUs of this socket]:value: ' \
                '*--parallelism=[only samples at this parallelism]:value: ' \
                '*--time=[only this time\: start,stop, 10%-20%, 10%/2]:value: ' \
                '*--switch-on=[only samples after this event]:events: _sequence _perfpy_ask events -' \
                '*--switch-off=[only samples before this event]:events: _sequence _perfpy_ask events -' \
                '*--show-on-off-events[include the events of --switch-on and --switch-off]' \
                '*--percent-limit=[hide rows below this share]:value: ' \
                '*--percentage=[percentages of the filtered or of all samples]:value:(relative absolute)' \
                '*-U[hide entries without a symbol]' \
                '*--hide-unresolved[hide entries without a symbol]' \
                '*--group-sort-idx=[sort groups by this event]:value: ' \
                '*--field-separator=[separate columns with this string]:value: ' \
                '*-w+[set the column widths]:value: ' \
                '*--column-widths=[set the column widths]:value: ' \
                '*--total-cycles[show blocks between branches, most cycles first]' \
                '*--branch-stack[show one row for each branch]' \
                '*--mem-mode[show one row for each kind of memory access]' \
                '*--with-off-cpu[merge on-CPU and off-CPU time]' \
                '*--ns[show times in nanoseconds]' \
                '*--time-quantum=[quantum of --sort time and tod]:value: ' \
                '*--raw-trace[show raw fields of tracepoints]' \
                '*--full-source-path[show full paths of source files]' \
                '*--skip-empty[hide events without samples]' \
                '*--stdio[print perf'\''s plain text, also on a terminal]' \
                '*--verdict[print only the sentences that screens begin with]' \
                '*--tui[browse the report]' \
                '*--stdio-color=[colour plain text\: always, never or auto]::value:(always never auto)' \
                '*--full-names[show full function names on screens]' \
                '*--json=[write the report as JSON]::file:_files' \
                '*--flamegraph=[write one HTML page\: flame graph, time line, tables, code]::file:_files' \
                '*--html=[write one HTML page\: flame graph, time line, tables, code]::file:_files' \
                '*--source[include the code of hot functions in a page]' \
                '*--folded=[write folded stacks, as for flamegraph.pl]::file:_files' \
                '*--speedscope=[write stacks for speedscope]::file:_files' \
                '*--firefox=[write samples for the Firefox Profiler]::file:_files' \
                '*--pprof=[write stacks for pprof]::file:_files' \
                '*--itrace=-[decode a hardware trace into these samples, such as i100us]::value: ' \
                '*--header[show the file'\''s header, too]' \
                '*--header-only[show only the file'\''s header]' \
                '*--show-info[show the extended header]' \
                '*--stats[show the number of records by type]' \
                '*--tasks[show the recorded tasks]' \
                '*--mmaps[show the recorded tasks with their mappings]' \
                '*--dump-raw-trace[print every record as bytes and text]' \
                '*--symfs=[look for symbol files below this directory]:directory: _files -/' \
                '*--kallsyms=[read kernel symbols from this copy of /proc/kallsyms]:file:_files' \
                '*--demangle[demangle C++ and Rust names]' \
                '*--demangle-kernel[demangle kernel names, too]' \
                '*--fold-interpreters[give an interpreter'\''s time to the functions it runs]' \
                '*--modules[ignored\: symbols of modules are always loaded]' \
                '*--ignore-vmlinux[do not look for a vmlinux]' \
                '*--jobs=[read large files with at most n processes]:value: ' \
                '*--weights=[weigh recordings by time]:value:(time samples equal)' \
                '*--cluster=[read the recordings with this Dask cluster]:value: ' \
                '*--inline[show inlined calls]' \
                '*--compute=[compute delta, delta-abs]:value:(delta delta-abs ratio wdiff\:)' \
                '*--baseline-only[only rows of the baseline that have a counterpart]' \
                '*--formula[show the formula of each result]' \
                '*--order=[sort by this file'\''s change]:value: ' \
                '*--fail-above=[exit with 90 if a row rises by more than noise and this]:value: ' \
                '*--noise[mark changes beyond sampling noise]' \
                '*--all[on a terminal\: show rows within sampling noise, too]' \
                '*--ignore-comm[ignore command names]' \
                '*--before=[first group of recordings\: file, pattern, folder]:file:_files' \
                '*--after=[second group of recordings]:file:_files' \
                '*--unit=[groups\: observe hosts]:value:(host recording)' \
                '*--with-hits[only files with samples]' \
                '*--kernel[print the running kernel'\''s build-id]' \
                '*--kernel-maps[print build-ids and addresses of the running kernel]' \
                '*--vcpu=[only this virtual CPU]:value: ' \
                '*--key=[sort by sample, time, max_t, min_t or mean_t]:value: ' \
                '1:action:(record report top diff buildid-list stat)' \
                '*:file:_files'
            ;;
        ftrace)
            _arguments -s -S \
                '*-v[print more details]' \
                '*--verbose[print more details]' \
                '*-p+[trace these processes]:pids: _sequence _perfpy_ask pids -' \
                '*--pid=[trace these processes]:pids: _sequence _perfpy_ask pids -' \
                '*--tid=[trace these threads]:tids: _sequence _perfpy_ask tids -' \
                '*-a[trace all tasks]' \
                '*--all-cpus[trace all tasks]' \
                '*-C+[trace only on these CPUs]:value: ' \
                '*--cpu=[trace only on these CPUs]:value: ' \
                '*-T+[only these functions, or patterns such as vfs_*]:value: ' \
                '*--trace-funcs=[only these functions, or patterns such as vfs_*]:value: ' \
                '*-N+[skip these functions]:value: ' \
                '*--notrace-funcs=[skip these functions]:value: ' \
                '*-G+[these functions and what they call]:value: ' \
                '*--graph-funcs=[these functions and what they call]:value: ' \
                '*-g+[skip what these functions call]:value: ' \
                '*--nograph-funcs=[skip what these functions call]:value: ' \
                '*-m+[size of the buffer of each CPU\: 512K, 4M]:value: ' \
                '*--buffer-size=[size of the buffer of each CPU\: 512K, 4M]:value: ' \
                '*-t+[function_graph]:value:(function_graph function)' \
                '*--tracer=[function_graph]:value:(function_graph function)' \
                '*-F+[list the functions that can be traced]::value: ' \
                '*--funcs=[list the functions that can be traced]::value: ' \
                '*-D+[milliseconds to wait before tracing starts]:value: ' \
                '*--delay=[milliseconds to wait before tracing starts]:value: ' \
                '*--inherit[trace child processes]' \
                '*--func-opts=[options of the tracer function\: call-graph, irq-info]:value: ' \
                '*--graph-opts=[nosleep-time, noirqs, verbose, thresh=<n>, depth=<n>, tail]:value: ' \
                '*-h[show this text]' \
                '*--help[show this text]' \
                '*-n[a histogram of nanoseconds]' \
                '*--use-nsec[a histogram of nanoseconds]' \
                '*-s+[sort by total]:value: ' \
                '*--sort=[sort by total]:value: ' \
                '(-)1:program: _command_names -e' \
                '*::arguments:_normal'
            ;;
        list)
            _arguments -s -S \
                '*-d[print event descriptions]' \
                '*--desc[print event descriptions]' \
                '*-j[print JSON]' \
                '*--json[print JSON]' \
                '*-o+[write to this file]:file:_files' \
                '*--output=[write to this file]:file:_files' \
                '*-v[print longer event descriptions]' \
                '*--long-desc[print longer event descriptions]' \
                '*--details[print event encodings and metric expressions]' \
                '*--deprecated[print deprecated events, too]' \
                '*--unit=[only events of PMUs with this name or pattern]:pmus: _perfpy_ask pmus' \
                '*--cputype=[only events of this kind of CPU]:pmus: _perfpy_ask pmus' \
                '*--check[try to open each event, print the reason for failures]' \
                '*--event-files=[also take named events from these JSON files]:directory: _files -/' \
                '*--update-events=[install this CPU'\''s events from its vendor'\''s files]:directory: _files -/' \
                '*--debug[show where perfpy looked for events]' \
                '*--stdio[print perf'\''s plain text, also on a terminal]' \
                '*-h[show this text]' \
                '*--help[show this text]' \
                '*:event:{ compadd hw sw cache tracepoint pmu sdt metric metricgroup; _perfpy_ask events }'
            ;;
        evlist)
            _arguments -s -S \
                '*-i+[input file]:recording:_perfpy_recordings' \
                '*--input=[input file]:recording:_perfpy_recordings' \
                '*-f[skip the file ownership check]' \
                '*--force[skip the file ownership check]' \
                '*-F[show the sampling frequency or period]' \
                '*--freq[show the sampling frequency or period]' \
                '*-g[show groups of events]' \
                '*--group[show groups of events]' \
                '*-v[show all fields of the events]' \
                '*--verbose[show all fields of the events]' \
                '*--trace-fields[show the fields of tracepoints]' \
                '*-h[show this text]' \
                '*--help[show this text]' \
                '*:file:_files'
            ;;
        buildid-list)
            _arguments -s -S \
                '*-i+[input file]:recording:_perfpy_recordings' \
                '*--input=[input file]:recording:_perfpy_recordings' \
                '*-f[skip the file ownership check]' \
                '*--force[skip the file ownership check]' \
                '*-H[only files with samples]' \
                '*--with-hits[only files with samples]' \
                '*-k[print the running kernel'\''s build-id]' \
                '*--kernel[print the running kernel'\''s build-id]' \
                '*-m[print build-ids and addresses of the running kernel]' \
                '*--kernel-maps[print build-ids and addresses of the running kernel]' \
                '*-v[print more details]' \
                '*--verbose[print more details]' \
                '*-h[show this text]' \
                '*--help[show this text]' \
                '*:file:_files'
            ;;
        buildid-cache)
            _arguments -s -S \
                '*-a+[add these files]:file:_files' \
                '*--add=[add these files]:file:_files' \
                '*-r+[remove these files]:file:_files' \
                '*--remove=[remove these files]:file:_files' \
                '*-p+[remove these files and all their older builds]:file:_files' \
                '*--purge=[remove these files and all their older builds]:file:_files' \
                '*-P[remove everything]' \
                '*--purge-all[remove everything]' \
                '*-u+[add these files unless cached]:file:_files' \
                '*--update=[add these files unless cached]:file:_files' \
                '*-M+[list the files of a recording that the cache lacks]:recording:_perfpy_recordings' \
                '*--missing=[list the files of a recording that the cache lacks]:recording:_perfpy_recordings' \
                '*-l[list cached files that still exist at their path]' \
                '*--list[list cached files that still exist at their path]' \
                '*-f[skip the file ownership check]' \
                '*--force[skip the file ownership check]' \
                '*-v[print each action]' \
                '*--verbose[print each action]' \
                '*-h[show this text]' \
                '*--help[show this text]' \
                '*:file:_files'
            ;;
        probe)
            _arguments -s -S \
                '*-a+[add a probe]:value: ' \
                '*--add=[add a probe]:value: ' \
                '*-d+[delete probes]:value: ' \
                '*--del=[delete probes]:value: ' \
                '*-D+[print a probe'\''s definition]:value: ' \
                '*--definition=[print a probe'\''s definition]:value: ' \
                '*-l+[list the probes]::value: ' \
                '*--list=[list the probes]::value: ' \
                '*-L+[show source lines that can be probed]:value: ' \
                '*--line=[show source lines that can be probed]:value: ' \
                '*-V+[show the variables at a point]:value: ' \
                '*--vars=[show the variables at a point]:value: ' \
                '*-F+[list functions]::value: ' \
                '*--funcs=[list functions]::value: ' \
                '*-x+[the program or library to probe]:value: ' \
                '*--exec=[the program or library to probe]:value: ' \
                '*-m+[the kernel module to probe]:value: ' \
                '*--module=[the kernel module to probe]:value: ' \
                '*-k+[the kernel'\''s ELF file with debug information]:file:_files' \
                '*--vmlinux=[the kernel'\''s ELF file with debug information]:file:_files' \
                '*-s+[the folder of the sources]:directory: _files -/' \
                '*--source=[the folder of the sources]:directory: _files -/' \
                '*--symfs=[look for symbol files below this directory]:directory: _files -/' \
                '*--target-ns=[find the program in this process'\''s container]:pids: _sequence _perfpy_ask pids -' \
                '*--demangle[demangle C++ and Rust names]' \
                '*--demangle-kernel[demangle kernel names, too]' \
                '*-v[print more details]' \
                '*--verbose[print more details]' \
                '*-q[print no warnings or messages]' \
                '*--quiet[print no warnings or messages]' \
                '*-f[add events with existing names, numbered]' \
                '*--force[add events with existing names, numbered]' \
                '*-n[do not add or delete, show what would be done]' \
                '*--dry-run[do not add or delete, show what would be done]' \
                '*--filter=[patterns of names to show]:value: ' \
                '*--max-probes=[the largest number of sites of a probe]:value: ' \
                '*--range[show where variables have values]' \
                '*--externs[show global variables, too]' \
                '*--no-inlines[ignore inlined calls of functions]' \
                '*-h[show this text]' \
                '*--help[show this text]' \
                '*:file:_files'
            ;;
        latency)
            _arguments -s -S \
                '*-i+[input file]:recording:_perfpy_recordings' \
                '*--input=[input file]:recording:_perfpy_recordings' \
                '*-f[skip the file ownership check]' \
                '*--force[skip the file ownership check]' \
                '*-v[print more details]' \
                '*--verbose[print more details]' \
                '*-q[print no warnings or messages]' \
                '*--quiet[print no warnings or messages]' \
                '*--of=[show these latencies of a recording]:value:(runqueue syscalls block locks softirq irq)' \
                '*-p+[measure this running process]:pids: _sequence _perfpy_ask pids -' \
                '*--pid=[measure this running process]:pids: _sequence _perfpy_ask pids -' \
                '*-x+[the program or library of the function]:value: ' \
                '*--exec=[the program or library of the function]:value: ' \
                '*-d+[seconds to measure a process]:value: ' \
                '*--duration=[seconds to measure a process]:value: ' \
                '*-n+[the number of slowest calls to show]:value: ' \
                '*--slowest=[the number of slowest calls to show]:value: ' \
                '*-j[print JSON]' \
                '*--json[print JSON]' \
                '*-o+[keep the recording in this file]:file:_files' \
                '*--output=[keep the recording in this file]:file:_files' \
                '*-h[show this text]' \
                '*--help[show this text]' \
                '(-)1:program: _command_names -e' \
                '*::arguments:_normal'
            ;;
        inject)
            _arguments -s -S \
                '*-i+[input file]:recording:_perfpy_recordings' \
                '*--input=[input file]:recording:_perfpy_recordings' \
                '*-f[skip the file ownership check]' \
                '*--force[skip the file ownership check]' \
                '*-o+[write to this file]:file:_files' \
                '*--output=[write to this file]:file:_files' \
                '*-j[add code from jitdump files]' \
                '*--jit[add code from jitdump files]' \
                '*-b[add build-ids of sampled files]' \
                '*--build-ids[add build-ids of sampled files]' \
                '*--buildid-all[add build-ids of all files]' \
                '*-B[put build-ids into mappings of sampled files, drop others]' \
                '*--mmap2-buildids[put build-ids into mappings of sampled files, drop others]' \
                '*--mmap2-buildid-all[put build-ids into all mappings]' \
                '*--known-build-ids=[use these, '\''ID PATH,...'\'' or file\://LIST]:value: ' \
                '*--itrace=-[decode a hardware trace into these samples, such as i100us]::value: ' \
                '*--strip[with --itrace\: drop the recorded samples and switches]' \
                '*--convert-callchain[unwind copies of stacks into callchains, drop the copies]' \
                '*--symfs=[look for the recorded files below this directory]:directory: _files -/' \
                '*-v[print each action]' \
                '*--verbose[print each action]' \
                '*-h[show this text]' \
                '*--help[show this text]' \
                '*:file:_files'
            ;;
        archive)
            _arguments -s -S \
                '*-i+[input file]:recording:_perfpy_recordings' \
                '*--input=[input file]:recording:_perfpy_recordings' \
                '*--unpack[unpack an archive into the build-id cache]' \
                '*-f[skip the file ownership check]' \
                '*--force[skip the file ownership check]' \
                '*-h[show this text]' \
                '*--help[show this text]' \
                '*:file:_files'
            ;;
        data)
            _arguments -s -S \
                '*-i+[input file]:recording:_perfpy_recordings' \
                '*--input=[input file]:recording:_perfpy_recordings' \
                '*--to-json=[write JSON to this file]:file:_files' \
                '*-f[overwrite the output, skip the file ownership check]' \
                '*--force[overwrite the output, skip the file ownership check]' \
                '*--time=[only this time\: start,stop, 10%-20%, 10%/2]:value: ' \
                '*-h[show this text]' \
                '*--help[show this text]' \
                '*:file:_files'
            ;;
        export)
            _arguments -s -S \
                '*--symfs=[look for symbol files below this directory]:directory: _files -/' \
                '*--kallsyms=[read kernel symbols from this copy of /proc/kallsyms]:file:_files' \
                '*-k+[read kernel symbols from this ELF file]:file:_files' \
                '*--vmlinux=[read kernel symbols from this ELF file]:file:_files' \
                '*--demangle[demangle C++ and Rust names]' \
                '*--demangle-kernel[demangle kernel names, too]' \
                '*--fold-interpreters[give an interpreter'\''s time to the functions it runs]' \
                '*-q[print no warnings or messages]' \
                '*--quiet[print no warnings or messages]' \
                '*-o+[add the recordings to the tables in this folder]:directory: _files -/' \
                '*--parquet=[add the recordings to the tables in this folder]:directory: _files -/' \
                '*--output=[add the recordings to the tables in this folder]:directory: _files -/' \
                '*--otlp=[write or send OpenTelemetry profiles]:file:_files' \
                '*--perfetto=[write a trace for Perfetto]:file:_files' \
                '*-i+[input file]:recording:_perfpy_recordings' \
                '*--input=[input file]:recording:_perfpy_recordings' \
                '*-f[skip the file ownership check]' \
                '*--force[skip the file ownership check]' \
                '*-h[show this text]' \
                '*--help[show this text]' \
                '*:file:_files'
            ;;
        config)
            _arguments -s -S \
                '*-l[show all settings]' \
                '*--list[show all settings]' \
                '*--system[use the system'\''s file, /etc/perfconfig]' \
                '*--user[use the user'\''s file, ~/.perfconfig]' \
                '*-h[show this text]' \
                '*--help[show this text]' \
                '*:file:_files'
            ;;
        check)
            _arguments -s -S \
                '*-q[print nothing, only set the exit status]' \
                '*--quiet[print nothing, only set the exit status]' \
                '*-h[show this text]' \
                '*--help[show this text]' \
                '*:file:_files'
            ;;
        version)
            _arguments -s -S \
                '*--build-options[show available features and libraries]' \
                '*-v[the same as --build-options]' \
                '*--verbose[the same as --build-options]' \
                '*-h[show this text]' \
                '*--help[show this text]' \
                '*:file:_files'
            ;;
        help)
            _arguments -s -S \
                '*-h[show this text]' \
                '*--help[show this text]' \
                '1:command:(stat record top trace stacks leaks report view annotate diff script sched lock kwork kmem timechart why mem c2c kvm ftrace list evlist buildid-list buildid-cache probe latency inject archive data export config check version help guide screens compatibility performance python many continuous cluster)'
            ;;
        esac
        ;;
    esac
}

_perfpy "$@"
