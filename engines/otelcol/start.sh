#!/usr/bin/env bash
# start.sh [PORT=19471]: OTLP/HTTP on 127.0.0.1:PORT, OTLP/gRPC on PORT+1; every batch is a JSON line in $RUN/otelcol-PORT/{traces,metrics,logs}.jsonl.
# FORWARD=http://host:port also sends traces on by OTLP/HTTP (Jaeger).
. "$(dirname "$0")/../sinks/lib.sh"
port=${1:-19471}; n=otelcol-$port; d=$RUN/$n; mkdir -p "$d"
fwd=; exp=; [ -z "${FORWARD:-}" ] || { fwd=', otlphttp'; exp="  otlphttp: { endpoint: \"$FORWARD\" }"; }
cat > "$d/config.yaml" <<C
receivers: { otlp: { protocols: { http: { endpoint: "127.0.0.1:$port" }, grpc: { endpoint: "127.0.0.1:$((port+1))" } } } }
exporters:
$(for s in traces metrics logs; do echo "  file/$s: { path: \"$d/$s.jsonl\", flush_interval: 200ms }"; done)
$exp
service:
  telemetry: { logs: { level: warn }, metrics: { level: none } }
  pipelines:
    traces: { receivers: [otlp], exporters: [file/traces$fwd] }
    metrics: { receivers: [otlp], exporters: [file/metrics] }
    logs: { receivers: [otlp], exporters: [file/logs] }
C
daemon "$n" "$port" "$ENGINES_HOME/bin/otelcol" --config "$d/config.yaml"
