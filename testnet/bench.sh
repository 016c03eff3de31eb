#!/usr/bin/env bash
# Prints figures of docs/performance.md that `corniche bench network` has not. Arguments select some: dev (time until it is ready),
# idle (processor time of four validators); also steady, which is long (MINUTES, default 30) and fails if memory grows; and store,
# which is long (MINUTES, default 10): compares the databases of the index, saturated, with transfers to ACCOUNTS accounts; and
# snapshot, which is long (MINUTES, default 10): latency of SNAPSHOT_RATE transfers/s to ACCOUNTS accounts, in minutes in which all
# validators make a snapshot, and in those between.
#
# Environment: CORNICHE_BIN, ENGINE (the ordering engine: mahi-mahi, the default, autobahn or neobft), IDLE_SECONDS, MINUTES and
# STEADY_RATE; SNAPSHOT_RATE; of store and snapshot: ACCOUNTS and LOAD; of store: STORES, VALIDATORS; LOAD: further options of the load generator, for instance "--batch 16".
set -euo pipefail
cd "$(dirname "$0")/.."

bin=${CORNICHE_BIN:-target/debug/corniche}
engine=${ENGINE:-mahi-mahi}
idle_seconds=${IDLE_SECONDS:-30}
steady_rate=${STEADY_RATE:-500}
snapshot_rate=${SNAPSHOT_RATE:-200}
validators=${VALIDATORS:-4}
accounts=${ACCOUNTS:-100000}
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

# up VALIDATORS [OPTION...]: starts a network and stores its description in $network.
up() { network=$("$bin" testnet up --validators "$1" "${@:2}" --engine "$engine" --dir "$directory/$1" --base-port 0 --no-explorer --json); }
down() { "$bin" testnet down --dir "$directory/$1" >&2; }
# Only of validators: a sequencer's URL is that of its admin interface.
rpcs() { grep -o '"role":"validator","rpc":"[^"]*"' <<<"$network" | cut -d'"' -f8 | sed 's/^/--rpc /'; }
pids() { grep -o '"pid":[0-9]*' <<<"$network" | cut -d: -f2; }

# Total processor time of these processes, in clock ticks.
ticks() { for pid in "$@"; do sed 's/.*) //' "/proc/$pid/stat" | awk '{ print $12 + $13 }'; done | awk '{ sum += $1 } END { print sum }'; }

