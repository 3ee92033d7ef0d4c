#!/usr/bin/env bash
# Makes a Debian 12 machine one that runs Trunkline, out of the checkout in ~/trunkline. Can be run
# again: it does what is missing. It is run by a user who may use sudo, or by root.
#
# From the environment: MIRROR, a Debian mirror in place of the machine's own, such as a snapshot;
# TRUNKLINE_KERNEL=no leaves out the embedded kernel, which only amd64 can have, and a path is that of one
# that this checkout has built elsewhere; what pip reads.
set -euo pipefail

FOLDER=${TRUNKLINE_FOLDER:-$HOME/trunkline}
cd "$FOLDER"
as_root=()
[ "$(id -u)" = 0 ] || as_root=(sudo)

if [ -n "${MIRROR:-}" ]; then
    sources="deb [check-valid-until=no] $MIRROR bookworm main" # a snapshot's Release may be old
    if [ "$(cat /etc/apt/sources.list 2>/dev/null)" != "$sources" ]; then
        "${as_root[@]}" rm -f /etc/apt/sources.list.d/*
        echo "$sources" | "${as_root[@]}" tee /etc/apt/sources.list
    fi
fi
if ! dpkg-query --status make python3-venv >/dev/null 2>&1; then
    "${as_root[@]}" apt-get update --quiet
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet \
        --no-install-recommends make python3-venv
fi
kernel=no
[ "$(dpkg --print-architecture)" != amd64 ] || kernel=${TRUNKLINE_KERNEL:-yes}
if [ "$kernel" = yes ]; then
    make system
else
    make system PACKAGES="$(sed '/^# The embedded kernel/,/^$/d; s/#.*//' debian-packages.txt | xargs)"
fi

# Equal versions in every machine. Of PyTorch's own index, PIP_EXTRA_INDEX_URL, torch is much smaller.
if [ pyproject.toml -nt .venv/.provisioned ] || [ vagrant/constraints.txt -nt .venv/.provisioned ]; then
    python3 -m venv .venv
    .venv/bin/pip install --quiet --constraint vagrant/constraints.txt --editable .
    touch .venv/.provisioned
fi
# `trunkline` in PATH, also for root, who the host backend needs.
"${as_root[@]}" ln -sf "$FOLDER/.venv/bin/trunkline" /usr/local/bin/trunkline
trunkline --version

case $kernel in
    no) ;;
    yes) trunkline kernel build ;;
    *)
        brought=$(trunkline kernel path)
        install -D "$kernel" "$brought"
        "$brought" --version || {
            rm "$brought"
            echo "provision.sh: $kernel does not run here: it was built on another system" >&2
            exit 1
        }
        ;;
esac
"${as_root[@]}" modprobe -a sch_netem sch_ingress cls_matchall act_police sch_htb tcp_cubic ||
    echo "provision.sh: this machine's kernel lacks what links of the host backend need" >&2
