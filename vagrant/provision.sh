#!/usr/bin/env bash
# Installs Trunkline on a Debian 12 machine from the checkout in ~/trunkline. It can be repeated: it
# only does what is missing. Run it as root, or as a user who may use sudo.
#
# Environment variables: MIRROR is a Debian mirror, such as a snapshot, which replaces the machine's
# own. TRUNKLINE_KERNEL=no leaves out the embedded kernel, which only amd64 has; a path names one that
# was built elsewhere from this checkout. TORCH_INDEX is that of the Makefile. Those of pip are used, too.
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

# Every machine gets the versions of locks/. The Makefile says where torch comes from.
make venv PYTHON=python3 PIP_FLAGS=--quiet
# `trunkline` must be in PATH of root, too: the host backend runs as root.
"${as_root[@]}" ln -sf "$FOLDER/.venv/bin/trunkline" /usr/local/bin/trunkline
trunkline --version

case $kernel in
    no) ;;
    yes) trunkline kernel build ;;
    *)
        brought=$(trunkline kernel path)
        install -D "$kernel" "$brought"
        (cd "$(dirname "$brought")" && sha256sum linux >linux.sha256)
        trunkline kernel status || {
            rm "$brought"
            echo "provision.sh: $kernel does not run here: it was built for another system" >&2
            exit 1
        }
        ;;
esac
"${as_root[@]}" modprobe -a sch_netem sch_ingress cls_matchall act_police sch_htb tcp_cubic ||
    echo "provision.sh: this machine's kernel lacks modules that the host backend needs" >&2
