#!/bin/sh
# Whether the daemon takes actions. It is asked where it really listens: clients of OpenHands choose the port, and not all tell it to the
# image. Only where that cannot be seen, the variables count.

# Lines of /proc/net/tcp and tcp6 hold the local address and port in hexadecimal, 0A for listening, and the socket's inode.
listening_addresses() {
  sockets=
  for pid in $(ls -l /proc/[0-9]*/exe 2>/dev/null | sed -n 's#.*/proc/\([0-9]*\)/exe -> .*/actiond$#\1#p'); do
    sockets="$sockets $(ls -l "/proc/$pid/fd" 2>/dev/null | sed -n 's/.*socket:\[\([0-9]*\)\]$/\1/p' | tr '\n' ' ')"
  done
  grep -hs ' 0A ' /proc/net/tcp /proc/net/tcp6 | while read -r _ local _ _ _ _ _ _ _ inode _; do
    case $sockets in *" $inode "*) address_of "${local%:*}" "${local#*:}" ;; esac
  done
}

# An IPv4 address is one little-endian number. What listens on IPv6 is reached by the loopback address: ours listens on all or on that.
address_of() { # ADDRESS PORT
  case $1 in
    00000000) host=127.0.0.1 ;;
    ????????)
      number=$((0x$1))
      host=$((number & 255)).$((number >> 8 & 255)).$((number >> 16 & 255)).$((number >> 24))
      ;;
    *) host='[::1]' ;;
  esac
  echo "$host:$((0x$2))"
}

addresses=$(listening_addresses)
for address in ${addresses:-127.0.0.1:${port:-${ACTIOND_PORT:-8000}}}; do
  # The file viewer listens, too, and has no such path.
  if curl -gfs -o /dev/null --max-time 4 "http://$address/alive"; then exit 0; fi
done
echo "no answer of 2xx to GET /alive at: ${addresses:-port ${port:-${ACTIOND_PORT:-8000}}}" | tr '\n' ' '
exit 1
