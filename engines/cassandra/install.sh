#!/usr/bin/env bash
# Brings Cassandra's jars from Maven Central; needs Java 17 and Maven. usage: install.sh [target directory]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
target=${1:-$here/../../.cache/engines/cassandra}
[ -f "$target/stamp" ] && exit 0
mkdir -p "$target"
target=$(cd "$target" && pwd)
exec 9>"$target/lock"
flock 9
[ -f "$target/stamp" ] && exit 0
mvn -B -q -f "$here/server/pom.xml" org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies \
  -DincludeScope=runtime -DoutputDirectory="$target/lib"
touch "$target/stamp"
