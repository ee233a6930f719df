#!/bin/sh
# Install Chromium for the tests that look at the dashboard, where that can be done without asking anybody.
# Where it cannot, say so; then the tests in a browser fail, and everything else is tested.

give_up() {
    echo "chromium: the tests in a browser will fail: $1"
    exit 0
}

install() {
    DEBIAN_FRONTEND=noninteractive timeout 600 apt-get install --quiet --quiet --yes --no-install-recommends \
        -o DPkg::Lock::Timeout=120 chromium fonts-inter fonts-dejavu-core > /dev/null 2>&1 < /dev/null
}

update() {
    timeout 120 apt-get update --quiet --quiet > /dev/null 2>&1 < /dev/null
}

command -v "${HOLDFAST_CHROMIUM:-chromium}" > /dev/null && exit 0
command -v apt-get > /dev/null || give_up "it is not installed, and there is no apt-get to install it with"
[ "$(id -u)" = 0 ] || give_up "it is not installed, and only root may; run: sudo apt-get install chromium"

echo "chromium: installing the Debian package for the tests in a browser"
install || { update && install; } || give_up "apt-get could not install it; see: apt-get install chromium"
command -v chromium > /dev/null || give_up "the package was installed, but there is no chromium on the PATH"
