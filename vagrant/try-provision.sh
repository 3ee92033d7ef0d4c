#!/usr/bin/env bash
# Tests provision.sh without a virtual machine: runs it twice in a bare Debian 12 root, then runs
# Trunkline there, and deletes the root.
#
#   sudo TRUNKLINE_KERNEL=no vagrant/try-provision.sh
#
# It needs: apt-get install --no-install-recommends mmdebstrap git. It passes the same environment
# variables on as the Vagrantfile.
set -euo pipefail

[ "$(id -u)" = 0 ] || { echo "try-provision.sh: needs root" >&2; exit 1; }
cd "$(dirname "$0")/.."

work=$(mktemp --directory --tmpdir trunkline-try.XXXXXX)
trap 'rm -rf "$work"' EXIT
git ls-files -z --cached --others --exclude-standard |
    tar --create --file "$work/checkout.tar" --null --files-from -

# The files get the paths that the Vagrantfile gives them.
touch "$work/ca.pem" "$work/linux"
if [ -n "${PIP_CERT:-}" ]; then
    cp "$PIP_CERT" "$work/ca.pem"
    export PIP_CERT=/tmp/trunkline-ca.pem
fi
if [[ "${TRUNKLINE_KERNEL:-}" == */* ]]; then
    cp "$TRUNKLINE_KERNEL" "$work/linux"
    export TRUNKLINE_KERNEL=/tmp/trunkline-linux
fi
passed_on=()
while read -r name; do
    passed_on+=("$name=${!name}")
done < <(compgen -e | grep --fixed-strings --line-regexp --file vagrant/passed-on.txt)

cat > "$work/try" <<SCRIPT
as_vagrant() {
    chroot --userspec=vagrant:vagrant "\$1" env -i HOME=/home/vagrant PATH=/usr/bin:/bin:/usr/local/bin \\
        ${passed_on[*]@Q} bash -c "cd; \$2"
}
SCRIPT
cat >> "$work/try" <<'SCRIPT'
as_vagrant "$1" trunkline/vagrant/provision.sh
echo "try-provision.sh: second time"
as_vagrant "$1" trunkline/vagrant/provision.sh
as_vagrant "$1" 'cd trunkline && trunkline validate scenarios/*.yaml && trunkline list plans'
SCRIPT

mmdebstrap --quiet --variant=minbase --include=sudo,ca-certificates,kmod,python3 \
    --customize-hook='echo "127.0.0.1 localhost $(hostname)" > "$1/etc/hosts"' \
    --customize-hook='chroot "$1" useradd --create-home --shell /bin/bash vagrant' \
    --customize-hook='echo "vagrant ALL=(ALL) NOPASSWD: ALL" > "$1/etc/sudoers.d/vagrant"' \
    --customize-hook="upload $work/ca.pem /tmp/trunkline-ca.pem" \
    --customize-hook="upload $work/linux /tmp/trunkline-linux" \
    --customize-hook='mkdir "$1/home/vagrant/trunkline"' \
    --customize-hook="tar-in $work/checkout.tar /home/vagrant/trunkline" \
    --customize-hook='chroot "$1" chown -R vagrant:vagrant /home/vagrant' \
    --customize-hook="bash -eu $work/try \"\$1\"" \
    --format=null bookworm /dev/null ${MIRROR:+"$MIRROR"}
