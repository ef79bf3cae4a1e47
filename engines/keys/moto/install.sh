#!/usr/bin/env bash
# moto's server: KMS, SQS, SNS, Lambda, EventBridge, S3 and more over AWS's own protocols, in memory, from PyPI.
. "$(dirname "$0")/../../sinks/lib.sh"
v=$ENGINES_HOME/py; want="moto[server]==${MOTO_VERSION:-5.2.5}"
[ -x "$v/bin/moto_server" ] && [ "$(cat "$v/.moto" 2>/dev/null)" = "$want" ] && exit 0
[ -x "$v/bin/pip" ] || python3 -m venv "$v"
nice -n 10 "$v/bin/pip" install -q "$want"; echo "$want" > "$v/.moto"
