#!/usr/bin/env bash
# Starts an engine in the foreground until it is ended; stop.sh ends it from elsewhere.
# usage: start.sh uni <data directory> <pd port> <peer port> <store port>
#        start.sh double <directory> <pd ports, separated by commas> <store ports> [-cert F -key F -ca F]
# The double keeps nothing on disk: its directory holds only the process id. TIKV_ENGINES names where install.sh built.
set -euo pipefail
engines=${TIKV_ENGINES:-$(dirname "$0")/../../.cache/engines}
[ $# -ge 4 ] || { echo "start.sh: usage: start.sh uni <data directory> <pd port> <peer port> <store port>, or double (see this file)" >&2; exit 2; }
kind=$1 data=$2
shift 2
case $kind in uni) program=unipd ;; *) program=tikv-double ;; esac
[ -x "$engines/$program" ] || { echo "start.sh: there is no $program in $engines; install.sh builds it" >&2; exit 2; }
mkdir -p "$data"
echo $$ >"$data/pid"
at() { sed 's/\([0-9][0-9]*\)/127.0.0.1:\1/g' <<<"$1"; }
case $kind in
uni) exec "$engines/unipd" -data "$data" -pd "$(at "$1")" -peer "$(at "$2")" -store "$(at "$3")" ;;
double) exec "$engines/tikv-double" -pd "$(at "$1")" -stores "$(at "$2")" "${@:3}" ;;
*) echo "no engine is called $kind" >&2 && exit 2 ;;
esac
