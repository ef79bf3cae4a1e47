#!/usr/bin/env bash
# Starts a Ceph cluster of one monitor, one manager and one OSD, or several, on loopback, cephx on, and waits until it takes writes.
# Where it was started before, it starts what does not run. usage: start.sh <data directory> <port> [pools, `sluice` unless given] [OSDs]
# Uses <port> and <port>+1 (monitor) and <port>+10 to <port>+60; writes <data directory>/ceph.conf and keyring, with the
# users client.admin and, with the least capabilities that a gateway needs, client.sluice.
set -euo pipefail
directory=$1 port=$2 pools=${3:-sluice} osds=${4:-1}
mkdir -p "$directory"
directory=$(cd "$directory" && pwd)
conf=$directory/ceph.conf
export CEPH_CONF=$conf CEPH_ARGS=

is_new=0
[ -e "$directory/ready" ] || is_new=1

write_conf() {
  sed "s#@DIR@#$directory#g;s#@PORT@#$port#g;s#@PORT1@#$((port + 1))#g;s#@LOW@#$((port + 10))#g;s#@HIGH@#$((port + 60))#g;s#@FSID@#$1#g" \
    "$(dirname "$0")/ceph.conf.tpl" >"$conf"
}

add_key() { ceph-authtool "$directory/keyring" --gen-key -n "$@" >/dev/null; }

make_monitor() {
  local fsid id
  fsid=$(cat /proc/sys/kernel/random/uuid)
  mkdir -p "$directory"/{mon,mgr,run,log,crash}
  write_conf "$fsid"
  ceph-authtool --create-keyring "$directory/keyring" --gen-key -n mon. --cap mon 'allow *' >/dev/null
  chmod 600 "$directory/keyring"
  add_key client.admin --cap mon 'allow *' --cap osd 'allow *' --cap mgr 'allow *'
  add_key mgr.x --cap mon 'allow profile mgr' --cap osd 'allow *'
  for ((id = 0; id < osds; id++)); do
    add_key "osd.$id" --cap mon 'allow profile osd' --cap mgr 'allow profile osd' --cap osd 'allow *'
  done
  add_key client.sluice --cap mon 'allow r' --cap mgr 'allow r' --cap osd 'allow rw'
  monmaptool --create --clobber --fsid "$fsid" --addv a "[v2:127.0.0.1:$port,v1:127.0.0.1:$((port + 1))]" "$directory/monmap" >/dev/null
  ceph-mon -c "$conf" -i a --mkfs --monmap "$directory/monmap" --keyring "$directory/keyring"
}

make_osd() {
  local id=$1 uuid
  uuid=$(cat /proc/sys/kernel/random/uuid)
  mkdir "$directory/osd.$id"
  ceph osd new "$uuid" "$id" >/dev/null
  ceph-osd -c "$conf" -i "$id" --mkfs --osd-uuid "$uuid" >/dev/null 2>"$directory/log/mkfs.$id.err"
}

runs() { [ -e "$directory/run/$1.pid" ] && grep -qa "$conf" "/proc/$(cat "$directory/run/$1.pid")/cmdline" 2>/dev/null; }

# A placement group that is clean moves once more when the next OSD comes.
await_osds() {
  local data=("$directory"/osd.*)
  for _ in $(seq 240); do
    said=$(timeout 20 ceph osd stat 2>/dev/null || true)
    [[ $said = "${#data[@]} osds: ${#data[@]} up"* ]] && return
    sleep .25
  done
  echo "not all OSDs of the cluster in $directory are up: $said" >&2
  return 1
}

# Health is OK before a manager is active and placement groups are known: they are what is waited for.
await_clean() {
  for _ in $(seq 240); do
    said=$(timeout 20 ceph pg stat 2>/dev/null || true)
    [[ $said =~ ^([0-9]+)\ pgs:\ ([0-9]+)\ active\+clean\; && ${BASH_REMATCH[1]} = "${BASH_REMATCH[2]}" ]] && return
    sleep .25
  done
  echo "the cluster in $directory is not clean: $said" >&2
  return 1
}

[ $is_new = 0 ] || make_monitor
runs mon.a || ceph-mon -c "$conf" -i a
if [ $is_new = 1 ]; then
  ceph config set --force mgr mgr/devicehealth/enable_monitoring false
  for ((id = 0; id < osds; id++)); do make_osd "$id"; done
fi
runs mgr.x || ceph-mgr -c "$conf" -i x
for data in "$directory"/osd.*; do
  id=${data##*.}
  runs "osd.$id" || ceph-osd -c "$conf" -i "$id" >/dev/null 2>"$directory/log/osd.$id.err"
done
await_osds
if [ $is_new = 1 ]; then
  for pool in $pools; do
    ceph osd pool create "$pool" 8 >/dev/null 2>&1
    ceph osd pool application enable "$pool" sluice >/dev/null 2>&1
  done
fi
await_clean
touch "$directory/ready"
