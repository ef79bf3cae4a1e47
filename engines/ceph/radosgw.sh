#!/usr/bin/env bash
# Starts a radosgw over a cluster that start.sh started, with one user. stop.sh stops it, too.
# usage: radosgw.sh <data directory of the cluster> <port> <access key> <secret key>
set -euo pipefail
directory=$(cd "$1" && pwd) port=$2 access_key=$3 secret_key=$4
conf=$directory/ceph.conf
export CEPH_CONF=$conf
if ! grep -q '^\[client.rgw.s3\]' "$conf"; then
  mkdir -p "$directory/rgw"
  cat >>"$conf" <<END
[client.rgw.s3]
rgw frontends = beast endpoint=127.0.0.1:$port
rgw data = $directory/rgw
log file = $directory/log/rgw.log
rgw rados pool pg num min = 4
rgw verify ssl = false
rgw run sync thread = false
END
  ceph auth get-or-create client.rgw.s3 mon 'allow rw' osd 'allow rwx' mgr 'allow r' >>"$directory/keyring"
fi
radosgw -c "$conf" -n client.rgw.s3
for _ in $(seq 300); do
  curl -fs -o /dev/null "http://127.0.0.1:$port/" && break
  sleep .2
done
radosgw-admin -n client.rgw.s3 user info --uid=test >/dev/null 2>&1 ||
  radosgw-admin -n client.rgw.s3 user create --uid=test --display-name=test --access-key="$access_key" \
    --secret-key="$secret_key" >/dev/null 2>"$directory/log/radosgw-admin.err"
