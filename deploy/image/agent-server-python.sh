#!/bin/sh
# OpenHands V1 starts its agent server by this interpreter: `python -m openhands.agent_server ARGUMENTS`.
if [ "${1:-}" = -m ] && [ "${2:-}" = openhands.agent_server ]; then
  shift 2
  exec /usr/local/bin/openhands-agent-server "$@"
fi
exec python3 "$@"
