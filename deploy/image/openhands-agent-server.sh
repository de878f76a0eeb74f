#!/bin/sh
# OpenHands V1's command line of its agent server, in the words of this daemon: --host ADDRESS, --port N.
# Without --host it listens on every address, as that server does. Keys come from V1's variables too.

host=0.0.0.0
port=${PORT:-8000}
while [ $# -gt 0 ]; do
  case $1 in
    --host) host=${2:?--host wants an address} && shift 2 ;;
    --host=*) host=${1#*=} && shift ;;
    --port) port=${2:?--port wants a number} && shift 2 ;;
    --port=*) port=${1#*=} && shift ;;
    --reload) shift ;;
    *) break ;;
  esac
done

keys=${ACTIOND_API_KEYS:-}
index=0
while eval "key=\${OH_SESSION_API_KEYS_$index:-}" && [ -n "$key" ]; do
  keys="$keys${keys:+,}$key"
  index=$((index + 1))
done
[ -z "$keys" ] || export ACTIOND_API_KEYS="$keys"
# For the health check.
export port
exec /usr/local/bin/actiond "$port" --host "$host" --working-dir "${OH_WORKING_DIR:-/workspace/project}" "$@"
