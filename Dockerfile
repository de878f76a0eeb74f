# actiond in an image made from any Debian or Ubuntu.
#
#   docker build -t actiond .                                          non-root, read-only root possible
#   docker build -t actiond --build-arg BASE_IMAGE=ubuntu:24.04 .      any base with apt and glibc >= 2.31, x86-64
#   docker build -t actiond --build-arg WITH_BROWSER=0 --build-arg WITH_JUPYTER=0 .
#   docker build -t actiond-v0 --target openhands-v0 .                 for OpenHands V0's DockerRuntime and RemoteRuntime
#   docker build -t actiond-v1 --target openhands-v1 .                 with the paths that OpenHands V1 starts
#
# Bases without apt: copy the executable into them, it is the whole daemon (`npm run bundle`).

ARG BASE_IMAGE=node:24-bookworm-slim
ARG BUILD_IMAGE=node:24-bookworm-slim

# ---------------------------------------------------------------- the executable

FROM ${BUILD_IMAGE} AS build
RUN apt-get update \
  && apt-get install -y --no-install-recommends binutils ca-certificates g++ make python3 tini \
  && apt-get clean && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY package.json package-lock.json ./
COPY scripts/one-file/package.json scripts/one-file/package-lock.json scripts/one-file/
# node-pty compiles on installation: with the headers beside Node where there are some, so that none are fetched.
RUN headers=$(node -p 'require("node:path").resolve(process.execPath, "../..")') \
  && { [ ! -f "$headers/include/node/node_api.h" ] || export npm_config_nodedir="$headers"; } \
  && npm ci --no-audit --no-fund && npm ci --prefix scripts/one-file --no-audit --no-fund
COPY scripts scripts
COPY src src
COPY routes routes
COPY executors executors
RUN node scripts/bundle.mjs --outfile /out/actiond

# ---------------------------------------------------------------- what all variants share

FROM ${BASE_IMAGE} AS sandbox
ENV LANG=C.UTF-8
ARG EXTRA_PACKAGES=""
RUN apt-get update \
  && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
    bash ca-certificates curl file git jq less netbase procps python-is-python3 python3 ripgrep tini unzip ${EXTRA_PACKAGES} \
  && apt-get clean && rm -rf /var/lib/apt/lists/*

ARG WITH_BROWSER=1
ARG BROWSER_PACKAGES="chromium fonts-liberation fonts-noto-color-emoji"
RUN [ "$WITH_BROWSER" != 1 ] || { apt-get update \
  && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends ${BROWSER_PACKAGES} \
  && apt-get clean && rm -rf /var/lib/apt/lists/*; }

ARG USERNAME=openhands
ARG USER_ID=1000
# Group 0 may do what the user may, so that any uid with gid 0 works. An account that has the name or the uid already becomes this one.
RUN if id "$USERNAME" >/dev/null 2>&1; then usermod -u "$USER_ID" -g root "$USERNAME"; \
  elif taken=$(getent passwd "$USER_ID" | cut -d: -f1) && [ -n "$taken" ]; then \
    usermod -l "$USERNAME" -d "/home/$USERNAME" -m -g root -s /bin/bash "$taken"; \
  else useradd -m -d "/home/$USERNAME" -s /bin/bash -g root -u "$USER_ID" "$USERNAME"; fi \
  && mkdir -p /workspace /var/lib/actiond "/home/$USERNAME" \
  && chown -R "$USERNAME:root" /workspace /var/lib/actiond "/home/$USERNAME" \
  && chmod -R g=u /workspace /var/lib/actiond "/home/$USERNAME"

ARG WITH_JUPYTER=1
ARG JUPYTER_PACKAGES="jupyter_kernel_gateway ipykernel"
# The user's own, so that `%pip install` works in it.
RUN [ "$WITH_JUPYTER" != 1 ] || { apt-get update \
  && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends python3-venv \
  && apt-get clean && rm -rf /var/lib/apt/lists/* \
  && python3 -m venv /opt/jupyter \
  && /opt/jupyter/bin/pip install --no-cache-dir --disable-pip-version-check --no-compile ${JUPYTER_PACKAGES} \
  && chown -R "$USERNAME:root" /opt/jupyter && chmod -R g=u /opt/jupyter; }

ENV ACTIOND_PORT=8000 \
  ACTIOND_HOST=0.0.0.0 \
  ACTIOND_STATE_DIR=/var/lib/actiond \
  ACTIOND_JUPYTER_PYTHON=/opt/jupyter/bin/python
EXPOSE 8000
STOPSIGNAL SIGTERM
COPY --chmod=0755 deploy/image/healthcheck.sh /usr/local/lib/actiond/healthcheck
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 CMD ["/usr/local/lib/actiond/healthcheck"]
COPY --from=build /out/actiond /usr/local/bin/actiond
WORKDIR /workspace

# ---------------------------------------------------------------- OpenHands V0: started by its client's own command, as root

FROM sandbox AS openhands-v0
RUN apt-get update \
  && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends sudo tmux \
  && apt-get clean && rm -rf /var/lib/apt/lists/* \
  && echo '%sudo ALL=(ALL) NOPASSWD:ALL' >>/etc/sudoers && usermod -aG sudo "$USERNAME" \
  && mkdir -p /openhands/code /openhands/poetry /openhands/logs \
  && ln -s /opt/jupyter /openhands/poetry/openhands-ai-5O4_aCHf-py3.12
# The kernel tells the path of its interpreter, and clients know this one.
ENV ACTIOND_JUPYTER_PYTHON=/openhands/poetry/openhands-ai-5O4_aCHf-py3.12/bin/python
COPY --chmod=0755 deploy/image/micromamba.sh /openhands/micromamba/bin/micromamba
WORKDIR /openhands/code
CMD ["/openhands/micromamba/bin/micromamba", "run", "-n", "openhands", "poetry", "run", "python", "-u", "-m", \
  "openhands.runtime.action_execution_server", "8000", "--working-dir", "/workspace", \
  "--plugins", "agent_skills", "jupyter", "--username", "openhands", "--user-id", "1000"]

# ---------------------------------------------------------------- OpenHands V1: the agent server's program names and arguments

FROM sandbox AS openhands-v1
RUN mkdir -p /workspace/project && chown "$USERNAME:root" /workspace/project && chmod g=u /workspace/project
COPY --chmod=0755 deploy/image/openhands-agent-server.sh /usr/local/bin/openhands-agent-server
COPY --chmod=0755 deploy/image/agent-server-python.sh /agent-server/.venv/bin/python
# By number: Kubernetes must see that it is not root.
USER ${USER_ID}
# For uids that /etc/passwd does not know.
ENV HOME=/home/${USERNAME}
WORKDIR /
ENTRYPOINT ["/usr/bin/tini", "-s", "--", "/usr/local/bin/openhands-agent-server"]

# ---------------------------------------------------------------- the default

FROM sandbox AS runtime
# By number: Kubernetes must see that it is not root.
USER ${USER_ID}
# For uids that /etc/passwd does not know.
ENV HOME=/home/${USERNAME}
VOLUME ["/workspace", "/var/lib/actiond"]
# -s: orphans are its own where it is not PID 1, as with `docker run --init` or a process namespace that a pod shares.
ENTRYPOINT ["/usr/bin/tini", "-s", "--", "/usr/local/bin/actiond"]
CMD ["--working-dir", "/workspace"]
