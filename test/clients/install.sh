#!/usr/bin/env bash
# Installs the clients that this suite drives, at pinned versions, into .cache/clients; a second run does nothing.
# Each family has a stamp that holds its pins, so that a changed pin installs anew.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
home=$here/../../.cache/clients
mkdir -p "$home/bin"
home=$(cd "$home" && pwd)

# Two suites that start at once install once.
exec 9>"$home/lock"
flock 9

mc=v0.0.0-20250313080218-cf909e1063a9

fresh() { [ -f "$home/$1.stamp" ] && [ "$(cat "$home/$1.stamp")" = "$2" ]; }
stamp() { printf '%s' "$2" >"$home/$1.stamp"; }
apt_updated=
debian() {
  [ -n "$apt_updated" ] || apt-get update -qq
  apt_updated=1
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

# boto3 and the AWS CLI. A Python that cannot make a venv is Debian's without python3-venv.
pins=$(cat "$here/requirements.txt")
if ! fresh python "$pins" || [ ! -x "$home/python/bin/aws" ]; then
  rm -rf "$home/python"
  python3 -m venv "$home/python" 2>/dev/null || {
    debian python3-venv
    rm -rf "$home/python"
    python3 -m venv "$home/python"
  }
  "$home/python/bin/pip" install --quiet --disable-pip-version-check --requirement "$here/requirements.txt"
  stamp python "$pins"
fi

# s3cmd 2.3 and rclone 1.60 on Debian 12: the release pins them.
if ! command -v s3cmd >/dev/null || ! command -v rclone >/dev/null; then
  debian s3cmd rclone
fi

# The proxy lists no versions of s5cmd, which `go install …@version` asks for; a module that requires it builds.
pins=$(cat "$here/s5cmd/go.mod")
if ! fresh s5cmd "$pins" || [ ! -x "$home/bin/s5cmd" ]; then
  (cd "$here/s5cmd" && go build -mod=readonly -buildvcs=false -o "$home/bin/s5cmd" github.com/peak/s5cmd/v2)
  stamp s5cmd "$pins"
fi

if ! fresh mc "$mc" || [ ! -x "$home/bin/mc" ]; then
  GOBIN=$home/bin go install "github.com/minio/mc@$mc"
  stamp mc "$mc"
fi
