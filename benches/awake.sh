# Sourced by the scripts beside it: keeps processors from halting while something is measured on them. The host of a
# virtual machine takes a halted processor away and gives it back late, at the expense of whoever is measured.
#
#   keep_awake CPU..     the kernel's idle loop polls, on all of them; where it cannot be asked for that, a thread in the
#                        scheduler's idle class on each, which has a processor only while nobody else wants it
#   let_sleep
awake=
keep_awake() {
    # The request lasts for as long as the file is open.
    if [ -w /dev/cpu_dma_latency ] && ! grep -qs none /sys/devices/system/cpu/cpuidle/current_driver; then
        exec 9> /dev/cpu_dma_latency && printf '\0\0\0\0' >&9
        return
    fi
    for cpu in "$@"; do
        taskset -c "$cpu" chrt --idle 0 python3 -c 'import os
while True:
    os.sched_yield()' 2> /dev/null &
        awake="$awake $!"
    done
}
let_sleep() {
    exec 9>&-
    for one in $awake; do kill "$one" 2> /dev/null && wait "$one" 2> /dev/null || true; done
    awake=
}
