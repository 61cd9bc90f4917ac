#!/bin/bash
# What a hostile client costs the others: p99 of reads at a fixed rate, alone and beside each kind of abuse, alternated.
#
#   benches/hostile.sh [-d SECONDS] [-r ROUNDS] [-R RATE] [-k "KIND .."] [-c SERVER_CPU,LOADER_CPU] SERVER
#
# SERVER is an `orrery` binary. The hostile client (hostile.py beside this) shares the loader's processor at the lowest
# priority; the loader has real-time priority where that is permitted, so that it does not wait for the other.
# Environment: SERVE (further options for `orrery serve`), WORK (where the data goes). Needs python3.
set -eu
here=$(dirname "$0")
. "$here/awake.sh"
seconds=15 rounds=3 rate=10000 cpus=0,1 kinds="half lengths noise flood slow connections talk churn crowd"
while getopts d:r:R:k:c: option; do
    case $option in
        d) seconds=$OPTARG ;; r) rounds=$OPTARG ;; R) rate=$OPTARG ;; k) kinds=$OPTARG ;; c) cpus=$OPTARG ;;
        *) sed -n '2,/^set/p' "$0" | grep '^#'; exit 2 ;;
    esac
done
shift $((OPTIND - 1))
[ $# = 1 ] || { sed -n '2,/^set/p' "$0" | grep '^#'; exit 2; }
server=$1 node=127.0.0.91:9042 work=${WORK:-$(mktemp -d -p .)} pid= hostile=
finish() {
    let_sleep
    for one in $hostile $pid; do kill "$one" 2>/dev/null && wait "$one" 2>/dev/null || true; done
    [ -n "${WORK:-}" ] || rm -rf "$work"
}
trap finish EXIT
mkdir -p "$work"
: > "$work/results"
ulimit -n "$(ulimit -Hn)"
# shellcheck disable=SC2086 # options are several words
"$server" serve --listen $node --data "$work/data" --cpus "${cpus%,*}" ${SERVE:-} 2> "$work/server.log" &
pid=$!
until grep -q '^ready' "$work/server.log"; do
    kill -0 $pid 2>/dev/null || { cat "$work/server.log" >&2; exit 1; }
    sleep 0.1
done

keep_awake "${cpus%,*}" "${cpus#*,}"
realtime=
chrt --rr 1 true 2> /dev/null && realtime="chrt --rr 1"
drive() {
    # shellcheck disable=SC2086 # several words, or none
    $realtime "$server" bench --node $node --cpus "${cpus#*,}" --json "$@"
}
measure() {
    echo "$1 $(drive --duration "${seconds}s" "read n=100000 cl=ONE -rate threads=64 fixed=$rate/s")" >> "$work/results"
}

drive "write n=100000 cl=ONE -rate threads=64" > /dev/null
for round in $(seq "$rounds"); do
    for kind in $kinds; do
        measure alone
        taskset -c "${cpus#*,}" nice -n 19 python3 "$here/hostile.py" ${node%:*} ${node#*:} "$kind" > "$work/hostile" 2> "$work/hostile.log" &
        hostile=$!
        until grep -q ready "$work/hostile"; do
            kill -0 $hostile 2>/dev/null || { cat "$work/hostile.log" >&2; exit 1; }
            sleep 0.1
        done
        measure "$kind"
        kill $hostile && wait $hostile 2>/dev/null || true
        hostile=
        sleep 1
    done
    echo "round $round of $rounds" >&2
done

python3 - "$work/results" <<'PYTHON'
import json, statistics, sys

runs, times, before = {}, {}, None
for line in open(sys.argv[1]):
    kind, record = line.split(" ", 1)
    phase = json.loads(record)["phases"][0]
    latency = phase["latency"]
    p99 = latency["p99"]
    if kind == "alone":
        before = p99
    # Against the run right before: the machine's own tail changes from minute to minute.
    times.setdefault(kind, []).append(p99 / before)
    runs.setdefault(kind, []).append(
        [phase["throughput"], *(latency[q] / 1e6 for q in ("p50", "p99", "p99.9")), sum(phase["errors"].values())]
    )
print(f"{'':12}" + "".join(f"{title:>12}" for title in ("op/s", "p50 ms", "p99 ms", "p99.9 ms", "errors", "p99 x")))
for kind, values in runs.items():
    medians = [statistics.median(column) for column in zip(*values)]
    print(f"{kind:12}" + "".join(f"{m:12.3f}" for m in medians) + f"{statistics.median(times[kind]):12.2f}")
PYTHON
