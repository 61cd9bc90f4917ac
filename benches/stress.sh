#!/bin/bash
# One core against one loader: a server on one processor, `orrery bench` on another, cassandra-stress's default row.
#
#   benches/stress.sh [-d SECONDS] [-r ROUNDS] [-t THREADS] [-n ROWS] [-c SERVER_CPU,LOADER_CPU] SERVER [SERVER]
#
# SERVER is an `orrery` binary, which is started on an empty folder with the defaults of `orrery serve` (commit log
# periodic), or ADDRESS:PORT of a server of any make that runs already. With two of them the rounds alternate: A, B,
# A, B, .. so that what else the machine does hits both alike. A round writes the rows once unmeasured, then measures
# writes, reads and half of each for SECONDS each; the medians over the rounds are printed.
#
#   benches/stress.sh target/release/orrery                          60 s of writes, of reads, and mixed, 64 threads
#   benches/stress.sh -d 20 -r 5 /path/to/before target/release/orrery
#   benches/stress.sh 127.0.0.1:9042                                 a Cassandra, pinned by who started it
#
# Environment: LOADER (the `orrery` that drives; target/release/orrery), SERVE (further options for `orrery serve`),
# WORK (where the data goes; a temporary folder on the current disk). Needs python3 for the medians.
set -eu

seconds=60 rounds=1 threads=64 rows=1000000 cpus=0,1
while getopts d:r:t:n:c: option; do
    case $option in
        d) seconds=$OPTARG ;; r) rounds=$OPTARG ;; t) threads=$OPTARG ;; n) rows=$OPTARG ;; c) cpus=$OPTARG ;;
        *) sed -n '2,/^set/p' "$0" | grep '^#'; exit 2 ;;
    esac
done
shift $((OPTIND - 1))
[ $# -ge 1 ] || { sed -n '2,/^set/p' "$0" | grep '^#'; exit 2; }
loader=${LOADER:-target/release/orrery}
work=${WORK:-$(mktemp -d -p .)}
results=$work/results
. "$(dirname "$0")/awake.sh"
pid=
stop() {
    [ -z "$pid" ] || { kill "$pid" 2>/dev/null && wait "$pid" 2>/dev/null || true; pid=; }
}
finish() {
    let_sleep
    stop
    [ -n "${WORK:-}" ] || rm -rf "$work"
}
trap finish EXIT
mkdir -p "$work"
: > "$results"

# Starts $1, unless it is an address; sets `node` and `pid`.
start() {
    case $1 in
        *:[0-9]*) node=$1; return ;;
    esac
    node=127.0.0.1:19042
    rm -rf "$work/data"
    # shellcheck disable=SC2086 # options are several words
    "$1" serve --listen $node --data "$work/data" --cpus "${cpus%,*}" ${SERVE:-} 2> "$work/server.log" &
    pid=$!
    for _ in $(seq 100); do
        grep -q '^ready' "$work/server.log" && return
        kill -0 $pid 2>/dev/null || break
        sleep 0.1
    done
    echo "$1 did not start:" >&2
    cat "$work/server.log" >&2
    exit 1
}

# CPU time used by the server so far, in clock ticks; 0 where its process is not ours.
ticks() {
    [ -n "$pid" ] && awk '{ print $14 + $15 }' "/proc/$pid/stat" || echo 0
}

drive() {
    "$loader" bench --node "$node" --cpus "${cpus#*,}" --json "$@"
}

keep_awake "${cpus%,*}" "${cpus#*,}"
for round in $(seq "$rounds"); do
    for server in "$@"; do
        start "$server"
        drive "write n=$rows cl=ONE -rate threads=256" > /dev/null
        for command in write read mixed; do
            before=$(ticks)
            record=$(drive --duration "${seconds}s" "$command n=$rows cl=ONE -rate threads=$threads")
            echo "$server $command $(($(ticks) - before)) $(getconf CLK_TCK) $record" >> "$results"
        done
        stop
        echo "round $round of $rounds: $server" >&2
    done
done

python3 - "$results" <<'PYTHON'
import json, statistics, sys

runs = {}
for line in open(sys.argv[1]):
    server, command, ticks, hertz, record = line.split(" ", 4)
    phase = json.loads(record)["phases"][0]
    cpu_s = int(ticks) / int(hertz)
    latency = phase["latency"]
    values = [phase["throughput"], *(latency[q] / 1e6 for q in ("mean", "p50", "p99", "p99.9", "max"))]
    values += [100 * cpu_s / (phase["duration_ns"] / 1e9), 1e6 * cpu_s / max(phase["operations"], 1)]
    values.append(sum(phase["errors"].values()))
    runs.setdefault((command, server), []).append(values)
titles = ["op/s", "mean ms", "p50 ms", "p99 ms", "p99.9 ms", "max ms", "server CPU %", "us/op", "errors"]
print(f"{'':6}" + "".join(f"{title:>14}" for title in titles) + "  server (medians)")
for (command, server), values in sorted(runs.items(), reverse=True):
    medians = [statistics.median(column) for column in zip(*values)]
    digits = [0, 3, 3, 3, 3, 1, 0, 2, 0]
    print(f"{command:6}" + "".join(f"{m:14.{d}f}" for m, d in zip(medians, digits)) + f"  {server}")
PYTHON
