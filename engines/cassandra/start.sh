#!/usr/bin/env bash
# Starts one node of Cassandra in the foreground until it is ended.
# usage: start.sh <jars> <data directory> [option value]...
#   --address 127.0.0.1  --native 9042  --storage 7000  --jmx 7199  --heap 512m
#   --seeds "127.0.0.1:7000,127.0.0.2:7000"   --dc dc1   --rack rack1   --token <initial token>
#   --set "authenticator: PasswordAuthenticator"   a line of cassandra.yaml, which replaces the one of that name
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
[ $# -ge 2 ] || { echo "start.sh: usage: start.sh <jars> <data directory> [option value]..." >&2; exit 2; }
[ -d "$1/lib" ] || { echo "start.sh: there are no jars in $1; install.sh $1 brings them" >&2; exit 2; }
mkdir -p "$2/conf"
# Relative paths are the caller's.
jars=$(cd "$1" && pwd) data=$(cd "$2" && pwd)
shift 2
address=127.0.0.1 native=9042 storage=7000 jmx=7199 heap=512m seeds= dc=dc1 rack=rack1
lines=()
while [ $# -gt 0 ]; do
  case $1 in
    --address) address=$2 ;;
    --native) native=$2 ;;
    --storage) storage=$2 ;;
    --jmx) jmx=$2 ;;
    --heap) heap=$2 ;;
    --seeds) seeds=$2 ;;
    --dc) dc=$2 ;;
    --rack) rack=$2 ;;
    # Nodes of a ring that is new have nothing to stream to each other.
    --token) lines+=("initial_token: $2" "auto_bootstrap: false") ;;
    --set) lines+=("$2") ;;
    *) echo "start.sh: unknown option $1" >&2; exit 2 ;;
  esac
  shift 2
done
java=$(ls -d /usr/lib/jvm/java-17-*/bin/java 2>/dev/null | head -1)
if [ -f "$data/pid" ] && grep -qa "$data" "/proc/$(cat "$data/pid")/cmdline" 2>/dev/null; then
  echo "start.sh: process $(cat "$data/pid") runs on $data; stop.sh $data stops it" >&2
  exit 1
fi
sed "s#@IP@#$address#g;s#@DATA@#$data#g;s#@NATIVE@#$native#;s#@STORAGE@#$storage#;s#@SEEDS@#${seeds:-$address:$storage}#" \
  "$here/conf/cassandra.yaml.tpl" >"$data/conf/cassandra.yaml"
for line in ${lines[@]+"${lines[@]}"}; do
  sed -i "/^${line%%:*}:/d" "$data/conf/cassandra.yaml"
  printf '%s\n' "$line" >>"$data/conf/cassandra.yaml"
done
printf 'dc=%s\nrack=%s\n' "$dc" "$rack" >"$data/conf/cassandra-rackdc.properties"
cp "$here/conf/logback.xml" "$data/conf/"
# The process stays this one: stop.sh finds it by this file.
echo $$ >"$data/pid"
exec "${java:-java}" @"$here/conf/jvm17.args" -Xms"$heap" -Xmx"$heap" -XX:MaxDirectMemorySize=256m -XX:TieredStopAtLevel=1 \
  -XX:+ExitOnOutOfMemoryError \
  -javaagent:"$(echo "$jars"/lib/jamm-*.jar)" -cp "$data/conf:$jars/lib/*" \
  -Dcassandra.config="file://$data/conf/cassandra.yaml" -Dcassandra.storagedir="$data" -Dcassandra.logdir="$data" \
  -Dlogback.configurationFile="$data/conf/logback.xml" -Dcassandra.jmx.local.port="$jmx" \
  -Dcassandra.skip_wait_for_gossip_to_settle=0 -Dcassandra.ring_delay_ms=1000 -Dcassandra.superuser_setup_delay_ms=0 \
  org.apache.cassandra.service.CassandraDaemon
