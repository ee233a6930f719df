#!/bin/sh
# Install redis-server for the contenders on Redis, where that can be done without asking anybody.
# Where it cannot, say so; those contenders are then skipped.

skip() {
    echo "redis-server: the contenders on Redis are skipped: $1"
    exit 0
}

command -v apt-get > /dev/null || skip "it is not installed, and there is no apt-get to install it with"
[ "$(id -u)" = 0 ] || skip "it is not installed, and only root may; run: sudo apt-get install redis-server"

echo "redis-server: installing the Debian package"
# Debian would start the service; nobody asked for one. An answer that is there already is not ours to change.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' > "$policy" && chmod 755 "$policy"
fi
install() {
    DEBIAN_FRONTEND=noninteractive timeout 300 apt-get install --quiet --quiet --yes --no-install-recommends \
        redis-server > /dev/null 2>&1 < /dev/null
}
install || { timeout 120 apt-get update --quiet --quiet > /dev/null 2>&1 && install; } ||
    skip "apt-get could not install it"
