# attrs [FILE]: what perf ($R) says of a recording: its attrs, the kinds of its records, what its header tells of how it was made.
attrs() {
    file=${1:-p.data}
    [ -s "$file" ] || return 0
    "$R" evlist -v -i "$file" 2>&1 | sed "s/, id: .*//; s/bp_addr: [^,]*//"
    "$R" report -D -i "$file" 2>/dev/null | grep -oE "PERF_RECORD_[A-Z0-9_]+" | sort -u |
        grep -vE "LOST_SAMPLES|THROTTLE|CGROUP|AUX|FORK|EXIT|FINISHED_ROUND"
    "$R" report --header-only -i "$file" 2>/dev/null |
        grep -oE "^# (sample|missing|compressed|time of|clockid|data).*" | grep -vE "duration|compressed"
    true
}
