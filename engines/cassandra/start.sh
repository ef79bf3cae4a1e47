#!/usr/bin/env bash
# Starts one node of Cassandra in the foreground until it is ended.
# usage: start.sh <jars> <data directory> [option value]...
#   --address 127.0.0.1  --native 9042  --storage 7000  --jmx 7199  --heap 512m
#   --seeds "127.0.0.1:7000,127.0.0.2:7000"   --rack rack1   --token <initial token>
#   --set "authenticator: PasswordAuthenticator"   a line of cassandra.yaml, which replaces the one of that name
set -euo pipefail
cd "$(dirname "$0")"
jars=$1 data=$2
shift 2
address=127.0.0.1 native=9042 storage=7000 jmx=7199 heap=512m seeds= rack=rack1
lines=()
while [ $# -gt 0 ]; do
  case $1 in
    --address) address=$2 ;;
    --native) native=$2 ;;
    --storage) storage=$2 ;;
    --jmx) jmx=$2 ;;
    --heap) heap=$2 ;;
    --seeds) seeds=$2 ;;
    --rack) rack=$2 ;;
    # Nodes of a ring that is new have nothing to stream to each other.
    --token) lines+=("initial_token: $2" "auto_bootstrap: false") ;;
    --set) lines+=("$2") ;;
    *) echo "start.sh: unknown option $1" >&2; exit 2 ;;
  esac
  shift 2
done
java=$(ls -d /usr/lib/jvm/java-17-*/bin/java 2>/dev/null | head -1)
mkdir -p "$data/conf"
sed "s#@IP@#$address#g;s#@DATA@#$data#g;s#@NATIVE@#$native#;s#@STORAGE@#$storage#;s#@SEEDS@#${seeds:-$address:$storage}#" \
  conf/cassandra.yaml.tpl >"$data/conf/cassandra.yaml"
for line in ${lines[@]+"${lines[@]}"}; do
  sed -i "/^${line%%:*}:/d" "$data/conf/cassandra.yaml"
  printf '%s\n' "$line" >>"$data/conf/cassandra.yaml"
done
printf 'dc=dc1\nrack=%s\n' "$rack" >"$data/conf/cassandra-rackdc.properties"
cp conf/logback.xml "$data/conf/"
exec "${java:-java}" @conf/jvm17.args -Xms"$heap" -Xmx"$heap" -XX:MaxDirectMemorySize=256m -XX:TieredStopAtLevel=1 \
  -XX:+ExitOnOutOfMemoryError \
  -javaagent:"$(echo "$jars"/lib/jamm-*.jar)" -cp "$data/conf:$jars/lib/*" \
  -Dcassandra.config="file://$data/conf/cassandra.yaml" -Dcassandra.storagedir="$data" -Dcassandra.logdir="$data" \
  -Dlogback.configurationFile="$data/conf/logback.xml" -Dcassandra.jmx.local.port="$jmx" \
  -Dcassandra.skip_wait_for_gossip_to_settle=0 -Dcassandra.ring_delay_ms=1000 -Dcassandra.superuser_setup_delay_ms=0 \
  org.apache.cassandra.service.CassandraDaemon
