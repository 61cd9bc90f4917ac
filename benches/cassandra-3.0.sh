#!/bin/bash
# What Apache Cassandra 3.0.9 allocates, keeps, copies and compacts, for `hwprofiles/systems/cassandra-3.0.9.yaml`: the
# very version of the report, on a later Java. Three of its classes ask for what Java 9 took away; they are compiled
# again from its sources with that replaced.
#
#   benches/cassandra-3.0.sh operations         three nodes, QUORUM: bytes and CPU of a write and of a read
#   benches/cassandra-3.0.sh collections [S]    one node, 10,000 writes/s for S seconds [480]: how fast collections copy,
#                                               what is allocated beside compactions, what marking frees,
#                                               memtables, CPU by thread
#   benches/cassandra-3.0.sh snitch             three nodes of half a processor each (control groups of the first version,
#                                               as root), reads with and without the dynamic snitch: what it makes of
#                                               throughput and latencies, and how evenly nodes are busy
#
# Environment: LOADER (the `orrery` that drives; target/release/orrery), WORK (where all of it goes; target/peers/
# cassandra-3.0.9), OPERATIONS (300000), JAVA (what runs the servers; java, of 11 to 17: up to 13 its log tells what
# remembered sets take). Needs Java 17 (jcmd and javac too), Maven, unzip and python3.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
loader=$(realpath "${LOADER:-target/release/orrery}")
work=${WORK:-target/peers/cassandra-3.0.9}
mkdir -p "$work"
work=$(realpath "$work")
operations=${OPERATIONS:-300000}
java=${JAVA:-java}
started=()
finish() { for pid in "${started[@]}"; do kill -9 "$pid" 2>/dev/null || true; done; }
trap finish EXIT

prepare() {
    cd "$work"
    [ -d lib ] || {
        cat > pom.xml <<'P'
<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion><groupId>x</groupId>
<artifactId>x</artifactId><version>1</version><dependencies><dependency><groupId>org.apache.cassandra</groupId>
<artifactId>cassandra-all</artifactId><version>3.0.9</version></dependency></dependencies></project>
P
        mvn -q -B dependency:copy-dependencies -DoutputDirectory=lib >&2
    }
    [ -d patched ] || {
        mvn -q -B dependency:copy -Dartifact=org.apache.cassandra:cassandra-all:3.0.9:jar:sources -DoutputDirectory=. >&2
        local at=org/apache/cassandra
        unzip -q -o cassandra-all-3.0.9-sources.jar $at/io/util/FileUtils.java $at/utils/concurrent/Locks.java \
            $at/utils/memory/SlabAllocator.java -d sources
        # Direct buffers are freed by Unsafe; monitors, which only writers of one partition enter, are left alone.
        python3 - "sources/$at" <<'P'
import sys, pathlib
def change(path, *pairs):
    path = pathlib.Path(sys.argv[1], path)
    text = path.read_text()
    for old, new in pairs:
        assert old in text, (path, old)
        text = text.replace(old, new)
    path.write_text(text)
FREE = """    private static void free(ByteBuffer buffer)
    {
        try
        {
            java.lang.reflect.Field field = sun.misc.Unsafe.class.getDeclaredField("theUnsafe");
            field.setAccessible(true);
            ((sun.misc.Unsafe) field.get(null)).invokeCleaner(buffer);
        }
        catch (ReflectiveOperationException e) { throw new RuntimeException(e); }
    }

"""
IS = "    public static boolean isCleanerAvailable()"
change("io/util/FileUtils.java", ("((DirectBuffer) buf).cleaner().clean();", "free(buf);"),
       ("db.cleaner() != null", "db.attachment() == null"), ("db.cleaner().clean();", "free(buffer);"), (IS, FREE + IS))
change("utils/memory/SlabAllocator.java", ("((DirectBuffer) region.data).cleaner().clean();",
       "org.apache.cassandra.io.util.FileUtils.clean(region.data);"))
change("utils/concurrent/Locks.java", ("unsafe.monitorEnter(object);", "{}"), ("unsafe.monitorExit(object);", "{}"))
P
        javac -nowarn -source 11 -target 11 --add-exports java.base/sun.nio.ch=ALL-UNNAMED -cp 'lib/*' -d patched.new \
            $(find sources -name '*.java') 2>/dev/null
        mv patched.new patched
    }
    cd - >/dev/null
}

