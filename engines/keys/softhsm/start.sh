#!/usr/bin/env bash
# start.sh [NAME=softhsm]: a token "sluice", PIN 1234 (SO PIN 5678), in a folder of its own; prints what the client needs. No process runs.
. "$(dirname "$0")/../../sinks/lib.sh"
d=$RUN/${1:-softhsm}; mkdir -p "$d/tokens"
printf 'directories.tokendir = %s/tokens\nobjectstore.backend = file\nlog.level = ERROR\nslots.removable = false\n' "$d" > "$d/softhsm2.conf"
export SOFTHSM2_CONF=$d/softhsm2.conf
softhsm2-util --show-slots | grep -q 'Label: *sluice' || softhsm2-util --init-token --free --label sluice --pin "${PIN:-1234}" --so-pin 5678 >/dev/null
echo "SOFTHSM2_CONF=$d/softhsm2.conf"
echo "PKCS11_MODULE=$(ls /usr/lib/softhsm/libsofthsm2.so /usr/lib/*/softhsm/libsofthsm2.so 2>/dev/null | head -1)"
