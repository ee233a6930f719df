#!/bin/sh
# Install pgbouncer for the tests that go through one, where that can be done without asking anybody.
# Where it cannot, say which tests are skipped and why. Never fails: without it, everything else is tested.

PATH="$PATH:/usr/sbin:/usr/local/sbin"

skip() {
    echo "pgbouncer: the tests that go through it will be skipped: $1"
    exit 0
}

# Debian would start the service; nobody asked for one. An answer that is there already is not ours to change.
keep_it_from_starting() {
    policy=/usr/sbin/policy-rc.d
    [ -e "$policy" ] && return
    trap 'rm -f "$policy"' EXIT
    trap 'exit 0' HUP INT TERM
    printf '#!/bin/sh\nexit 101\n' > "$policy" && chmod 755 "$policy"
}

install() {
    DEBIAN_FRONTEND=noninteractive timeout 300 apt-get install --quiet --quiet --yes --no-install-recommends \
        -o DPkg::Lock::Timeout=60 pgbouncer > /dev/null 2>&1 < /dev/null
}

update() {
    timeout 120 apt-get update --quiet --quiet > /dev/null 2>&1 < /dev/null
}

command -v pgbouncer > /dev/null && exit 0
command -v apt-get > /dev/null || skip "it is not installed, and there is no apt-get to install it with"
[ "$(id -u)" = 0 ] || skip "it is not installed, and only root may; run: sudo apt-get install pgbouncer"

echo "pgbouncer: installing the Debian package for the tests that go through it"
keep_it_from_starting
install || { update && install; } || skip "apt-get could not install it; see: apt-get install pgbouncer"
command -v pgbouncer > /dev/null || skip "the package was installed, but there is no pgbouncer on the PATH"