up() { # NODE ADDRESS HEAP [FURTHER LINE OF CASSANDRA.YAML]
    local node=$work/$1 address=$2 heap=$3 open=() module package
    rm -rf "$node"
    mkdir -p "$node/conf" "$node/data" "$node/logs"
    # Cassandra sets a security manager of its own; from Java 12 on it has to be allowed to.
    "$java" -version 2>&1 | grep -q 'version "11' || open+=(-Djava.security.manager=allow)
    for module in java.base java.management java.rmi jdk.management jdk.unsupported; do
        for package in $("$java" --describe-module $module | awk '$1 == "qualified" { print $3 }
                $1 == "exports" || $1 == "contains" { print $2 }' | sort -u); do
            open+=("--add-opens=$module/$package=ALL-UNNAMED" "--add-exports=$module/$package=ALL-UNNAMED")
        done
    done
    cat > "$node/conf/cassandra.yaml" <<Y
cluster_name: peers
num_tokens: 16
partitioner: org.apache.cassandra.dht.Murmur3Partitioner
data_file_directories: [ $node/data/data ]
commitlog_directory: $node/data/commitlog
saved_caches_directory: $node/data/saved_caches
hints_directory: $node/data/hints
commitlog_sync: periodic
commitlog_sync_period_in_ms: 10000
seed_provider: [ { class_name: org.apache.cassandra.locator.SimpleSeedProvider, parameters: [ { seeds: 127.0.0.1 } ] } ]
listen_address: $address
rpc_address: $address
start_native_transport: true
endpoint_snitch: SimpleSnitch
disk_optimization_strategy: ssd
concurrent_reads: 16
concurrent_writes: 64
concurrent_compactors: 2
memtable_allocation_type: offheap_buffers
trickle_fsync: true
auto_snapshot: false
${4:-}
Y
    cat > "$node/conf/logback.xml" <<L
<configuration><appender name="F" class="ch.qos.logback.core.FileAppender"><file>$node/logs/system.log</file>
<encoder><pattern>%-5level [%thread] %date{ISO8601} %msg%n</pattern></encoder></appender>
<logger name="org.apache.cassandra.db.compaction" level="DEBUG"/><logger name="org.apache.cassandra.db.Memtable" level="DEBUG"/>
<root level="INFO"><appender-ref ref="F"/></root></configuration>
L
    # The collector's options are the report's.
    "$java" -javaagent:"$work"/lib/jamm-0.3.0.jar -XX:+UseG1GC -XX:MaxGCPauseMillis=500 -XX:G1RSetUpdatingPauseTimePercent=5 \
        -XX:InitiatingHeapOccupancyPercent=70 -XX:+AlwaysPreTouch -XX:+PerfDisableSharedMem -Xss256k -Xms"$heap" -Xmx"$heap" \
        -Xlog:gc*,gc+phases=debug:file="$node/logs/gc.log" "${open[@]}" -Djava.version=1.8.0_121 \
        -Dcassandra.config="file://$node/conf/cassandra.yaml" -Dlogback.configurationFile="$node/conf/logback.xml" \
        -Dcassandra.logdir="$node/logs" -Dcassandra.storagedir="$node/data" -Dcassandra-foreground=yes \
        -Dcassandra.native.epoll.enabled=false \
        -Dcassandra.ring_delay_ms=5000 -Dcassandra.skip_wait_for_gossip_to_settle=-1 \
        -cp "$node/conf:$work/patched:$work/lib/*" org.apache.cassandra.service.CassandraDaemon > "$node/logs/stdout.log" 2>&1 &
    echo $! > "$node/pid"
    started+=($!)
    for _ in $(seq 90); do
        (exec 3<>"/dev/tcp/$address/9042") 2>/dev/null && return
        kill -0 "$(cat "$node/pid")" 2>/dev/null || break
        sleep 1
    done
    echo "Cassandra did not come up on $address: see $node/logs" >&2
    exit 1
}

drive() { # ADDRESSES STRESS
    timeout "${3:-900}" "$loader" bench --node "$1" "$2 -mode native cql3"
}

case ${1:-} in
operations)
    prepare
    all=127.0.0.1,127.0.0.2,127.0.0.3
    for i in 1 2 3; do up "r$i" "127.0.0.$i" 1500M; done
    drive $all "write n=10000 cl=ALL -schema replication(factor=3) -pop seq=1..10000 -rate threads=64" >&2
    # Just-in-time compilation is through in the third round; in the fourth some node may compact.
    for round in 1 2 3; do
        first=$((round * operations))
        for what in "write n=$operations cl=QUORUM -pop seq=$first..$((first + operations - 1)) -rate threads=64" \
            "read n=$operations cl=QUORUM -pop dist=gaussian($first..$((first + operations - 1)),$((first + operations / 2)),5000) -rate threads=64"; do
            "$here/collections.py" operations "$operations" "$work"/r1 "$work"/r2 "$work"/r3 -- \
                "$loader" bench --node $all "$what -mode native cql3"
        done
    done ;;
snitch)
    prepare
    all=127.0.0.1,127.0.0.2,127.0.0.3
    group=/sys/fs/cgroup/cpu/orrery-snitch
    for round in 1 2; do
        for snitch in true false; do
            for i in 1 2 3; do up "r$i" "127.0.0.$i" 1500M "dynamic_snitch: $snitch"; done
            drive $all "write n=100000 cl=ALL -schema replication(factor=3) -pop seq=1..100000 -rate threads=64" >&2
            # Just-in-time compilation.
            drive $all "read n=$operations cl=QUORUM -pop dist=uniform(1..100000) -rate threads=64" >&2
            for i in 1 2 3; do
                mkdir -p "$group$i"
                echo 5000 > "$group$i/cpu.cfs_period_us"
                echo 2250 > "$group$i/cpu.cfs_quota_us"
                cat "$work/r$i/pid" > "$group$i/cgroup.procs"
            done
            echo "dynamic_snitch: $snitch"
            for threads in 60 300; do
                "$here/busy.py" 55 "${started[@]}" &
                drive $all "read duration=60s cl=QUORUM -pop dist=uniform(1..100000) -rate threads=$threads"
            done
            for pid in "${started[@]}"; do kill -9 "$pid" 2>/dev/null || true; done
            started=()
            sleep 2
            rmdir "$group"1 "$group"2 "$group"3
        done
    done ;;
collections)
    prepare
    up n1 127.0.0.1 3840M
    drive 127.0.0.1 "write duration=${2:-480}s cl=ONE -schema replication(factor=1) -pop seq=1..100000000 -rate threads=64 limit=10000/s" \
        $((${2:-480} + 120)) >&2
    "$here/collections.py" log "$work/n1" 10000 ;;
*) sed -n '2,/^set/p' "$0" | grep '^#'; exit 2 ;;
esac
