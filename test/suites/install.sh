#!/usr/bin/env bash
# Builds the test suites of S3 clients, at pinned versions, into .cache/suites; a second run does nothing.
# Needs Go, Python 3, Java 17 with javac, and Maven. Each suite has a stamp that holds its pins, so that a changed pin builds anew.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
home=$here/../../.cache/suites
mkdir -p "$home"
home=$(cd "$home" && pwd)

# Two test files that start at once install once.
exec 9>"$home/lock"
flock 9

fresh() { [ -f "$home/$1.stamp" ] && [ "$(cat "$home/$1.stamp")" = "$2" ]; }
stamp() { printf '%s' "$2" >"$home/$1.stamp"; }
debian() {
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

# The packages' own tests become programs. They look for files of their source tree, which is linked beside them.
go_suite() {
  local name=$1 package=$2 module=$3 pins
  pins=$(cat "$here/go/go.mod" "$here/go/go.sum" | sha256sum)
  if fresh "$name" "$pins" && [ -x "$home/$name.test" ]; then return; fi
  (
    cd "$here/go"
    go test -mod=readonly -buildvcs=false -c -o "$home/$name.test" "$package"
    ln -sfn "$(go list -mod=readonly -m -f '{{.Dir}}' "$module")" "$home/$name-source"
  )
  stamp "$name" "$pins"
}
go_suite rclone github.com/rclone/rclone/backend/s3 github.com/rclone/rclone
go_suite restic github.com/restic/restic/internal/backend/s3 github.com/restic/restic

# Hadoop publishes the tests of S3A as sources: what its contract tests need of them is compiled here.
pins=$(cat "$here/s3a/pom.xml")
if ! fresh s3a "$pins"; then
  if ! command -v mvn >/dev/null || ! command -v javac >/dev/null; then debian openjdk-17-jdk-headless maven; fi
  rm -rf "$home/s3a"
  mkdir -p "$home/s3a/classes"
  # Maven keeps its state beside the pom.
  cp "$here/s3a/pom.xml" "$home/s3a/pom.xml"
  copy=org.apache.maven.plugins:maven-dependency-plugin:3.6.1
  mvn -B -q -f "$home/s3a/pom.xml" $copy:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$home/s3a/lib"
  mvn -B -q -f "$home/s3a/pom.xml" $copy:unpack -DoutputDirectory="$home/s3a/sources" \
    -Dartifact=org.apache.hadoop:hadoop-aws:3.4.2:jar:test-sources
  # DistCp and the analytics reader need further modules of Hadoop, and add nothing that reaches an S3 server.
  find "$home/s3a/sources/org/apache/hadoop/fs/contract/s3a" -name '*.java' ! -name '*DistCp*' ! -name '*Analytics*' \
    >"$home/s3a/sources.txt"
  javac -nowarn -proc:none -implicit:class -encoding UTF-8 -d "$home/s3a/classes" -cp "$home/s3a/lib/*" \
    -sourcepath "$home/s3a/sources" @"$home/s3a/sources.txt" 2>"$home/s3a/javac.log" || {
    cat "$home/s3a/javac.log"
    exit 1
  }
  stamp s3a "$pins"
fi

# The tests of s3fs are in its source package alone.
pins=$(cat "$here/s3fs/requirements.txt")
if ! fresh s3fs "$pins"; then
  rm -rf "$home/s3fs"
  python3 -m venv "$home/s3fs/python" 2>/dev/null || {
    debian python3-venv
    rm -rf "$home/s3fs"
    python3 -m venv "$home/s3fs/python"
  }
  pip="$home/s3fs/python/bin/pip --quiet --disable-pip-version-check"
  $pip install --requirement "$here/s3fs/requirements.txt"
  $pip download --no-deps --no-binary s3fs --dest "$home/s3fs/package" "$(grep '^s3fs==' "$here/s3fs/requirements.txt")"
  mkdir "$home/s3fs/sources"
  tar -xzf "$home"/s3fs/package/*.tar.gz -C "$home/s3fs/sources" --strip-components=1
  stamp s3fs "$pins"
fi
