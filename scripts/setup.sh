#!/bin/sh
# Makes a checkout ready to serve (--run) or to test (--test), and does nothing when it is.
#
#   sh scripts/setup.sh --run|--test [--force]
#
# Needed, or the run fails: Node, node_modules, dist/.
# Optional, one line each when they cannot be had: the programs an agent finds in the sandbox, Chromium, Jupyter.
# An optional part that failed is tried again after a day, or at once with --force.
# ACTIOND_SKIP_OPTIONAL=1 leaves the optional parts alone. What installers print goes to .cache/setup.log.

set -eu
cd "$(dirname "$0")/.."

usage='usage: sh scripts/setup.sh --run|--test [--force]'
mode=
force=
for argument in "$@"; do
  case $argument in
    --run | --test) mode=$argument ;;
    --force) force=1 ;;
    *) echo "$usage" >&2 && exit 2 ;;
  esac
done
[ -n "$mode" ] || { echo "$usage" >&2 && exit 2; }

cache=.cache
log=$cache/setup.log
lock=$cache/setup.lock
modules_stamp=node_modules/.actiond-stamp
build_stamp=dist/.stamp
optional_stamp=$cache/optional-failed
jupyter=.venv/bin/jupyter-kernelgateway

say() { printf 'setup: %s\n' "$*" >&2; }
die() { say "$@" && exit 1; }
has() { command -v "$1" >/dev/null 2>&1; }
is_root() { [ "$(id -u)" = 0 ]; }
can_apt() { is_root && has apt-get; }

# Descriptor 9 is the lock: a daemon that an installer leaves behind must not keep it.
logged() {
  printf '\n$ %s\n' "$*" >>"$log"
  "$@" </dev/null >>"$log" 2>&1 9>&-
}

# ---------------------------------------------------------------- Node

