#!/usr/bin/env bash
# Starts one node in the foreground until it is ended. usage: start.sh <jars> <data directory> <address> <native port> <storage port> <jmx port> [heap]
set -euo pipefail
cd "$(dirname "$0")"
jars=$1 data=$2 address=$3 native=$4 storage=$5 jmx=$6 heap=${7:-512m}
java=$(ls -d /usr/lib/jvm/java-17-*/bin/java 2>/dev/null | head -1)
mkdir -p "$data/conf"
sed "s#@IP@#$address#;s#@DATA@#$data#;s#@PAXOS@#v2#;s#^native_transport_port:.*#native_transport_port: $native#;s#^storage_port:.*#storage_port: $storage#;s#seeds: .*#seeds: \"$address:$storage\"#" \
  conf/cassandra.yaml.tpl >"$data/conf/cassandra.yaml"
sed -i "s#@IP@#$address#g;s#@DATA@#$data#g" "$data/conf/cassandra.yaml"
printf 'dc=dc1\nrack=rack1\n' >"$data/conf/cassandra-rackdc.properties"
cp conf/logback.xml "$data/conf/"
exec "${java:-java}" @conf/jvm17.args -Xms"$heap" -Xmx"$heap" -XX:MaxDirectMemorySize=256m -XX:TieredStopAtLevel=1 \
  -javaagent:"$(echo "$jars"/lib/jamm-*.jar)" -cp "$data/conf:$jars/lib/*" \
  -Dcassandra.config="file://$data/conf/cassandra.yaml" -Dcassandra.storagedir="$data" -Dcassandra.logdir="$data" \
  -Dlogback.configurationFile="$data/conf/logback.xml" -Dcassandra.jmx.local.port="$jmx" \
  -Dcassandra.skip_wait_for_gossip_to_settle=0 -Dcassandra.ring_delay_ms=1000 \
  org.apache.cassandra.service.CassandraDaemon