bench_dev() {
    local started ended
    started=$(date +%s%N)
    "$bin" dev --engine "$engine" --port 0 --json >"$directory/dev.json" 2>/dev/null &
    dev=$!
    until [ -s "$directory/dev.json" ]; do
        kill -0 "$dev" || { echo "dev: the node ended before it was ready" >&2; return 1; }
        sleep 0.005
    done
    ended=$(date +%s%N)
    kill "$dev" && wait "$dev" || true
    dev=""
    echo "dev: ready after $(((ended - started) / 1000000)) ms"
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

# Resident memory of the largest of these processes, in MiB.
resident() { for pid in "$@"; do awk '/^VmRSS/ { print int($2 / 1024) }' "/proc/$pid/status"; done | sort -n | tail -n 1; }

# One load a minute for MINUTES, with the largest validator's memory after each. Passes if the mean of the last third is at most
# a tenth above that of the middle third.
bench_steady() {
    up 4
    local minute minutes=${MINUTES:-30}
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

# up_store INDEX: a new network whose nodes have this index, and whose base fee does not rise under sustained load: transfers that
# were signed before the run could not pay it after two minutes.
up_store() {
    local node
    up "$validators" && down "$validators"
    sed -i 's/"target_gas_per_second": [0-9]*/"target_gas_per_second": 1000000000/' "$directory/$validators/genesis.json"
    for node in "$directory/$validators"/validator-*; do
        sed -i "s/^index = .*/index = \"$1\"/" "$node/node.toml"
        # The data directory of a new genesis states that its validator has signed nothing yet.
        mv "$node/data/VALIDATOR" "$node/UNSIGNED"
        rm -r "$node/data" && mkdir "$node/data" && mv "$node/UNSIGNED" "$node/data/UNSIGNED"
    done
    up "$validators"
}

# store_load COUNT: sends this many transfers, as fast as possible; its report goes to store.json.
store_load() {
    # shellcheck disable=SC2046
    "$bin" load $(rpcs) --count "$1" --recipients "$accounts" --senders 16 --timeout 7200 --json "${load[@]}" \
        >"$directory/store.json" 2>"$directory/store.txt" || { cat "$directory/store.txt" >&2; return 1; }
}

# Member of the report.
reported() { sed -n "s/.*\"$1\": \([0-9.]*\).*/\1/p" "$directory/store.json"; }

# Total size of these files and directories in MiB.
size() { du -cm "$@" | tail -n 1 | cut -f1; }

# One network for each database of STORES. The first load makes the accounts, and its rate determines the number of transfers that
# take about MINUTES.
bench_store() {
    local index
    for index in ${STORES:-sled redb}; do store_run "$index"; done
}

store_run() {
    local sending before after started minute=0 memory="" count minutes=${MINUTES:-10}
    up_store "$1"
    store_load "$accounts"
    count=$(awk -v rate="$(reported transfersPerSecond)" -v minutes="$minutes" 'BEGIN { printf "%d", rate * minutes * 60 }')
    : >"$directory/store.txt"
    store_load "$count" &
    sending=$!
    until grep -q 'are signed; sending' "$directory/store.txt"; do kill -0 "$sending" || return 1; sleep 0.1; done
    # shellcheck disable=SC2046
    before=$(ticks $(pids)) started=$SECONDS
    while kill -0 "$sending" 2>/dev/null; do
        sleep 1
        if [ $((SECONDS - started)) -ge $(((minute + 1) * 60)) ]; then
            minute=$((minute + 1))
            # shellcheck disable=SC2046
            memory+=" $(resident $(pids))"
            echo "store $1: minute $minute: largest validator, MiB:${memory##* }" >&2
        fi
    done
    wait "$sending"
    # shellcheck disable=SC2046
    after=$(ticks $(pids))
    # shellcheck disable=SC2046
    memory+=" $(resident $(pids))"
    awk -v ticks=$((after - before)) -v hertz="$(getconf CLK_TCK)" -v store="$1" -v validators="$validators" -v accounts="$accounts" \
        -v count="$count" -v seconds="$(reported seconds)" -v rate="$(reported transfersPerSecond)" -v p50="$(reported p50)" \
        -v p99="$(reported p99)" -v memory="$memory" -v disk="$(size "$directory/$validators"/validator-*/data)" \
        -v state="$(size "$directory/$validators"/validator-*/data/state)" \
        'BEGIN {
            printf "store %s, %d validators, %d accounts: %d transfers in %.0f s\n", store, validators, accounts, count, seconds
            printf "  transfers/s                  %.0f\n  latency p50 / p99, ms        %.0f / %.0f\n", rate, p50, p99
            printf "  processor time per transfer  %.0f us, all validators\n", ticks / hertz * 1e6 / count
            printf "  largest validator, MiB      %s (after each minute, and at the end)\n", memory
            printf "  disk, MiB                    %d, of which the index %d, all validators\n", disk, state
        }'
    down "$validators"
    rm -r "${directory:?}/$validators"
}

# Height of the newest snapshot of the first validator.
snapshot_height() {
    local metrics
    metrics=$(grep -o '"metrics":"[^"]*"' <<<"$network" | head -n 1 | cut -d'"' -f4)
    curl --silent --fail "$metrics" | awk '/^corniche_snapshot_height / { print $2 }'
}

# A snapshot every second minute. Minutes with and without one take turns, so that other load affects both alike.
bench_snapshot() {
    local minute minutes=${MINUTES:-10} before after kind
    up 4 --staking snapshot_ms=120000
    store_load "$accounts"
    : >"$directory/snapshot.txt"
    for minute in $(seq "$minutes"); do
        before=$(snapshot_height)
        # shellcheck disable=SC2046
        "$bin" load $(rpcs) --seconds 60 --recipients "$accounts" --senders 16 --rate "$snapshot_rate" --json \
            >"$directory/store.json" 2>"$directory/store.txt" || { cat "$directory/store.txt" >&2; return 1; }
        after=$(snapshot_height)
        kind=without
        [ "$before" = "$after" ] || kind=with
        echo "$kind $(reported p50) $(reported p99)" | tee -a "$directory/snapshot.txt" |
            sed "s/^/minute $minute, snapshot, p50 and p99 in ms: /" >&2
    done
    down 4
    for kind in without with; do
        awk -v kind=$kind '$1 == kind { print $3, $2 }' "$directory/snapshot.txt" | sort -n |
            awk -v kind=$kind -v rate="$snapshot_rate" -v accounts="$accounts" \
                '{ p99[NR] = $1; p50 += $2 }
                END { if (NR) printf "snapshot: %d minutes %s one, %d transfers/s, %d accounts: p50 %.0f ms, median p99 %.0f ms\n",
                    NR, kind, rate, accounts, p50 / NR, p99[int((NR + 1) / 2)] }'
    done
}

echo "engine: $engine"
uptime >&2
[ $# -gt 0 ] || set -- dev idle
for what in "$@"; do
    case $what in
        dev) bench_dev ;;
        idle) bench_idle ;;
        steady) bench_steady ;;
        store) bench_store ;;
        snapshot) bench_snapshot ;;
        *) echo "unknown: $what (dev, idle, steady, store, snapshot)" >&2; exit 2 ;;
    esac
done