check_node() {
  has node || die 'Node.js >= 20.19 is needed, and no node is on the PATH.'
  version=$(node -v)
  major=${version#v} major=${major%%.*}
  minor=${version#v*.} minor=${minor%%.*}
  [ "$major" -gt 20 ] || { [ "$major" -eq 20 ] && [ "$minor" -ge 19 ]; } ||
    die "Node.js >= 20.19 is needed, and $(command -v node) is $version."
}

# ---------------------------------------------------------------- apt

apt() {
  logged timeout -k 10 900 env DEBIAN_FRONTEND=noninteractive apt-get -y --no-install-recommends \
    -o Acquire::Retries=1 -o Acquire::http::Timeout=20 -o Acquire::https::Timeout=20 -o DPkg::Lock::Timeout=120 "$@"
}

apt_updated=
apt_install() {
  if [ -z "$apt_updated" ]; then
    apt_updated=1
    apt update || say "apt-get update failed; see $log"
  fi
  apt install "$@" && hash -r
}

# ---------------------------------------------------------------- node_modules

lock_sum() { cksum <package-lock.json; }

pty_is_built() {
  [ -f node_modules/node-pty/build/Release/pty.node ] || [ -d "node_modules/node-pty/prebuilds/linux-$(uname -m)" ]
}

modules_are_current() {
  [ -f "$modules_stamp" ] && [ "$(cat "$modules_stamp")" = "$(lock_sum)" ] && pty_is_built
}

# node_modules that somebody else installed from this very lock are good; `npm ci` would pull them away from under
# whoever uses them.
modules_match_lock() {
  [ -f node_modules/.package-lock.json ] && node -e '
    const { readFileSync } = require("node:fs");
    const packages = (file) => JSON.parse(readFileSync(file, "utf8")).packages;
    const installed = packages("node_modules/.package-lock.json");
    const differs = ([name, wanted]) => {
      const found = installed[name];
      return found ? found.version !== wanted.version : !wanted.optional && !wanted.peer;
    };
    const wanted = Object.entries(packages("package-lock.json")).filter(([name]) => name !== "");
    process.exit(wanted.some(differs) ? 1 : 0);
  '
}

# node-pty compiles on installation. Without headers beside Node, node-gyp would want to download them.
prepare_compiler() {
  headers=$(node -p 'require("node:path").resolve(process.execPath, "../..")')
  if [ -z "${npm_config_nodedir:-}" ] && [ -f "$headers/include/node/node_api.h" ]; then
    export npm_config_nodedir="$headers"
  fi
  missing=
  has python3 || missing="$missing python3"
  has make || missing="$missing make"
  has g++ || missing="$missing g++"
  [ -n "$missing" ] || return 0
  if can_apt; then
    # shellcheck disable=SC2086
    apt_install $missing || say "could not install$missing; see $log"
  else
    say "node-pty compiles from source; install first, as root:$missing"
  fi
}

install_modules() {
  if modules_match_lock; then
    say 'node_modules match package-lock.json'
  else
    prepare_compiler
    say 'installing node_modules ...'
    logged npm ci --include=dev --loglevel=notice --no-audit --no-fund || die "npm ci failed; see $log"
  fi
  if ! pty_is_built; then
    prepare_compiler
    say 'compiling node-pty ...'
    logged npm rebuild node-pty || :
  fi
  logged node -e 'require("node-pty")' || die "node-pty does not load; see $log"
  lock_sum >"$modules_stamp"
}

# ---------------------------------------------------------------- dist

build_is_current() {
  [ -f dist/main.js ] && [ -f "$build_stamp" ] || return 1
  # Folders count too: a file that is gone leaves its folder newer.
  newer=$(find src routes executors scripts/build.mjs scripts/esbuild-options.mjs package.json package-lock.json -newer "$build_stamp" 2>/dev/null)
  [ -z "$newer" ]
}

build_dist() {
  # Taken before the sources are read: what changes meanwhile is newer than the stamp.
  : >"$cache/build-stamp"
  node scripts/build.mjs </dev/null >&2 9>&- || die 'the build failed.'
  mv "$cache/build-stamp" "$build_stamp"
}

# ---------------------------------------------------------------- optional parts

# COMMAND:PACKAGE[,PACKAGE]
TOOLS='chromium:chromium,chromium-sandbox,fonts-liberation tini:tini git:git curl:curl ps:procps less:less vim:vim
  rg:ripgrep sudo:sudo'
# The tests run the one-file executable in a bare system of their own.
[ "$mode" != --test ] || TOOLS="$TOOLS debootstrap:debootstrap objdump:binutils"

has_jupyter() { [ -x "$jupyter" ] || has jupyter-server; }

# Python packages in the environment of the kernel, as MODULE:PACKAGE: what agent_skills reads documents with; and what
# notebooks are full of, for the tests alone. Kernels work without.
SKILLS='pypdf:pypdf docx:python-docx pptx:python-pptx pylatexenc:pylatexenc'
NOTEBOOKS='matplotlib:matplotlib pandas:pandas tqdm:tqdm rich:rich ipywidgets:ipywidgets'

wanted_modules() { if [ "$mode" = --test ]; then echo "$SKILLS $NOTEBOOKS"; else echo "$SKILLS"; fi; }

has_module() { ls -d .venv/lib/python3*/site-packages/"$1" >/dev/null 2>&1; }

missing_modules() {
  [ -x .venv/bin/python ] || return 0
  for module in $(wanted_modules); do
    has_module "${module%%:*}" || printf '%s ' "${module#*:}"
  done
}

missing_parts() {
  for tool in $TOOLS; do
    has "${tool%%:*}" || printf '%s ' "${tool#*:}"
  done
  has_jupyter || printf 'jupyter '
  [ -z "$(missing_modules)" ] || printf 'python-packages '
}

# True when this very set is missing since less than a day ago.
failed_lately() {
  [ -z "$force" ] && [ -f "$optional_stamp" ] && [ "$(cat "$optional_stamp")" = "$1" ] &&
    [ -n "$(find "$optional_stamp" -mtime -1)" ]
}

optional_is_settled() {
  [ "${ACTIOND_SKIP_OPTIONAL:-}" != 1 ] || return 0
  parts=$(missing_parts)
  [ -z "$parts" ] || failed_lately "$parts"
}

install_tools() {
  can_apt || return 0
  for part in $(missing_parts); do
    case $part in jupyter | python-packages) continue ;; esac
    packages=$(echo "$part" | tr , ' ')
    say "installing $packages ..."
    # shellcheck disable=SC2086
    apt_install $packages || :
  done
}

# Kernels that root starts for another account (--username) need an interpreter outside root's home.
venv_python() {
  case $(python3 -c 'import os, sys; print(os.path.realpath(sys.executable))' 2>>"$log") in
    "${HOME:-/root}"/*)
      if is_root && /usr/bin/python3 -c 'import ensurepip, venv' 2>>"$log"; then
        echo /usr/bin/python3
        return
      fi
      ;;
  esac
  echo python3
}

make_venv() { logged "$(venv_python)" -m venv --clear .venv; }

# Debian's python3 comes without ensurepip, which python3-venv brings.
pip_jupyter() {
  make_venv || { can_apt && apt_install python3-venv && make_venv; } || return 1
  pip_install jupyter_kernel_gateway ipykernel
}

pip_install() {
  logged timeout -k 10 900 .venv/bin/python -m pip install --disable-pip-version-check --timeout 20 --retries 2 "$@"
}

# Any server of the Jupyter kernels API will do; Debian has no kernel gateway, but this one.
apt_jupyter() { can_apt && apt_install jupyter-server python3-ipykernel; }

install_jupyter() {
  ! has_jupyter || return 0
  say 'installing Jupyter ...'
  has python3 || { can_apt && apt_install python3 python3-venv; } || return 0
  pip_jupyter || apt_jupyter || :
}

install_modules_of_kernel() {
  packages=$(missing_modules)
  [ -n "$packages" ] || return 0
  say "installing $packages..."
  # shellcheck disable=SC2086
  pip_install $packages || :
}

install_optional() {
  install_tools
  install_jupyter
  install_modules_of_kernel
  parts=$(missing_parts)
  if [ -z "$parts" ]; then
    rm -f "$optional_stamp"
    return 0
  fi
  printf '%s\n' "$parts" >"$optional_stamp"
  if can_apt; then
    say "going on without ${parts}(see $log; tried again tomorrow, or with --force)"
  else
    say "going on without ${parts}(root can install them with apt-get; jupyter needs python3-venv and PyPI)"
  fi
}

# ---------------------------------------------------------------- main

is_ready() {
  [ -z "$force" ] && modules_are_current && build_is_current && optional_is_settled
}

check_node
if is_ready; then exit 0; fi

if ! { mkdir -p "$cache" && [ -w "$cache" ]; } 2>/dev/null; then
  if ! modules_are_current || ! build_is_current; then
    die "not ready, and $PWD/$cache is not writable for $(id -un)."
  fi
  say "going on without $(missing_parts)($PWD is not writable for $(id -un))"
  exit 0
fi
exec 9>"$lock"
if has flock && ! flock -n 9; then
  say 'another set-up is running; waiting ...'
  flock 9
fi
if is_ready; then exit 0; fi

: >"$log"
modules_are_current || install_modules
if [ -n "$force" ] || ! build_is_current; then build_dist; fi
optional_is_settled || install_optional
