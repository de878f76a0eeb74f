#!/bin/sh
# Runs a program in a directory that holds another system, with /proc, /dev and a /tmp in it, as root. The mounts are its own.
#
#   sh scripts/one-file/in-chroot.sh [--pid1] [--tmp DIR] ROOT PROGRAM [ARGUMENT...]
#
# --pid1: in a PID namespace too, where PROGRAM is PID 1. --tmp DIR: what is /tmp there, else the /tmp of here.

set -eu
tmp=/tmp
pid1=
inside=
while :; do
  case ${1:-} in
    --pid1) pid1=1 && shift ;;
    --tmp) tmp=$2 && shift 2 ;;
    --inside) inside=1 && shift ;;
    *) break ;;
  esac
done

if [ -z "$inside" ]; then
  # shellcheck disable=SC2086
  exec unshare --mount --propagation private ${pid1:+--pid --fork --kill-child} sh "$0" --inside --tmp "$tmp" "$@"
fi

root=$1
shift
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount --bind "$tmp" "$root/tmp"
exec chroot "$root" "$@"
