#!/bin/bash
# Builds the images of the Dockerfile and runs them: everything that is said of them is checked here.
#
#   bash scripts/image-test.sh [--keep]
#
# Needs root and Debian's packages docker.io and debootstrap (installed when apt can). Uses the Docker engine that answers, else starts
# one of its own with the host's network. The base image is made here by debootstrap; nothing comes from an image registry.
# Last line: N passed, N failed, N skipped. Everything counts as skipped only where no engine can run.

set -u
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

work=${ACTIOND_IMAGE_WORK:-.cache/image-test}
mkdir -p "$work" && work=$(cd "$work" && pwd) || exit 1
checks=scripts/image-test/checks.mjs
started_engine=

say() { printf 'image-test: %s\n' "$*" >&2; }

skip_all() {
  say "skipped: $*"
  node "$checks" --skip-all "$*"
  exit 0
}

# ---------------------------------------------------------------- the engine

provide_packages() {
  local missing=
  command -v dockerd >/dev/null || missing+=' docker.io'
  command -v debootstrap >/dev/null || missing+=' debootstrap'
  [ -n "$missing" ] || return 0
  # shellcheck disable=SC2086
  { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing; } \
    >"$work/apt.log" 2>&1
}

engine_answers() { docker version >/dev/null 2>&1; }

start_engine() {
  local socket=$work/docker.sock
  export DOCKER_HOST=unix://$socket
  engine_answers && return 0
  # No bridge and no packet filter: containers use the host's network.
  dockerd --host "$DOCKER_HOST" --data-root "$work/docker" --exec-root "$work/exec" --pidfile "$work/docker.pid" \
    --iptables=false --ip6tables=false --bridge=none >"$work/dockerd.log" 2>&1 &
  started_engine=$!
  for _ in $(seq 150); do
    engine_answers && return 0
    kill -0 "$started_engine" 2>/dev/null || break
    sleep 0.2
  done
  return 1
}

stop_engine() {
  [ -n "$started_engine" ] || return 0
  kill "$started_engine" 2>/dev/null
  wait "$started_engine" 2>/dev/null
}
trap stop_engine EXIT

# The first client on the PATH that builds with BuildKit, which the Dockerfile needs: newer ones cannot without their buildx plugin.
choose_client() {
  local client context=$work/probe
  mkdir -p "$context" "$work/bin" && printf 'FROM scratch\nLABEL probe=1\n' >"$context/Dockerfile" || return 1
  for client in $(type -ap docker); do
    if DOCKER_BUILDKIT=1 "$client" build --quiet "$context" >"$work/client.log" 2>&1; then
      ln -sfn "$client" "$work/bin/docker"
      export PATH=$work/bin:$PATH
      return 0
    fi
  done
  return 1
}

# ---------------------------------------------------------------- the base image

# A Debian slim with Node, made of what this machine has: `node` and `npm` are copied, certificates too.
make_base() {
  local rootfs=$work/rootfs
  docker image inspect actiond-test/base >/dev/null 2>&1 && return 0
  rm -rf "$rootfs"
  say 'making the base image ...'
  debootstrap --variant=minbase --include=ca-certificates,libstdc++6 bookworm "$rootfs" >"$work/debootstrap.log" 2>&1 || return 1
  rm -rf "$rootfs"/var/cache/apt/archives/*.deb "$rootfs"/var/lib/apt/lists/*
  # What the slim images of Debian leave out.
  rm -rf "$rootfs"/usr/share/{doc,info,locale,man}/*
  printf 'path-exclude /usr/share/%s/*\n' doc info locale man >"$rootfs/etc/dpkg/dpkg.cfg.d/docker"
  local npm
  npm=$(npm root -g)/npm
  mkdir -p "$rootfs/usr/local/lib/node_modules" "$rootfs/usr/local/include"
  cp "$(node -p process.execPath)" "$rootfs/usr/local/bin/node"
  cp -r "$npm" "$rootfs/usr/local/lib/node_modules/npm"
  ln -s ../lib/node_modules/npm/bin/npm-cli.js "$rootfs/usr/local/bin/npm"
  local headers
  headers=$(node -p 'require("node:path").resolve(process.execPath, "../../include/node")')
  [ ! -d "$headers" ] || cp -r "$headers" "$rootfs/usr/local/include/node"
  cp -L /etc/ssl/certs/ca-certificates.crt "$rootfs/etc/ssl/certs/ca-certificates.crt"
  # Sets the variables that this machine needs to trust the registries it uses.
  local changes=(--change 'CMD ["bash"]')
  for name in NODE_EXTRA_CA_CERTS PIP_CERT SSL_CERT_FILE; do
    [ -z "${!name:-}" ] || changes+=(--change "ENV $name=/etc/ssl/certs/ca-certificates.crt")
  done
  tar -C "$rootfs" -c . | docker import "${changes[@]}" - actiond-test/base >/dev/null || return 1
  rm -rf "$rootfs"
}

# ---------------------------------------------------------------- the images

build() { # TAG ARGUMENT...
  local tag=$1 started=$SECONDS
  shift
  say "building $tag ..."
  if DOCKER_BUILDKIT=1 docker build --progress=plain --network host --build-arg BASE_IMAGE=actiond-test/base \
    --build-arg BUILD_IMAGE=actiond-test/base -t "actiond-test/$tag" "$@" . >"$work/build-$tag.log" 2>&1; then
    say "built $tag in $((SECONDS - started)) s"
  else
    say "building $tag FAILED, see $work/build-$tag.log"
    tail -n 20 "$work/build-$tag.log" >&2
  fi
}

[ "$(id -u)" = 0 ] || skip_all 'needs root'
provide_packages || skip_all "docker.io and debootstrap cannot be installed; see $work/apt.log"
engine_answers || start_engine || skip_all "no Docker engine can run here: $(tail -n 1 "$work/dockerd.log")"
choose_client || { say "no docker client here builds with BuildKit (install docker-buildx); see $work/client.log" && exit 1; }
make_base || { say "the base image cannot be made; see $work/debootstrap.log" && exit 1; }

none=(--build-arg WITH_BROWSER=0 --build-arg WITH_JUPYTER=0)
build bare "${none[@]}"
build jupyter --build-arg WITH_BROWSER=0
build browser --build-arg WITH_JUPYTER=0
build full
build v0 --target openhands-v0
build v1 --target openhands-v1 "${none[@]}" --build-arg USER_ID=10001

node "$checks"
status=$?
if [ "${1:-}" != --keep ]; then
  docker rm -f $(docker ps -aq --filter label=actiond-test) >/dev/null 2>&1
fi
exit "$status"
