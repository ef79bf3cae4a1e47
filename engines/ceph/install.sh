#!/usr/bin/env bash
# Brings Ceph from Debian's own packages: monitor, manager, OSD, librados and radosgw. Needs root, or sudo.
set -euo pipefail
packages=(ceph-mon ceph-osd ceph-mgr ceph-common librados2 radosgw)
# `dpkg -s` succeeds for packages that were removed and left their configuration, too.
installed() {
  local states
  states=$(dpkg-query -W -f '${db:Status-Status}\n' "${packages[@]}" 2>/dev/null) && ! grep -qvx installed <<<"$states"
}
installed && exit 0
sudo=
[ "$(id -u)" = 0 ] || sudo=sudo
$sudo apt-get update -qq
$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null
