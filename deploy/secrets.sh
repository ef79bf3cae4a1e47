#!/usr/bin/env bash
# Makes the secrets that the compose files name, where they are missing: a root key pair and the master key.
# --kubernetes prints them as the Secret that deploy/kubernetes names: ./secrets.sh --kubernetes | kubectl apply -f -
set -euo pipefail
cd "$(dirname "$0")"
mkdir -p secrets
chmod 700 secrets
if [ ! -e secrets/credentials.json ]; then
  access=$(openssl rand -hex 10 | tr a-f A-F) secret=$(openssl rand -base64 30)
  printf '[{"accessKey":"%s","secretKey":"%s","owner":"root","root":true,"operator":true}]\n' "$access" "$secret" >secrets/credentials.json
fi
[ -e secrets/master.key ] || openssl rand -base64 32 >secrets/master.key
# The gateway runs as user 1000 of its container.
chmod 640 secrets/credentials.json secrets/master.key
if [ "${1:-}" = --kubernetes ]; then
  printf 'apiVersion: v1\nkind: Secret\nmetadata: { name: sluice }\ntype: Opaque\ndata:\n'
  for name in credentials.json master.key; do printf '  %s: %s\n' "$name" "$(base64 <"secrets/$name" | tr -d '\n')"; done
else
  chown :1000 secrets/credentials.json secrets/master.key 2>/dev/null || echo "as root: chown :1000 deploy/secrets/*" >&2
fi
