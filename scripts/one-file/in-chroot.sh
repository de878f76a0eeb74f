#!/bin/sh
# Runs a program in a directory that holds another system, with /proc, /dev and the host's /tmp in it, as root. The mounts are its own.
#
#   sh scripts/one-file/in-chroot.sh [--pid1] ROOT PROGRAM [ARGUMENT...]
#
# --pid1: in a PID namespace too, where PROGRAM is PID 1.

set -eu
if [ "${1:-}" = --pid1 ]; then
  shift
  exec unshare --mount --propagation private --pid --fork --kill-child sh "$0" --inside "$@"
elif [ "${1:-}" != --inside ]; then
  exec unshare --mount --propagation private sh "$0" --inside "$@"
fi

root=$2
shift 2
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount --bind /tmp "$root/tmp"
exec chroot "$root" "$@"
