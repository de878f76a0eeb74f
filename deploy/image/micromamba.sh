#!/bin/sh
# Stands where OpenHands V0's images have their package manager: `micromamba run -n openhands poetry run COMMAND`.
# The command that starts V0's server starts this daemon, with the arguments that follow; every other one runs as it is.

for word in "$@"; do
  if [ "$word" = openhands.runtime.action_execution_server ]; then
    # The daemon finds its own arguments behind this word.
    exec /usr/local/bin/actiond "$@"
  fi
done

[ "${1:-}" != run ] || shift
[ "${1:-}" != -n ] || shift 2
if [ "${1:-}" = poetry ] && [ "${2:-}" = run ]; then shift 2; fi
if [ $# -eq 0 ]; then
  echo 'micromamba: this image has no conda environments; give a command to run' >&2
  exit 2
fi
PATH="/opt/jupyter/bin:$PATH" exec "$@"
