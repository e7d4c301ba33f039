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
        'report:read perf.data and show the profile'
        'view:show the profile in the browser'
        'annotate:show the code of hot functions with samples per instruction'
        'diff:compare recordings and mark changes beyond noise'
        'script:read perf.data and print every sample'
        'list:list the events of this machine'
        'evlist:list the events in a perf.data'
        'buildid-list:list the build-ids of a perf.datas files'
        'buildid-cache:manage the build-id cache'
        'inject:add JIT-compiled code or build-ids to a perf.data'
        'archive:pack the files that a recording needs'
        'data:convert a perf.data into JSON'
        'export:write recordings as Parquet tables'
        'config:show or change perfs configuration files'
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
                '*-e+[event selector]:events: _sequence _perfpy_ask events -' \
                '*--event=[event selector]:events: _sequence _perfpy_ask events -' \
                '*--filter=[filter of the tracepoints before it]:value: ' \
                '*--event-files=[take named events from these JSON files, too]:directory: _files -/' \
                '*--cputype=[count on this kind of cores only, where there are several]:pmus: _perfpy_ask pmus' \
                '*--pmu-filter=[of several PMUs that an event means, count on this one]:pmus: _perfpy_ask pmus' \
                '*-i[child tasks do not inherit counters]' \
                '*--no-inherit[child tasks do not inherit counters]' \
                '*-p+[count on these processes]:pids: _sequence _perfpy_ask pids -' \
                '*--pid=[count on these processes]:pids: _sequence _perfpy_ask pids -' \
                '*-t+[count on these threads]:tids: _sequence _perfpy_ask tids -' \
                '*--tid=[count on these threads]:tids: _sequence _perfpy_ask tids -' \
                '*-a[count on all CPUs]' \
                '*--all-cpus[count on all CPUs]' \
                '*--scale[estimate what multiplexed counters missed]' \
                '*-v[say more]' \
                '*--verbose[say more]' \
                '*-r+[run the command n times, print mean and spread]:value: ' \
                '*--repeat=[run the command n times, print mean and spread]:value: ' \
                '*--table[show each of the repeats]' \
                '*-n[count nothing, only take the time]' \
                '*--null[count nothing, only take the time]' \
                '*-d[add cache events]' \
                '*--detailed[add cache events]' \
                '*-S[sync file systems before each run]' \
                '*--sync[sync file systems before each run]' \
                '*-B[thousands separators]' \
                '*--big-num[thousands separators]' \
                '*-C+[count on these CPUs, such as 0-2,5]:value: ' \
                '*--cpu=[count on these CPUs, such as 0-2,5]:value: ' \
                '*-A[a line for each CPU]' \
                '*--no-aggr[a line for each CPU]' \
                '*--no-merge[a line for each CPU]' \
                '*-x+[fields with this separator]:value: ' \
                '*--field-separator=[fields with this separator]:value: ' \
                '*-j[JSON, an object a line]' \
                '*--json-output[JSON, an object a line]' \
                '*-G+[a cgroup for each event before it]:value: ' \
                '*--cgroup=[a cgroup for each event before it]:value: ' \
                '*--for-each-cgroup=[each event in each of these cgroups]:value: ' \
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
                '*--per-socket[a line for each socket]' \
                '*--per-die[a line for each die]' \
                '*--per-cluster[a line for each cluster]' \
                '*--per-cache=-[a line for each cache]::value: ' \
                '*--per-core[a line for each core]' \
                '*--per-thread[a line for each thread]' \
                '*--per-node[a line for each NUMA node]' \
                '*-D+[count from n ms after the start on]:value: ' \
                '*--delay=[count from n ms after the start on]:value: ' \
                '*-M+[compute these metrics or groups of metrics]:metrics: _sequence _perfpy_ask metrics -' \
                '*--metrics=[compute these metrics or groups of metrics]:metrics: _sequence _perfpy_ask metrics -' \
                '*--metric-no-group[count the events of metrics one by one]' \
                '*--metric-no-merge[count an event of several metrics once for each]' \
                '*--metric-no-threshold[count no events for thresholds of metrics]' \
                '*--topdown[compute the top-down metrics]' \
                '*--td-level=[the level of --topdown]:value: ' \
                '*--metric-only[print only ratios and metrics]' \
                '*--hide-zero-events[show no events that were counted and did not happen]' \
                '*--all-kernel[count in the kernel only]' \
                '*--all-user[count in user space only]' \
                '*--summary[with -I  print the sums at the end]' \
                '*--no-csv-summary[no summary before the lines of --summary with -x]' \
                '*--quiet[print nothing]' \
                '*--control=[take enable and disable from there, answer ack]:value: ' \
                '*--compare=[run this command, too, in turn with the other, and tell how it differs]:program: _command_names -e' \
                '*--warmup=[with --compare  runs of each before those that count]:value: ' \
                '*--min-change=[with --compare  differences below this are too small to matter]:value: ' \
                '*--fail-if-slower=[with --compare  exit status 90 where a command takes longer by more]:value: ' \
                '*--ignore-failure[with --compare  compare programs that fail, too]' \
                '*--help[show this text]' \
                '(-)1:program: _command_names -e' \
                '*::arguments:_normal'
            ;;
        record)
            _arguments -s -S \
                '*-a[record all CPUs]' \
                '*--all-cpus[record all CPUs]' \
                '*-p+[record these processes]:pids: _sequence _perfpy_ask pids -' \
                '*--pid=[record these processes]:pids: _sequence _perfpy_ask pids -' \
                '*-t+[record these threads]:tids: _sequence _perfpy_ask tids -' \
                '*--tid=[record these threads]:tids: _sequence _perfpy_ask tids -' \
                '*-u+[record the threads of this user]:user:_users' \
                '*--uid=[record the threads of this user]:user:_users' \
                '*-C+[record these CPUs, such as 0-2,5]:value: ' \
                '*--cpu=[record these CPUs, such as 0-2,5]:value: ' \
                '*-G+[record the tasks of these cgroups only]:value: ' \
                '*--cgroup=[record the tasks of these cgroups only]:value: ' \
                '*--per-thread[one buffer for each thread instead of each CPU]' \
                '*-i[leave out child tasks]' \
                '*--no-inherit[leave out child tasks]' \
                '*-D+[start that much later]:value: ' \
                '*--delay=[start that much later]:value: ' \
                '*--control=[take commands  enable, disable, evlist, stop, ping]:value: ' \
                '*--exclude-perf[leave out tracepoints hit by perfpy itself]' \
                '*-e+[what to record]:events: _sequence _perfpy_ask events -' \
                '*--event=[what to record]:events: _sequence _perfpy_ask events -' \
                '*--filter=[keep hits of the tracepoints of the last -e that satisfy this]:value: ' \
                '*--event-files=[take named events from these JSON files, too]:directory: _files -/' \
                '*-F+[samples a second]:value:(max 99 997)' \
                '*--freq=[samples a second]:value:(max 99 997)' \
                '*-c+[take a sample every that many events]:value: ' \
                '*--count=[take a sample every that many events]:value: ' \
                '*--strict-freq[fail where the kernel would lower the frequency]' \
                '*--all-kernel[count in the kernel only]' \
                '*--all-user[count in user space only]' \
                '*-n[take no samples]' \
                '*--no-samples[take no samples]' \
                '*--no-buffering[write at every sample]' \
                '*-g[record call chains by frame pointers]' \
                '*--call-graph=[record call chains  fp(,frames)(,defer) or dwarf(,bytes)]:value:(dwarf fp)' \
                '*--unwind[unwind DWARF stacks while recording, store call chains instead  a fiftieth of the size]' \
                '*--keep-stacks[with --unwind  write the stacks, too, into a file <output>.stacks]' \
                '*--kernel-callchains[call chains of the kernel only]' \
                '*--user-callchains[call chains of user space only]' \
                '*--off-cpu[the time off the CPU, too, with its stacks  an event offcpu-time, in ns]' \
                '*--off-cpu-thresh=[with --off-cpu  shorter waits are added up by thread and stack]:value: ' \
                '*--off-cpu-limit=[with --off-cpu  so many stacks a second at most]:value: ' \
                '*--latency[what perfpy report --latency needs  context switches]' \
                '*--jit[make Python, Node, Java ... tell the names of their code, and keep them in the file]' \
                '*--self-contained=-[keep the names of functions, or the binaries, in the file  a report elsewhere needs nothing else]::value:(names binaries)' \
                '*-s[counts of each thread at its end, too]' \
                '*--stat[counts of each thread at its end, too]' \
                '*-R[raw data, as tracepoints have]' \
                '*--raw-samples[raw data, as tracepoints have]' \
                '*-d[data addresses]' \
                '*--data[data addresses]' \
                '*--data-mmap[mappings that hold no code, too]' \
                '*--sample-mem-info[where in the memory hierarchy data came from]' \
                '*--phys-data[physical data addresses]' \
                '*--data-page-size[the size of the page of the data]' \
                '*--code-page-size[the size of the page of the code]' \
                '*-T[times]' \
                '*--timestamp[times]' \
                '*-P[periods]' \
                '*--period[periods]' \
                '*--sample-cpu[CPUs]' \
                '*--sample-identifier[ids at a fixed offset]' \
                '*-W[weights of special events]' \
                '*--weight[weights of special events]' \
                '*--transaction[flags of transactional memory, where the CPU has it]' \
                '*-b[taken branches]' \
                '*--branch-any[taken branches]' \
                '*-j+[taken branches of these kinds]:value: _sequence compadd - u k hv any any_call any_ret ind_call abort_tx in_tx no_tx cond ind_jmp call no_flags no_cycles save_type stack hw_index priv counter' \
                '*--branch-filter=[taken branches of these kinds]:value: _sequence compadd - u k hv any any_call any_ret ind_call abort_tx in_tx no_tx cond ind_jmp call no_flags no_cycles save_type stack hw_index priv counter' \
                '*-I-[registers at the interrupt]::value: ' \
                '*--intr-regs=-[registers at the interrupt]::value: ' \
                '*--user-regs=-[registers of user space]::value: ' \
                '*--running-time[times of  S groups]' \
                '*-k+[the clock of the times  monotonic, boottime ... or a number]:value:(monotonic monotonic_raw realtime boottime tai mono raw real boot)' \
                '*--clockid=[the clock of the times  monotonic, boottime ... or a number]:value:(monotonic monotonic_raw realtime boottime tai mono raw real boot)' \
                '*--switch-events[context switches]' \
                '*--namespaces[namespaces of tasks]' \
                '*--all-cgroups[cgroups of tasks]' \
                '*--no-bpf-event[leave BPF programs out]' \
                '*--buildid-mmap[build-ids in the maps instead of a table]' \
                '*--synth=[what of what already runs is written down first]:value: _sequence compadd - no all task mmap cgroup' \
                '*--tail-synthesize[write it down last instead]' \
                '*--num-thread-synthesize=[for scripts written for perf  one thread is enough]:value: ' \
                '*--proc-map-timeout=[for scripts written for perf  maps are read at once]:value: ' \
                '*-o+[output file]:file:_files' \
                '*--output=[output file]:file:_files' \
                '*-m+[size of each buffer]:value: ' \
                '*--mmap-pages=[size of each buffer]:value: ' \
                '*--mmap-flush=[least bytes to write at once]:value: ' \
                '*--affinity=[read each buffer on its own CPU or node]:value:(sys node cpu)' \
                '*--threads=-[empty the buffers with several threads, into a folder with a file for each CPU  cpu, core, package, numa, or lists of CPUs]::value: ' \
                '*--aio=-[for scripts written for perf  perfpy leaves that to the kernel]::value: ' \
                '*--overwrite[keep what came last where there is no room for all]' \
                '*--switch-output=-[go on in a new file  at SIGUSR2, after a size]::value: ' \
                '*--switch-output-event=[go on in a new file whenever one of these happens anywhere]:events: _sequence _perfpy_ask events -' \
                '*--switch-max-files=[keep that many of those files]:value: ' \
                '*--max-cpu=[sample less often where recording itself takes more than this of one CPU]:value: ' \
                '*--max-size=[stop when the file has this size]:value: ' \
                '*--timestamp-filename[put the time after the files name]' \
                '*--timestamp-boundary[note the times of the first and the last sample]' \
                '*-z-[compress with zstd]::value: ' \
                '*--compression-level=-[compress with zstd]::value: ' \
                '*--kcore[copy the code of the kernel and its modules beside the recording, which is a folder then]' \
                '*-N[keep no copies of the recorded programs]' \
                '*--no-buildid-cache[keep no copies of the recorded programs]' \
                '*-B[note no build-ids]' \
                '*--no-buildid[note no build-ids]' \
                '*--buildid-all[note the build-ids of all files, hit or not]' \
                '*-r+[run with this SCHED_FIFO priority]:value: ' \
                '*--realtime=[run with this SCHED_FIFO priority]:value: ' \
                '*--debuginfod=-[for scripts written for perf  perfpy report asks the servers in DEBUGINFOD_URLS]::value: ' \
                '*--vmlinux=[for scripts written for perf  its BPF programs need it]:file:_files' \
                '*--dry-run[read the options, then exit]' \
                '*-v[say more]' \
                '*--verbose[say more]' \
                '*-q[print no warnings or messages]' \
                '*--quiet[print no warnings or messages]' \
                '*--help[show this text]' \
                '(-)1:program: _command_names -e' \
                '*::arguments:_normal'
            ;;
        report)
            _arguments -s -S \
                '*-i+[input file name]:recording:_perfpy_recordings' \
                '*--input=[input file name]:recording:_perfpy_recordings' \
                '*-f[read the file although somebody else owns it]' \
                '*--force[read the file although somebody else owns it]' \
                '*-s+[sort by these keys  comm, dso, symbol, pid, cpu, host, tod ...]:value: _sequence compadd - overhead overhead_sys overhead_us overhead_guest_sys overhead_guest_us overhead_children sample period weight1 weight2 weight3 latency latency_children seconds pid comm dso symbol parent cpu socket srcline srcfile local_weight weight transaction trace symbol_size dso_size cgroup cgroup_id ipc_null time code_page_size local_ins_lat ins_lat local_p_stage_cyc p_stage_cyc addr local_retire_lat retire_lat simd symoff tgid comm_nodigit parallelism dso_from dso_to symbol_from symbol_to mispredict abort in_tx cycles srcline_from srcline_to ipc_lbr addr_from addr_to symbol_daddr dso_daddr locked tlb mem snoop dcacheline symbol_iaddr phys_daddr data_page_size blocked state waker host recording tod date build_id' \
                '*--sort=[sort by these keys  comm, dso, symbol, pid, cpu, host, tod ...]:value: _sequence compadd - overhead overhead_sys overhead_us overhead_guest_sys overhead_guest_us overhead_children sample period weight1 weight2 weight3 latency latency_children seconds pid comm dso symbol parent cpu socket srcline srcfile local_weight weight transaction trace symbol_size dso_size cgroup cgroup_id ipc_null time code_page_size local_ins_lat ins_lat local_p_stage_cyc p_stage_cyc addr local_retire_lat retire_lat simd symoff tgid comm_nodigit parallelism dso_from dso_to symbol_from symbol_to mispredict abort in_tx cycles srcline_from srcline_to ipc_lbr addr_from addr_to symbol_daddr dso_daddr locked tlb mem snoop dcacheline symbol_iaddr phys_daddr data_page_size blocked state waker host recording tod date build_id' \
                '*-F+[columns]:value: _sequence compadd - overhead overhead_sys overhead_us overhead_guest_sys overhead_guest_us overhead_children sample period weight1 weight2 weight3 latency latency_children seconds pid comm dso symbol parent cpu socket srcline srcfile local_weight weight transaction trace symbol_size dso_size cgroup cgroup_id ipc_null time code_page_size local_ins_lat ins_lat local_p_stage_cyc p_stage_cyc addr local_retire_lat retire_lat simd symoff tgid comm_nodigit parallelism dso_from dso_to symbol_from symbol_to mispredict abort in_tx cycles srcline_from srcline_to ipc_lbr addr_from addr_to symbol_daddr dso_daddr locked tlb mem snoop dcacheline symbol_iaddr phys_daddr data_page_size blocked state waker host recording tod date build_id' \
                '*--fields=[columns]:value: _sequence compadd - overhead overhead_sys overhead_us overhead_guest_sys overhead_guest_us overhead_children sample period weight1 weight2 weight3 latency latency_children seconds pid comm dso symbol parent cpu socket srcline srcfile local_weight weight transaction trace symbol_size dso_size cgroup cgroup_id ipc_null time code_page_size local_ins_lat ins_lat local_p_stage_cyc p_stage_cyc addr local_retire_lat retire_lat simd symoff tgid comm_nodigit parallelism dso_from dso_to symbol_from symbol_to mispredict abort in_tx cycles srcline_from srcline_to ipc_lbr addr_from addr_to symbol_daddr dso_daddr locked tlb mem snoop dcacheline symbol_iaddr phys_daddr data_page_size blocked state waker host recording tod date build_id' \
                '*-n[show a column with the number of samples]' \
                '*--show-nr-samples[show a column with the number of samples]' \
                '*--show-total-period[show a column with the sum of periods]' \
                '*--show-cpu-utilization[show shares of kernel and user code]' \
                '*--showcpuutilization[show shares of kernel and user code]' \
                '*-T[show counts per thread]' \
                '*--threads[show counts per thread]' \
                '*-g+[how to show callchains]::value: _sequence compadd - none graph flat fractal folded caller callee function address srcline branch percent period count' \
                '*--call-graph=[how to show callchains]::value: _sequence compadd - none graph flat fractal folded caller callee function address srcline branch percent period count' \
                '*--children[add callers overhead]' \
                '*--latency[sort by shares of the wall clock]' \
                '*-G[call graphs from callers to callees]' \
                '*--inverted[call graphs from callers to callees]' \
                '*-H[a level for each sort key]' \
                '*--hierarchy[a level for each sort key]' \
                '*--max-stack=[look at this many frames of a callchain]:value: ' \
                '*--ignore-callees=[forget what these functions call]:value: ' \
                '*-p+[what a parent is, for --sort parent]:value: ' \
                '*--parent=[what a parent is, for --sort parent]:value: ' \
                '*-x[only samples that have a parent]' \
                '*--exclude-other[only samples that have a parent]' \
                '*-d+[only these shared objects]:value: ' \
                '*--dsos=[only these shared objects]:value: ' \
                '*-c+[only these commands]:value: ' \
                '*--comms=[only these commands]:value: ' \
                '*-S+[only these functions]:value: ' \
                '*--symbols=[only these functions]:value: ' \
                '*--symbol-filter=[only functions whose name has this part]:value: ' \
                '*--pid=[only these processes]:value: ' \
                '*--tid=[only these threads]:value: ' \
                '*-C+[only these CPUs]:value: ' \
                '*--cpu=[only these CPUs]:value: ' \
                '*--socket-filter=[only the CPUs of this socket]:value: ' \
                '*--parallelism=[only while so many threads ran]:value: ' \
                '*--event=[only samples of this event]:events: _sequence _perfpy_ask events -' \
                '*--time=[only this time  start,stop, 10%-20%, 10%/2]:value: ' \
                '*--switch-on=[only samples after this event]:events: _sequence _perfpy_ask events -' \
                '*--switch-off=[only samples before this event]:events: _sequence _perfpy_ask events -' \
                '*--show-on-off-events[count the events of --switch-on and --switch-off, too]' \
                '*--percent-limit=[leave out rows below it]:value: ' \
                '*--percentage=[shares of what filters leave, or of all]:value:(relative absolute)' \
                '*-U[leave out what has no symbol]' \
                '*--hide-unresolved[leave out what has no symbol]' \
                '*--group[show events of a group side by side]' \
                '*--group-sort-idx=[sort groups by this event]:value: ' \
                '*-t+[columns with this separator]:value: ' \
                '*--field-separator=[columns with this separator]:value: ' \
                '*-w+[use these widths]:value: ' \
                '*--column-widths=[use these widths]:value: ' \
                '*--total-cycles[of recordings of branches  the blocks between them, most cycles first]' \
                '*-b[a row for each branch]' \
                '*--branch-stack[a row for each branch]' \
                '*--mem-mode[a row for each kind of memory access]' \
                '*--with-off-cpu[time on and off the CPU as one, in seconds]' \
                '*--ns[show times in nanoseconds]' \
                '*--time-quantum=[grain of times in --sort time and tod]:value: ' \
                '*--raw-trace[show tracepoints fields, not their formatted text]' \
                '*--full-source-path[name source files with their folders]' \
                '*--skip-empty[leave out events without samples]' \
                '*--stdio[plain text in perfs layout, on a terminal too]' \
                '*--tui[browse the report]' \
                '*--stdio-color=[colours in plain text  always, never or auto]::value:(always never auto)' \
                '*--whole-names[on screens, names of functions with all their arguments]' \
                '*--json=[the report as JSON]::file:_files' \
                '*--flamegraph=[a page  flame graph, time line, tables, code]::file:_files' \
                '*--html=[a page  flame graph, time line, tables, code]::file:_files' \
                '*--source[the code of hot functions in a page]' \
                '*--folded=[stacks as lines for flamegraph.pl and others]::file:_files' \
                '*--speedscope=[stacks for speedscope]::file:_files' \
                '*--firefox=[samples for the Firefox Profiler]::file:_files' \
                '*--pprof=[stacks for pprof]::file:_files' \
                '*--header[show what the file says about the recording, too]' \
                '*--header-only[show only what the file says about the recording]' \
                '*-I[show more of the header]' \
                '*--show-info[show more of the header]' \
                '*--stats[show how many records of each type there are]' \
                '*--tasks[show the tasks recorded]' \
                '*--mmaps[show the tasks recorded with their mappings]' \
                '*-D[print every record as bytes and as text]' \
                '*--dump-raw-trace[print every record as bytes and as text]' \
                '*--symfs=[look for files with symbols below this directory]:directory: _files -/' \
                '*--kallsyms=[read the kernels symbols from this copy of /proc/kallsyms]:file:_files' \
                '*-k+[read the kernels symbols from this ELF file]:file:_files' \
                '*--vmlinux=[read the kernels symbols from this ELF file]:file:_files' \
                '*--demangle[demangle C++ and Rust names]' \
                '*--demangle-kernel[demangle the kernels names too]' \
                '*--fold-interpreters[leave the frames of interpreters out where they named their functions]' \
                '*-m[load symbols of modules]' \
                '*--modules[load symbols of modules]' \
                '*--ignore-vmlinux[do not look for a vmlinux]' \
                '*--jobs=[read large files with at most so many processes]:value: ' \
                '*--weights=[several recordings count by their events]:value:(time samples equal)' \
                '*--cluster=[let the workers of this Dask scheduler read the recordings]:value: ' \
                '*-v[say more]' \
                '*--verbose[say more]' \
                '*-q[print no warnings or messages]' \
                '*--quiet[print no warnings or messages]' \
                '*--inline[show inlined calls]' \
                '*--help[show this text]' \
                '*:file:_files'
            ;;
        view)
            _arguments -s -S \
                '*-i+[input file name]:recording:_perfpy_recordings' \
                '*--input=[input file name]:recording:_perfpy_recordings' \
                '*-f[read the file although somebody else owns it]' \
                '*--force[read the file although somebody else owns it]' \
                '*-o+[write the page into this file]:file:_files' \
                '*--output=[write the page into this file]:file:_files' \
                '*--source[the code of hot functions]' \
                '*--browser[open the page in the browser where there is one]' \
                '*--symfs=[look for files with symbols below this directory]:directory: _files -/' \
                '*--kallsyms=[read the kernels symbols from this copy of /proc/kallsyms]:file:_files' \
                '*-k+[read the kernels symbols from this ELF file]:file:_files' \
                '*--vmlinux=[read the kernels symbols from this ELF file]:file:_files' \
                '*--demangle[demangle C++ and Rust names]' \
                '*--demangle-kernel[demangle the kernels names too]' \
                '*--fold-interpreters[leave the frames of interpreters out where they named their functions]' \
                '*-q[print no warnings or messages]' \
                '*--quiet[print no warnings or messages]' \
                '*--help[show this text]' \
                '*:file:_files'
            ;;
        annotate)
            _arguments -s -S \
                '*-i+[input file name]:recording:_perfpy_recordings' \
                '*--input=[input file name]:recording:_perfpy_recordings' \
                '*-f[read the file although somebody else owns it]' \
                '*--force[read the file although somebody else owns it]' \
                '*-s+[only this function]:value: ' \
                '*--symbol=[only this function]:value: ' \
                '*-d+[only these shared objects]:value: ' \
                '*--dsos=[only these shared objects]:value: ' \
                '*-C+[only these CPUs]:value: ' \
                '*--cpu=[only these CPUs]:value: ' \
                '*--percent-limit=[leave out functions below it]:value: ' \
                '*--skip-missing[say nothing of functions whose code is not here]' \
                '*--group[events of a group side by side]' \
                '*--skip-empty[leave out the columns of events without samples]' \
                '*--source[lines of source code among the instructions]' \
                '*--asm-raw[the bytes of each instruction, too]' \
                '*-M+[how instructions are written, such as intel]:value: ' \
                '*--disassembler-style=[how instructions are written, such as intel]:value: ' \
                '*-l[file and line of the instructions that matter, and a table of them]' \
                '*--print-line[file and line of the instructions that matter, and a table of them]' \
                '*-P[name files with their folders]' \
                '*--full-paths[name files with their folders]' \
                '*--objdump=[the objdump to run]:value: ' \
                '*--prefix=[put this before the paths of source files]:value: ' \
                '*--prefix-strip=[leave out so many of their folders]:value: ' \
                '*-n[numbers of samples in place of shares]' \
                '*--show-nr-samples[numbers of samples in place of shares]' \
                '*--show-total-period[sums of periods in place of shares]' \
                '*--percent-type=[shares of the function or]:value:(local-period global-period local-hits global-hits)' \
                '*--stdio-color=[colours in plain text  always, never or auto]::value:(always never auto)' \
                '*--by-line[lines of source files, with what they and the calls inlined there have]' \
                '*-D[print every record as bytes and as text]' \
                '*--dump-raw-trace[print every record as bytes and as text]' \
                '*--stdio[plain text in perfs layout, on a terminal too]' \
                '*--symfs=[look for files with symbols below this directory]:directory: _files -/' \
                '*--kallsyms=[read the kernels symbols from this copy of /proc/kallsyms]:file:_files' \
                '*-k+[read the kernels symbols from this ELF file]:file:_files' \
                '*--vmlinux=[read the kernels symbols from this ELF file]:file:_files' \
                '*--demangle[demangle C++ and Rust names]' \
                '*--demangle-kernel[demangle the kernels names too]' \
                '*--fold-interpreters[leave the frames of interpreters out where they named their functions]' \
                '*-m[load symbols of modules]' \
                '*--modules[load symbols of modules]' \
                '*--ignore-vmlinux[do not look for a vmlinux]' \
                '*-v[say more]' \
                '*--verbose[say more]' \
                '*-q[print no warnings or messages]' \
                '*--quiet[print no warnings or messages]' \
                '*--help[show this text]' \
                '*:file:_files'
            ;;
        diff)
            _arguments -s -S \
                '*-s+[compare by these keys]:value: _sequence compadd - overhead overhead_sys overhead_us overhead_guest_sys overhead_guest_us overhead_children sample period weight1 weight2 weight3 latency latency_children seconds pid comm dso symbol parent cpu socket srcline srcfile local_weight weight transaction trace symbol_size dso_size cgroup cgroup_id ipc_null time code_page_size local_ins_lat ins_lat local_p_stage_cyc p_stage_cyc addr local_retire_lat retire_lat simd symoff tgid comm_nodigit parallelism dso_from dso_to symbol_from symbol_to mispredict abort in_tx cycles srcline_from srcline_to ipc_lbr addr_from addr_to symbol_daddr dso_daddr locked tlb mem snoop dcacheline symbol_iaddr phys_daddr data_page_size blocked state waker host recording tod date build_id' \
                '*--sort=[compare by these keys]:value: _sequence compadd - overhead overhead_sys overhead_us overhead_guest_sys overhead_guest_us overhead_children sample period weight1 weight2 weight3 latency latency_children seconds pid comm dso symbol parent cpu socket srcline srcfile local_weight weight transaction trace symbol_size dso_size cgroup cgroup_id ipc_null time code_page_size local_ins_lat ins_lat local_p_stage_cyc p_stage_cyc addr local_retire_lat retire_lat simd symoff tgid comm_nodigit parallelism dso_from dso_to symbol_from symbol_to mispredict abort in_tx cycles srcline_from srcline_to ipc_lbr addr_from addr_to symbol_daddr dso_daddr locked tlb mem snoop dcacheline symbol_iaddr phys_daddr data_page_size blocked state waker host recording tod date build_id' \
                '*-c+[delta, delta-abs]:value:(delta delta-abs ratio wdiff\:)' \
                '*--compute=[delta, delta-abs]:value:(delta delta-abs ratio wdiff\:)' \
                '*-b[only rows that the baseline and another recording have]' \
                '*--baseline-only[only rows that the baseline and another recording have]' \
                '*-p[show periods]' \
                '*--period[show periods]' \
                '*-F[show what was computed of what]' \
                '*--formula[show what was computed of what]' \
                '*-o+[sort by this recordings change]:value: ' \
                '*--order=[sort by this recordings change]:value: ' \
                '*-d+[only these shared objects]:value: ' \
                '*--dsos=[only these shared objects]:value: ' \
                '*-C+[only these commands]:value: ' \
                '*--comms=[only these commands]:value: ' \
                '*-S+[only these functions]:value: ' \
                '*--symbols=[only these functions]:value: ' \
                '*--pid=[only these processes]:value: ' \
                '*--tid=[only these threads]:value: ' \
                '*--cpu=[only these CPUs]:value: ' \
                '*--time=[only this time  10%-20%, or start,stop for each recording, parted by colons]:value: ' \
                '*--percentage=[shares of what filters leave, or of all]:value:(relative absolute)' \
                '*-t+[columns with this separator]:value: ' \
                '*--field-separator=[columns with this separator]:value: ' \
                '*--with-off-cpu[time on and off the CPU as one]' \
                '*--fail-above=[exit status 90 where a row costs more than before, by more than noise and this share of all]:value: ' \
                '*--noise[mark what sampling noise does not explain]' \
                '*--stdio[plain text in perfs layout, on a terminal too]' \
                '*--json=-[the comparison as JSON]::file:_files' \
                '*--flamegraph=[what changed as a page  flame graph, time line, tables]:file:_files' \
                '*--html=[what changed as a page  flame graph, time line, tables]:file:_files' \
                '*--all[on a terminal, also the rows that the noise of sampling explains]' \
                '*--ignore-comm[commands are the same whatever they are called]' \
                '*--whole-names[on a terminal and in flame graphs, each instance of a template by itself]' \
                '*-f[read files although somebody else owns them]' \
                '*--force[read files although somebody else owns them]' \
                '*--jobs=[read large files with at most so many processes]:value: ' \
                '*--before=[recordings of the first group  file, pattern or folder]:file:_files' \
                '*--after=[recordings of the second group]:file:_files' \
                '*--unit=[of groups, the spread between what a change must exceed  hosts]:value:(host recording)' \
                '*--weights=[of groups, hosts count by their events]:value:(time samples equal)' \
                '*--cluster=[let the workers of this Dask scheduler read the groups]:value: ' \
                '*--symfs=[look for files with symbols below this directory]:directory: _files -/' \
                '*--kallsyms=[read the kernels symbols from this copy of /proc/kallsyms]:file:_files' \
                '*-k+[read the kernels symbols from this ELF file]:file:_files' \
                '*--vmlinux=[read the kernels symbols from this ELF file]:file:_files' \
                '*--demangle[demangle C++ and Rust names]' \
                '*--demangle-kernel[demangle the kernels names too]' \
                '*--fold-interpreters[leave the frames of interpreters out where they named their functions]' \
                '*-m[load symbols of modules]' \
                '*--modules[load symbols of modules]' \
                '*-v[say more]' \
                '*--verbose[say more]' \
                '*-q[print no warnings or messages]' \
                '*--quiet[print no warnings or messages]' \
                '*--help[show this text]' \
                '*:recording:_perfpy_recordings'
            ;;
        script)
            _arguments -s -S \
                '*-i+[input file name]:recording:_perfpy_recordings' \
                '*--input=[input file name]:recording:_perfpy_recordings' \
                '*-f[read the file although somebody else owns it]' \
                '*--force[read the file although somebody else owns it]' \
                '*--jobs=[read large files with at most so many processes]:value: ' \
                '*-F+[fields to print]:value: _sequence compadd - comm tid pid time cpu event trace ip sym dso dsoff addr symoff srcline period iregs uregs brstack brstacksym data_src weight bpf-output callindent insn disasm insnlen brstackinsn brstackoff synth phys_addr metric misc srccode ipc tod data_page_size code_page_size ins_lat brstackinsnlen machine_pid vcpu cgroup retire_lat brstackdisasm brcntr' \
                '*--fields=[fields to print]:value: _sequence compadd - comm tid pid time cpu event trace ip sym dso dsoff addr symoff srcline period iregs uregs brstack brstacksym data_src weight bpf-output callindent insn disasm insnlen brstackinsn brstackoff synth phys_addr metric misc srccode ipc tod data_page_size code_page_size ins_lat brstackinsnlen machine_pid vcpu cgroup retire_lat brstackdisasm brcntr' \
                '*-D[print every record as bytes and as text]' \
                '*--dump-raw-trace[print every record as bytes and as text]' \
                '*--dump-unsorted-raw-trace[the same in the order of the file, not of time]' \
                '*--time=[only this time  start,stop, 10%-20%, 10%/2]:value: ' \
                '*-L[shorter names of commands and CPUs]' \
                '*--Latency[shorter names of commands and CPUs]' \
                '*-d[print no samples, count those that come out of order]' \
                '*--debug-mode[print no samples, count those that come out of order]' \
                '*--ns[times with 9 decimal places]' \
                '*--reltime[times since the first sample]' \
                '*--deltatime[times since the sample before]' \
                '*-G[no callchains, only the sampled address]' \
                '*--hide-call-graph[no callchains, only the sampled address]' \
                '*--max-stack=[this many frames of a callchain at most]:value: ' \
                '*--max-blocks=[with brstackinsn  so many blocks at most]:value: ' \
                '*--stop-bt=[end callchains at these functions]:value: ' \
                '*--full-source-path[name source files with their folders]' \
                '*--show-kernel-path[the path of the kernels symbols in place of (kernel.kallsyms)]' \
                '*--show-task-events[show task records among the samples]' \
                '*--show-mmap-events[show mmap records among the samples]' \
                '*--show-switch-events[show switch records among the samples]' \
                '*--show-namespace-events[show namespace records among the samples]' \
                '*--show-cgroup-events[show cgroup records among the samples]' \
                '*--show-lost-events[show lost records among the samples]' \
                '*--show-bpf-events[show bpf records among the samples]' \
                '*--show-text-poke-events[show text-poke records among the samples]' \
                '*--show-round-events[show round records among the samples]' \
                '*--per-event-dump[write each events lines to a file, INPUT.EVENT.dump]' \
                '*-C+[only these CPUs]:value: ' \
                '*--cpu=[only these CPUs]:value: ' \
                '*-c+[only these commands]:value: ' \
                '*--comms=[only these commands]:value: ' \
                '*--pid=[only these processes]:value: ' \
                '*--tid=[only these threads]:value: ' \
                '*-S+[only samples in these functions, or at 0xADDRESS]:value: ' \
                '*--symbols=[only samples in these functions, or at 0xADDRESS]:value: ' \
                '*--addr-range=[with -S 0xADDRESS  so many bytes after it, too]:value: ' \
                '*--dsos=[only samples in these files]:value: ' \
                '*--switch-on=[only samples after this event]:events: _sequence _perfpy_ask events -' \
                '*--switch-off=[only samples before this event]:events: _sequence _perfpy_ask events -' \
                '*--show-on-off-events[print the events of --switch-on and --switch-off, too]' \
                '*--header[show what the file says about the recording, too]' \
                '*--header-only[show only what the file says about the recording]' \
                '*-I[show more of the header]' \
                '*--show-info[show more of the header]' \
                '*--symfs=[look for files with symbols below this directory]:directory: _files -/' \
                '*--kallsyms=[read the kernels symbols from this copy of /proc/kallsyms]:file:_files' \
                '*-k+[read the kernels symbols from this ELF file]:file:_files' \
                '*--vmlinux=[read the kernels symbols from this ELF file]:file:_files' \
                '*--demangle[demangle C++ and Rust names]' \
                '*--demangle-kernel[demangle the kernels names too]' \
                '*--fold-interpreters[leave the frames of interpreters out where they named their functions]' \
                '*-v[say more]' \
                '*--verbose[say more]' \
                '*-q[print no warnings or messages]' \
                '*--quiet[print no warnings or messages]' \
                '*-s+[call the functions of a program in Python for each sample]:value: ' \
                '*--script=[call the functions of a program in Python for each sample]:value: ' \
                '*--py=[call on_sample(batch) and on_record(record) of a program in Python, on columns]:file:_files' \
                '*-g+[write a program to begin with  python, or FILE.py]:value: ' \
                '*--gen-script=[write a program to begin with  python, or FILE.py]:value: ' \
                '*-l[list the scripts of an installed perf]' \
                '*--list[list the scripts of an installed perf]' \
                '*-a[with script record NAME  on all CPUs]' \
                '*--all-cpus[with script record NAME  on all CPUs]' \
                '*--inline[show inlined calls]' \
                '*--help[show this text]' \
                '(-)1:program: _command_names -e' \
                '*::arguments:_normal'
            ;;
        list)
            _arguments -s -S \
                '*-d[print extra event descriptions]' \
                '*--desc[print extra event descriptions]' \
                '*-j[JSON encode events and metrics]' \
                '*--json[JSON encode events and metrics]' \
                '*-o+[output file name]:file:_files' \
                '*--output=[output file name]:file:_files' \
                '*-v[print longer event descriptions]' \
                '*--long-desc[print longer event descriptions]' \
                '*--details[print how events are encoded, and the expressions of metrics]' \
                '*--deprecated[print deprecated events, too]' \
                '*--unit=[limit PMU events to the PMUs of this name or pattern]:pmus: _perfpy_ask pmus' \
                '*--cputype=[the same, of the kinds of CPU that the machine has]:pmus: _perfpy_ask pmus' \
                '*--check[try to open each event, and say why not]' \
                '*--event-files=[take named events from these JSON files, too]:directory: _files -/' \
                '*--update-events=[take this CPUs events and metrics from its makers files, and keep them for all commands]:directory: _files -/' \
                '*--debug[say where events were looked for]' \
                '*--stdio[plain text in perfs layout, on a terminal too]' \
                '*--help[show this text]' \
                '*:event:{ compadd hw sw cache tracepoint pmu sdt metric metricgroup; _perfpy_ask events }'
            ;;
        evlist)
            _arguments -s -S \
                '*-i+[input file name]:recording:_perfpy_recordings' \
                '*--input=[input file name]:recording:_perfpy_recordings' \
                '*-f[read the file although somebody else owns it]' \
                '*--force[read the file although somebody else owns it]' \
                '*-F[show the sampling frequency or period]' \
                '*--freq[show the sampling frequency or period]' \
                '*-g[show events that were counted together]' \
                '*--group[show events that were counted together]' \
                '*-v[show all fields of the events]' \
                '*--verbose[show all fields of the events]' \
                '*--trace-fields[show the fields of tracepoints]' \
                '*--help[show this text]' \
                '*:file:_files'
            ;;
        buildid-list)
            _arguments -s -S \
                '*-i+[input file name]:recording:_perfpy_recordings' \
                '*--input=[input file name]:recording:_perfpy_recordings' \
                '*-f[read the file although somebody else owns it]' \
                '*--force[read the file although somebody else owns it]' \
                '*-H[only files that samples hit]' \
                '*--with-hits[only files that samples hit]' \
                '*-k[the build-id of the kernel that runs]' \
                '*--kernel[the build-id of the kernel that runs]' \
                '*-m[build-ids of the kernel that runs and its modules, and where they are]' \
                '*--kernel-maps[build-ids of the kernel that runs and its modules, and where they are]' \
                '*-v[say more]' \
                '*--verbose[say more]' \
                '*--help[show this text]' \
                '*:file:_files'
            ;;
        buildid-cache)
            _arguments -s -S \
                '*-a+[files to add]:file:_files' \
                '*--add=[files to add]:file:_files' \
                '*-r+[files to remove]:file:_files' \
                '*--remove=[files to remove]:file:_files' \
                '*-p+[files to remove, with all older builds of them]:file:_files' \
                '*--purge=[files to remove, with all older builds of them]:file:_files' \
                '*-P[remove everything]' \
                '*--purge-all[remove everything]' \
                '*-u+[files to add where they are not there yet]:file:_files' \
                '*--update=[files to add where they are not there yet]:file:_files' \
                '*-M+[list what a recording needs and the cache lacks]:recording:_perfpy_recordings' \
                '*--missing=[list what a recording needs and the cache lacks]:recording:_perfpy_recordings' \
                '*-l[list what is kept and still is at its path]' \
                '*--list[list what is kept and still is at its path]' \
                '*-f[read a recording although somebody else owns it]' \
                '*--force[read a recording although somebody else owns it]' \
                '*-v[say what is done]' \
                '*--verbose[say what is done]' \
                '*--help[show this text]' \
                '*:file:_files'
            ;;
        inject)
            _arguments -s -S \
                '*-i+[input file name]:recording:_perfpy_recordings' \
                '*--input=[input file name]:recording:_perfpy_recordings' \
                '*-f[read the file although somebody else owns it]' \
                '*--force[read the file although somebody else owns it]' \
                '*-o+[output file name]:file:_files' \
                '*--output=[output file name]:file:_files' \
                '*-j[add what jitdump files say]' \
                '*--jit[add what jitdump files say]' \
                '*-b[add build-ids of the files that samples hit]' \
                '*--build-ids[add build-ids of the files that samples hit]' \
                '*--buildid-all[add build-ids of all files]' \
                '*-B[put build-ids into the mappings of files that samples hit, drop all other mappings]' \
                '*--mmap2-buildids[put build-ids into the mappings of files that samples hit, drop all other mappings]' \
                '*--mmap2-buildid-all[put build-ids into all mappings]' \
                '*--known-build-ids=[build-ids to believe  path id,..., or a file of such lines]:value: ' \
                '*--convert-callchain[unwind copies of stacks into callchains, and leave them out]' \
                '*--symfs=[look for the files that ran below this directory]:directory: _files -/' \
                '*-v[say what was done]' \
                '*--verbose[say what was done]' \
                '*--help[show this text]' \
                '*:file:_files'
            ;;
        archive)
            _arguments -s -S \
                '*--unpack[put an archives files into the build-id cache]' \
                '*-f[read the recording although somebody else owns it]' \
                '*--force[read the recording although somebody else owns it]' \
                '*--help[show this text]' \
                '*:file:_files'
            ;;
        data)
            _arguments -s -S \
                '*-i+[input file name]:recording:_perfpy_recordings' \
                '*--input=[input file name]:recording:_perfpy_recordings' \
                '*--to-json=[write JSON into this file]:file:_files' \
                '*-f[overwrite a file, and read a recording although somebody else owns it]' \
                '*--force[overwrite a file, and read a recording although somebody else owns it]' \
                '*--time=[only this time  start,stop, 10%-20%, 10%/2]:value: ' \
                '*--help[show this text]' \
                '*:file:_files'
            ;;
        export)
            _arguments -s -S \
                '*--symfs=[look for files with symbols below this directory]:directory: _files -/' \
                '*--kallsyms=[read the kernels symbols from this copy of /proc/kallsyms]:file:_files' \
                '*-k+[read the kernels symbols from this ELF file]:file:_files' \
                '*--vmlinux=[read the kernels symbols from this ELF file]:file:_files' \
                '*--demangle[demangle C++ and Rust names]' \
                '*--demangle-kernel[demangle the kernels names too]' \
                '*--fold-interpreters[leave the frames of interpreters out where they named their functions]' \
                '*-q[print no warnings or messages]' \
                '*--quiet[print no warnings or messages]' \
                '*--parquet=[add the recordings to the tables in this folder]:directory: _files -/' \
                '*-i+[input file name]:recording:_perfpy_recordings' \
                '*--input=[input file name]:recording:_perfpy_recordings' \
                '*-f[read a file although somebody else owns it]' \
                '*--force[read a file although somebody else owns it]' \
                '*--help[show this text]' \
                '*:file:_files'
            ;;
        config)
            _arguments -s -S \
                '*-l[show all settings]' \
                '*--list[show all settings]' \
                '*--system[of the systems file, /etc/perfconfig]' \
                '*--user[of the users file, ~/.perfconfig]' \
                '*--help[show this text]' \
                '*:file:_files'
            ;;
        check)
            _arguments -s -S \
                '*-q[print nothing  the exit status tells]' \
                '*--quiet[print nothing  the exit status tells]' \
                '*--help[show this text]' \
                '*:file:_files'
            ;;
        version)
            _arguments -s -S \
                '*--build-options[show which of perfs features are there, and which libraries]' \
                '*-v[the same as --build-options]' \
                '*--verbose[the same as --build-options]' \
                '*--help[show this text]' \
                '*:file:_files'
            ;;
        help)
            _arguments -s -S \
                '*--help[show this text]' \
                '1:command:(stat record report view annotate diff script list evlist buildid-list buildid-cache inject archive data export config check version help guide compatibility performance python many continuous cluster)'
            ;;
        esac
        ;;
    esac
}

_perfpy "$@"
