# Sourced by the scripts beside it: keeps processors from halting while something is measured on them. The host of a
# virtual machine takes a halted processor away and gives it back late, at the expense of whoever is measured.
#
#   keep_awake CPU..     in the scheduler's idle class, which has a processor only while nobody else wants it
#   let_sleep
awake=
keep_awake() {
    for cpu in "$@"; do
        taskset -c "$cpu" chrt --idle 0 python3 -c 'import os
while True:
    os.sched_yield()' 2> /dev/null &
        awake="$awake $!"
    done
}
let_sleep() {
    for one in $awake; do kill "$one" 2> /dev/null && wait "$one" 2> /dev/null || true; done
    awake=
}
