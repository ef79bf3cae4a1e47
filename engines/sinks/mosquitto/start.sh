#!/usr/bin/env bash
# start.sh [PORT=19450]: mosquitto on 127.0.0.1:PORT, WebSocket on PORT+1, user sluice with password MQTT_PASSWORD (default sluice).
. "$(dirname "$0")/../lib.sh"
port=${1:-19450}; n=mosquitto-$port; d=$RUN/$n; mkdir -p "$d"
mosquitto_passwd -b -c "$d/passwords" sluice "${MQTT_PASSWORD:-sluice}"
printf 'user root\npersistence true\npersistence_location %s/\nallow_anonymous false\npassword_file %s/passwords\nlistener %s 127.0.0.1\nlistener %s 127.0.0.1\nprotocol websockets\n' "$d" "$d" "$port" $((port+1)) > "$d/mosquitto.conf"
# SINK_TLS=DIR: TLS on PORT+3, for clients with a certificate of DIR/clients.crt; DIR has server.crt and server.key.
[ -z "${SINK_TLS:-}" ] || printf 'listener %s 127.0.0.1\ncafile %s/clients.crt\ncertfile %s/server.crt\nkeyfile %s/server.key\nrequire_certificate true\n' $((port+3)) "$SINK_TLS" "$SINK_TLS" "$SINK_TLS" >> "$d/mosquitto.conf"
daemon "$n" "$port" mosquitto -c "$d/mosquitto.conf"
