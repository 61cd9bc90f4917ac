#!/bin/bash
# Orrery's storage and RocksDB under the same workload, in turn, on one core; prints medians and ratios.
#
#     engine/storage/benches/peer.sh FOLDER [rounds=3] [cpu=1] [..]        see peers/src/main.rs
#     engine/storage/benches/peer.sh paced FOLDER rate=N [seconds=600]     latencies under open arrival
#
# Needs librocksdb-dev, libclang-dev and, for the device's own rate, fio; installs what is missing with apt-get.
# ROCKSDB_LIB_DIR names another build of the library.
set -euo pipefail
cd "$(dirname "$0")/peers"
if [ -z "${ROCKSDB_LIB_DIR:-}" ]; then
  for package in librocksdb-dev libclang-dev fio; do
    dpkg -s "$package" >/dev/null 2>&1 || apt-get install -y "$package"
  done
  ROCKSDB_LIB_DIR=/usr/lib/$(uname -m)-linux-gnu
  export ROCKSDB_LIB_DIR ROCKSDB_INCLUDE_DIR=/usr/include LZ4_LIB_DIR=$ROCKSDB_LIB_DIR
fi
cargo build --release --quiet
peers=${CARGO_TARGET_DIR:-target}/release/storage-peers
if [ "${1:-}" = paced ]; then
  folder=$2; shift 2
  for side in orrery rocksdb; do
    mkdir -p "$folder/paced-$side"
    echo "$side:"; taskset -c 1 "$peers" "paced-$side" "$folder/paced-$side" "$@"
    rm -rf "$folder/paced-$side"
  done
else
  "$peers" compare "$@"
fi
