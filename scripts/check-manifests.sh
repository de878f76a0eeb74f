#!/bin/sh
# Checks deploy/kubernetes with a schema checker that has the schemas in its package; it needs no cluster and no network once installed.
#
#   sh scripts/check-manifests.sh [FILE...]

set -eu
cd "$(dirname "$0")/.."

venv=.cache/manifests
package=kubernetes-validate==1.37.0

if ! "$venv/bin/python" -c 'import kubernetes_validate' 2>/dev/null; then
  python3 -m venv --clear "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check "$package"
fi
[ $# -gt 0 ] || set -- $(find deploy/kubernetes -name '*.yaml' | sort)
exec "$venv/bin/python" scripts/check-manifests.py "$@"
