#!/bin/sh
# Whether the daemon takes actions. OpenHands V0's clients choose the port and tell it in `port`.
exec curl -fsS -o /dev/null --max-time 4 "http://127.0.0.1:${port:-${ACTIOND_PORT:-8000}}/alive"
