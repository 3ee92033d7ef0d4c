#!/usr/bin/env bash
# Installs those of the given Debian packages that are missing, with sudo if you are not root. On other
# systems, names the command that installs what a run needs there. `make system` calls it.
set -euo pipefail

# What a run needs, with a kernel of the package trunkline-kernel.
PROGRAMS="mnexec ethtool iperf3 ip ping ssh"
DEBIAN_ALONE="linux-source-6.12"

system=unknown
[ ! -r /etc/os-release ] || system=$(. /etc/os-release; echo "${ID:-unknown}")
like=" $system $( [ ! -r /etc/os-release ] || (. /etc/os-release; echo "${ID_LIKE:-}"))"

# $1: the reason, $2: the command.
refuse() {
    echo "$1" >&2
    echo "Install them with:" >&2
    echo "    $2" >&2
    echo "docs/install.md has the names of packages for other systems." >&2
    exit 1
}

if ! command -v dpkg-query >/dev/null; then
    missing=$(for program in $PROGRAMS; do command -v "$program" >/dev/null || echo "$program"; done | xargs)
    [ -n "$missing" ] || exit 0
    reason="This system ($system) lacks programs: $missing"
    case "$like " in
        *" fedora "*) refuse "$reason" "dnf install ethtool iperf3 iproute iproute-tc iputils openssh-clients" ;;
        *" arch "*) refuse "$reason" "pacman -S --needed ethtool iperf3 iproute2 iputils openssh" ;;
    esac
    echo "$reason: install them. docs/install.md has the names of packages." >&2
    exit 1
fi

missing=$(comm -23 <(printf '%s\n' "$@" | sort) \
    <(dpkg-query --show --showformat='${Package} ${db:Status-Status}\n' "$@" 2>/dev/null \
        | sed -n 's/ installed$//p' | sort) | xargs)
[ -n "$missing" ] || exit 0
if [ "$system" = ubuntu ] && [[ " $missing " == *" $DEBIAN_ALONE "* ]]; then
    echo "Ubuntu has no package $DEBIAN_ALONE, from which the embedded kernel is built." >&2
    echo "Take a built one: make demo KERNEL_WHEEL=FILE.whl (docs/install.md)." >&2
    exit 1
fi
if [ "$(id -u)" = 0 ]; then as_root=()
elif command -v sudo >/dev/null && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then as_root=(sudo)
else
    echo "This needs root. Ask an administrator of this machine to run:" >&2
    echo "    apt-get install --no-install-recommends $missing" >&2
    exit 1
fi
echo "Installing Debian packages: $missing"
"${as_root[@]}" apt-get -qq update
# shellcheck disable=SC2086  # one word for each package
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -qq --yes --no-install-recommends $missing
