#!/usr/bin/env bash
# Prints the figures of docs/performance.md, as one line of JSON or text each. Arguments select some: dev, 1, 4, idle, busy; also
# steady, which is long (MINUTES) and fails if memory grows; and profile: processor time per transfer of four validators, by
# thread, and of the load generator.
#
# Environment: CORNICHE_BIN, ENGINE (the ordering engine: mahi-mahi, the default, or autobahn), COUNT (transfers per run), RATE
# (paced run, transfers per second), IDLE_SECONDS, BUSY_RATE, MINUTES and STEADY_RATE; LOAD: further options of the load generator
# in 4 and profile, for instance "--batch 16".
set -euo pipefail
cd "$(dirname "$0")/.."

bin=${CORNICHE_BIN:-target/debug/corniche}
engine=${ENGINE:-mahi-mahi}
count=${COUNT:-10000}
rate=${RATE:-200}
idle_seconds=${IDLE_SECONDS:-30}
busy_rate=${BUSY_RATE:-1000}
minutes=${MINUTES:-30}
steady_rate=${STEADY_RATE:-500}
read -ra load <<<"${LOAD:-}" || true
[ -x "$bin" ] || { echo "$bin is missing: make build" >&2; exit 1; }

directory=$(mktemp -d "${TMPDIR:-/tmp}/corniche-bench.XXXXXX")
dev=""
cleanup() {
    [ -z "$dev" ] || kill "$dev" 2>/dev/null || true
    for network in "$directory"/*/testnet.json; do
        [ -e "$network" ] && "$bin" testnet down --dir "$(dirname "$network")" >/dev/null 2>&1 || true
    done
    rm -rf "$directory"
}
trap cleanup EXIT

# up VALIDATORS: starts a network and stores its description in $network.
up() { network=$("$bin" testnet up --validators "$1" --engine "$engine" --dir "$directory/$1" --base-port 0 --no-explorer --json); }
down() { "$bin" testnet down --dir "$directory/$1" >&2; }
rpcs() { grep -o '"rpc":"[^"]*"' <<<"$network" | cut -d'"' -f4 | sed 's/^/--rpc /'; }
pids() { grep -o '"pid":[0-9]*' <<<"$network" | cut -d: -f2; }

# Total processor time of these processes, in clock ticks.
ticks() { for pid in "$@"; do sed 's/.*) //' "/proc/$pid/stat" | awk '{ print $12 + $13 }'; done | awk '{ sum += $1 } END { print sum }'; }

bench_dev() {
    local started ended
    started=$(date +%s%N)
    "$bin" dev --engine "$engine" --port 0 --json >"$directory/dev.json" 2>/dev/null &
    dev=$!
    until [ -s "$directory/dev.json" ]; do kill -0 "$dev" && sleep 0.005; done
    ended=$(date +%s%N)
    kill "$dev" && wait "$dev" || true
    dev=""
    echo "dev: ready after $(((ended - started) / 1000000)) ms"
}

bench_load() {
    up "$1"
    # shellcheck disable=SC2046
    echo "$1 validators, saturated:" && "$bin" load $(rpcs) --count "$count" --senders 16 "${load[@]}"
    # shellcheck disable=SC2046
    echo "$1 validators, $rate transfers/s:" && "$bin" load $(rpcs) --count $((rate * 15)) --senders 16 --rate "$rate"
    down "$1"
}

bench_idle() {
    up 4
    local before after
    # One transfer finishes the work that is left from the start.
    # shellcheck disable=SC2046
    "$bin" load $(rpcs) --count 1 --senders 1 >/dev/null
    # shellcheck disable=SC2046
    before=$(ticks $(pids))
    sleep "$idle_seconds"
    # shellcheck disable=SC2046
    after=$(ticks $(pids))
    down 4
    awk -v ticks=$((after - before)) -v hertz="$(getconf CLK_TCK)" -v seconds="$idle_seconds" \
        'BEGIN { printf "idle: four validators use %.2f %% of one core\n", 100 * ticks / hertz / seconds }'
}

# Processor time of the validators only, while a load generator keeps them busy.
bench_busy() {
    up 4
    local before after started
    before=$(ticks $(pids)) started=$(date +%s%N)
    # shellcheck disable=SC2046
    "$bin" load $(rpcs) --count $((busy_rate * 20)) --senders 16 --rate "$busy_rate" >"$directory/busy.txt"
    after=$(ticks $(pids))
    awk -v ticks=$((after - before)) -v hertz="$(getconf CLK_TCK)" -v ns=$(($(date +%s%N) - started)) -v rate="$busy_rate" \
        'BEGIN { printf "busy: four validators at %d transfers/s use %.0f %% of one core\n", rate, 100 * ticks / hertz / (ns / 1e9) }'
    cat "$directory/busy.txt"
    down 4
}

# Total processor time of each thread of these processes: PID THREAD NAME NANOSECONDS. Threads of one pool share a
# name. The process' count of ticks includes threads that have ended.
threads() {
    local pid task
    for pid in "$@"; do
        for task in "/proc/$pid/task"/*; do
            echo "$pid ${task##*/} $(tr ' ' '_' <"$task/comm") $(cut -d' ' -f1 "$task/schedstat")"
        done
        echo "$pid all (all) $(($(ticks "$pid") * 1000000000 / $(getconf CLK_TCK)))"
    done
}

