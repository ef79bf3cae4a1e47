#!/usr/bin/env bash
# Builds the Debian package from the tarball of `npm pack` and package-lock.json: build.sh TARBALL [DIRECTORY of the package]. Prints the path of the package.
# Needs npm and dpkg-deb. DEBFULLNAME and DEBEMAIL name the maintainer, as for other Debian tools.
set -euo pipefail
tarball=$(realpath "$1") to=$(realpath "${2:-.}")
here=$(cd "$(dirname "$0")" && pwd)
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
umask 022
# The date that npm gives to every file of a tarball: the same tarball makes the same package.
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-499162500}

root=$stage/root library=$stage/root/usr/lib/sluice
install -d "$library" "$root/DEBIAN" "$root/usr/bin" "$root/usr/share/doc/sluice" "$root/usr/share/lintian/overrides"
tar -xzf "$tarball" -C "$library" --strip-components=1 --no-same-owner
cp "$here/../../package-lock.json" "$library"
node "$here/../with-engines.mjs" "$library"
(cd "$library" && npm ci --omit=dev --ignore-scripts --prefer-offline --no-audit --no-fund --loglevel=error >&2)
# Node resolves modules without them.
rm -rf "$library/package-lock.json" "$library/node_modules/.package-lock.json"
find "$library" -type d -name .bin -prune -exec rm -rf {} +
find "$library" -type d -exec chmod 0755 {} +
find "$library" -type f -exec chmod 0644 {} +
chmod 0755 "$library/dist/runtime/cli.js"
ln -s ../lib/sluice/dist/runtime/cli.js "$root/usr/bin/sluice"

install -D -m 0644 "$here/../systemd/sluice.service" "$root/lib/systemd/system/sluice.service"
install -D -m 0644 "$here/../systemd/sluice.env" "$root/etc/sluice/sluice.env"
install -m 0644 "$here/copyright" "$root/usr/share/doc/sluice/copyright"
install -m 0644 "$here/README.Debian" "$root/usr/share/doc/sluice/README.Debian"
install -m 0644 "$here/lintian-overrides" "$root/usr/share/lintian/overrides/sluice"
ln -s ../../../lib/sluice/README.md "$root/usr/share/doc/sluice/README.md"
ln -s ../../../lib/sluice/docs "$root/usr/share/doc/sluice/docs"

field() { node -p "JSON.parse(require('node:fs').readFileSync('$library/package.json', 'utf8'))$1"; }
version=$(field .version) node=$(field '.engines.node.replace(/^>=/, "")')
maintainer="${DEBFULLNAME:-sluice} <${DEBEMAIL:-root@localhost}>"
{
  echo "sluice ($version) unstable; urgency=medium"
  printf '\n  * Built from the tarball of npm pack.\n\n'
  echo " -- $maintainer  $(date -uRd "@$SOURCE_DATE_EPOCH")"
} | gzip -9n >"$root/usr/share/doc/sluice/changelog.gz"

cat >"$root/DEBIAN/control" <<CONTROL
Package: sluice
Version: $version
Architecture: $(dpkg --print-architecture)
Maintainer: $maintainer
Installed-Size: $(du -sk --apparent-size "$root" | cut -f1)
Depends: nodejs (>= $node), adduser, debconf (>= 0.5) | debconf-2.0, libc6, libstdc++6
Recommends: ca-certificates
Suggests: librados2
Section: net
Priority: optional
Description: object-storage gateway with the S3 protocol
 Buckets, versions, IAM, replication, events and quotas over embedded files,
 Cassandra, TiKV, Ceph or another S3 service. The service listens on
 127.0.0.1:9000 and keeps its data in /var/lib/sluice until
 /etc/sluice/sluice.env says otherwise.
CONTROL
echo /etc/sluice/sluice.env >"$root/DEBIAN/conffiles"
install -m 0644 "$here/templates" "$root/DEBIAN/templates"
for script in postinst prerm postrm; do install -m 0755 "$here/$script" "$root/DEBIAN/$script"; done
(cd "$root" && find etc usr lib -type f ! -path etc/sluice/sluice.env -print0 | sort -z | xargs -0 md5sum >DEBIAN/md5sums)

deb=$to/sluice_${version}_$(dpkg --print-architecture).deb
dpkg-deb --root-owner-group -Zgzip --build "$root" "$deb" >&2
echo "$deb"
