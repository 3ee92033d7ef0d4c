#!/usr/bin/env bash
# Makes a Debian 12 machine one that runs Trunkline, out of the checkout in ~/trunkline. Can be run
# again. It is run by a user who may use sudo, or by root.
#
# From the environment: MIRROR, a Debian mirror in place of the machine's own, such as a snapshot;
# TRUNKLINE_KERNEL=no leaves out the embedded kernel, which only amd64 can have.
set -euo pipefail

FOLDER=${TRUNKLINE_FOLDER:-$HOME/trunkline}
cd "$FOLDER"
as_root=()
[ "$(id -u)" = 0 ] || as_root=(sudo)

if [ -n "${MIRROR:-}" ]; then
    echo "deb $MIRROR bookworm main" | "${as_root[@]}" tee /etc/apt/sources.list >/dev/null
fi
"${as_root[@]}" apt-get update --quiet
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet \
    --no-install-recommends make python3-venv

# Equal versions in every machine. Of PyTorch's own index, PIP_EXTRA_INDEX_URL, torch is much smaller.
make system
python3 -m venv .venv
.venv/bin/pip install --quiet --constraint vagrant/constraints.txt --editable .
if [ "$(dpkg --print-architecture)" = amd64 ] && [ "${TRUNKLINE_KERNEL:-yes}" = yes ]; then
    .venv/bin/trunkline kernel build
fi

# `trunkline` in PATH, also for root, who the host backend needs.
"${as_root[@]}" ln -sf "$FOLDER/.venv/bin/trunkline" /usr/local/bin/trunkline
"${as_root[@]}" modprobe -a sch_netem sch_htb tcp_cubic
trunkline --version
