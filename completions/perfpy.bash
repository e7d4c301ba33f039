# bash completion for perfpy; written by completions/generate.py

_perfpy()
{
    local cur prev words cword
    if declare -F _get_comp_words_by_ref >/dev/null; then
        _get_comp_words_by_ref -n =: cur prev words cword
    else
        cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} words=("${COMP_WORDS[@]}") cword=$COMP_CWORD
    fi
    COMPREPLY=()
    if ((cword == 1)); then
        COMPREPLY=($(compgen -W "stat record report diff script list evlist buildid-list buildid-cache inject version help --help --version" -- "$cur"))
        return
    fi
    local options="" events="" files="" directories="" texts="" workload=""
    case ${words[1]} in
    stat)
        options="-e --event --filter --event-files -i --no-inherit -p --pid -t --tid -a --all-cpus --scale -v --verbose -r --repeat --table -n --null -d --detailed -S --sync -B --big-num -C --cpu -A --no-aggr --no-merge -x --field-separator -j --json-output -G --cgroup --for-each-cgroup -o --output --append --log-fd --pre --post -I --interval-print --interval-count --interval-clear --timeout --per-socket --per-die --per-cluster --per-cache --per-core --per-thread --per-node -D --delay -M --metrics --metric-no-group --metric-no-merge --metric-no-threshold --topdown --td-level --metric-only --all-kernel --all-user --summary --no-csv-summary --quiet --control --compare --warmup --min-change --ignore-failure --help"
        events="-e --event"
        files="-o --output"
        texts="--filter --event-files -p --pid -t --tid -r --repeat -C --cpu -x --field-separator -G --cgroup --for-each-cgroup --log-fd --pre --post -I --interval-print --interval-count --timeout -D --delay -M --metrics --td-level --control --compare --warmup --min-change"
        workload="yes"
        ;;
    record)
        options="-a --all-cpus -p --pid -t --tid -u --uid -C --cpu -G --cgroup --per-thread -i --no-inherit -D --delay --control --exclude-perf -e --event --filter --event-files -F --freq -c --count --strict-freq --all-kernel --all-user -n --no-samples --no-buffering -g --call-graph --unwind --keep-stacks --kernel-callchains --user-callchains --jit -s --stat -R --raw-samples -d --data --data-mmap --sample-mem-info --phys-data --data-page-size --code-page-size -T --timestamp -P --period --sample-cpu --sample-identifier -W --weight --transaction -b --branch-any -j --branch-filter -I --intr-regs --user-regs --running-time -k --clockid --switch-events --namespaces --all-cgroups --no-bpf-event --buildid-mmap --synth --tail-synthesize --num-thread-synthesize --proc-map-timeout -o --output -m --mmap-pages --mmap-flush --affinity --aio --overwrite --switch-output --switch-max-files --max-size --timestamp-filename --timestamp-boundary -z --compression-level -N --no-buildid-cache -B --no-buildid --buildid-all -r --realtime --debuginfod --vmlinux --dry-run -v --verbose -q --quiet --help"
        events="-e --event"
        files="-o --output --vmlinux"
        texts="-p --pid -t --tid -u --uid -C --cpu -G --cgroup -D --delay --control --filter --event-files -F --freq -c --count --call-graph -j --branch-filter -k --clockid --synth --num-thread-synthesize --proc-map-timeout -m --mmap-pages --mmap-flush --affinity --switch-max-files --max-size -r --realtime"
        workload="yes"
        ;;
    report)
        options="-i --input -f --force -s --sort -F --fields -n --show-nr-samples --show-total-period --show-cpu-utilization --showcpuutilization -T --threads -g --call-graph --children --latency -G --inverted -H --hierarchy --max-stack --ignore-callees -p --parent -x --exclude-other -d --dsos -c --comms -S --symbols --symbol-filter --pid --tid -C --cpu --parallelism --time --switch-on --switch-off --show-on-off-events --percent-limit --percentage -U --hide-unresolved --group --group-sort-idx -t --field-separator -w --column-widths -b --branch-stack --mem-mode --ns --time-quantum --raw-trace --full-source-path --skip-empty --stdio --tui --stdio-color --whole-names --json --flamegraph --html --folded --speedscope --firefox --pprof --header --header-only -I --show-info --stats --tasks --mmaps -D --dump-raw-trace --symfs --kallsyms -k --vmlinux --demangle --demangle-kernel --fold-interpreters -m --modules --ignore-vmlinux -v --verbose -q --quiet --inline --help"
        events="--switch-on --switch-off"
        files="-i --input --json --flamegraph --html --folded --speedscope --firefox --pprof --kallsyms -k --vmlinux"
        directories="--symfs"
        texts="-s --sort -F --fields -g --call-graph --max-stack --ignore-callees -p --parent -d --dsos -c --comms -S --symbols --symbol-filter --pid --tid -C --cpu --parallelism --time --percent-limit --percentage --group-sort-idx -t --field-separator -w --column-widths --time-quantum --stdio-color"
        ;;
    diff)
        options="-s --sort -c --compute -b --baseline-only -p --period -F --formula -o --order -d --dsos -C --comms -S --symbols --pid --tid --cpu --time --percentage -t --field-separator --noise --stdio --json --flamegraph --html -f --force --symfs --kallsyms -k --vmlinux --demangle --demangle-kernel --fold-interpreters -m --modules -v --verbose -q --quiet --help"
        files="--flamegraph --html --kallsyms -k --vmlinux"
        directories="--symfs"
        texts="-s --sort -c --compute -o --order -d --dsos -C --comms -S --symbols --pid --tid --cpu --time --percentage -t --field-separator"
        ;;
    script)
        options="-i --input -f --force -F --fields -D --dump-raw-trace --dump-unsorted-raw-trace --time -L --Latency -d --debug-mode --ns --reltime --deltatime -G --hide-call-graph --max-stack --stop-bt --full-source-path --show-kernel-path --show-task-events --show-mmap-events --show-switch-events --show-namespace-events --show-cgroup-events --show-lost-events --show-bpf-events --show-text-poke-events --show-round-events --per-event-dump -C --cpu -c --comms --pid --tid -S --symbols --addr-range --dsos --switch-on --switch-off --show-on-off-events --header --header-only -I --show-info --symfs --kallsyms -k --vmlinux --demangle --demangle-kernel --fold-interpreters -v --verbose -q --quiet --inline --help"
        events="--switch-on --switch-off"
        files="-i --input --kallsyms -k --vmlinux"
        directories="--symfs"
        texts="-F --fields --time --max-stack --stop-bt -C --cpu -c --comms --pid --tid -S --symbols --addr-range --dsos"
        ;;
    list)
        options="-d --desc -j --json -o --output -v --long-desc --details --deprecated --unit --cputype --check --event-files --debug --stdio --help"
        files="-o --output"
        texts="--unit --cputype --event-files"
        ;;
    evlist)
        options="-i --input -f --force -F --freq -g --group -v --verbose --trace-fields --help"
        files="-i --input"
        ;;
    buildid-list)
        options="-i --input -f --force -H --with-hits -k --kernel -m --kernel-maps -v --verbose --help"
        files="-i --input"
        ;;
    buildid-cache)
        options="-a --add -r --remove -p --purge -P --purge-all -u --update -M --missing -l --list -f --force -v --verbose --help"
        files="-a --add -r --remove -p --purge -u --update -M --missing"
        ;;
    inject)
        options="-i --input -f --force -o --output -j --jit -b --build-ids --buildid-all -B --mmap2-buildids --mmap2-buildid-all -v --verbose --help"
        files="-i --input -o --output"
        ;;
    version)
        options="--build-options -v --verbose --help"
        ;;
    help)
        COMPREPLY=($(compgen -W "stat record report diff script list evlist buildid-list buildid-cache inject version help" -- "$cur"))
        return
        ;;
    esac
    if [[ -n $workload ]] && declare -F _command_offset >/dev/null; then
        local index
        for ((index = 2; index < cword; index++)); do
            [[ ${words[index]} == -- ]] && _command_offset $((index + 1)) && return
        done
    fi
    if [[ $prev == -?* ]]; then
        case " $events " in *" $prev "*)
            # a list: complete what follows the last comma
            local before=""
            [[ $cur == *,* ]] && before=${cur%,*},
            COMPREPLY=($(compgen -P "$before" -W "$(perfpy list --raw-dump 2>/dev/null)" -- "${cur##*,}"))
            declare -F __ltrim_colon_completions >/dev/null && __ltrim_colon_completions "$cur"
            return
            ;;
        esac
        case " $files " in *" $prev "*) COMPREPLY=($(compgen -f -- "$cur")); return ;; esac
        case " $directories " in *" $prev "*) COMPREPLY=($(compgen -d -- "$cur")); return ;; esac
        case " $texts " in *" $prev "*) return ;; esac
    fi
    if [[ $cur == -* ]]; then
        COMPREPLY=($(compgen -W "$options --help" -- "$cur"))
    elif [[ -n $workload ]]; then
        COMPREPLY=($(compgen -c -- "$cur") $(compgen -f -- "$cur"))
    else
        COMPREPLY=($(compgen -f -- "$cur"))
    fi
}

complete -o filenames -o bashdefault -F _perfpy perfpy