# Profile of four saturated validators by thread, in microseconds of processor time per transfer, all four together.
bench_profile() {
    up 4
    # shellcheck disable=SC2046
    "$bin" load $(rpcs) --count 2000 --senders 16 "${load[@]}" >/dev/null
    # shellcheck disable=SC2046
    threads $(pids) >"$directory/before"
    # shellcheck disable=SC2046
    "$bin" load $(rpcs) --count "$count" --senders 16 "${load[@]}"
    # shellcheck disable=SC2046
    threads $(pids) >"$directory/after"
    awk -v count="$count" '
        FNR == NR { before[$1 $2] = $4; next }
        { used = $4 - before[$1 $2] }
        $2 == "all" { all += used; next }
        { sub(/-[0-9]+$/, "", $3); name[$3] += used; seen += used }
        END {
            for (thread in name) printf "%9.1f us  %s\n", name[thread] / count / 1000, thread | "sort -rn"
            close("sort -rn")
            printf "%9.1f us  threads that ended\n%9.1f us  four validators\n", (all - seen) / count / 1000, all / count / 1000
        }' "$directory/before" "$directory/after"
    down 4
}

# Resident memory of the largest of these processes, in MiB.
resident() { for pid in "$@"; do awk '/^VmRSS/ { print int($2 / 1024) }' "/proc/$pid/status"; done | sort -n | tail -n 1; }

# One load a minute for MINUTES, with the largest validator's memory after each. Passes if the mean of the last third is at most
# a tenth above that of the middle third.
bench_steady() {
    up 4
    local minute
    : >"$directory/steady.txt"
    for minute in $(seq "$minutes"); do
        # shellcheck disable=SC2046
        "$bin" load $(rpcs) --count $((steady_rate * 60)) --senders 16 --rate "$steady_rate" >/dev/null 2>"$directory/load.txt" ||
            { cat "$directory/load.txt" >&2; echo "steady: the load failed in minute $minute" >&2; return 1; }
        # shellcheck disable=SC2046
        resident $(pids) | tee -a "$directory/steady.txt" | sed "s/^/minute $minute: largest validator, MiB: /" >&2
    done
    echo "steady: data directories after $minutes minutes: $(du -sh "$directory/4" | cut -f1)"
    down 4
    awk -v rate="$steady_rate" '{ size[NR] = $1 }
        END {
            third = int(NR / 3)
            for (i = third + 1; i <= 2 * third; i++) middle += size[i] / third
            for (i = NR - third + 1; i <= NR; i++) last += size[i] / third
            printf "steady: %d minutes at %d transfers/s: largest validator %d MiB after the first minute, %d MiB (middle third), %d MiB (last third)\n", NR, rate, size[1], middle, last
            exit third > 0 && last > 1.1 * middle
        }' "$directory/steady.txt"
}

echo "engine: $engine"
uptime >&2
[ $# -gt 0 ] || set -- dev 1 4 idle busy
for what in "$@"; do
    case $what in
        dev) bench_dev ;;
        1 | 4) bench_load "$what" ;;
        idle) bench_idle ;;
        busy) bench_busy ;;
        steady) bench_steady ;;
        profile) bench_profile ;;
        *) echo "unknown: $what (dev, 1, 4, idle, busy, steady, profile)" >&2; exit 2 ;;
    esac
done
