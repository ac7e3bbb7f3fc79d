# Sourced by run and screenshots: finds the program, installs what the tests need once, sets E2E_MODULES and HAPAX_BIN.
# shellcheck shell=bash
repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
target=${CARGO_TARGET_DIR:-$repository/target}
modules=$target/e2e
export HAPAX_BIN=${HAPAX_BIN:-$target/debug/hapax}
export CHROMIUM=${CHROMIUM:-/usr/bin/chromium}
export E2E_MODULES=$modules

if ! [ -x "$HAPAX_BIN" ]; then
    echo "e2e: $HAPAX_BIN is missing; build it with cargo build, or name one in HAPAX_BIN" >&2
    exit 1
fi
# shellcheck source=sdk/typescript/find-node
. "$repository/sdk/typescript/find-node" || exit 1

# One stamp per list of packages: another version installs again.
stamp=$modules/stamp-$(sha256sum "$repository/e2e/package.json" | cut -c1-16)
if ! [ -f "$stamp" ]; then
    mkdir -p "$modules"
    cp "$repository/e2e/package.json" "$modules/package.json"
    (cd "$modules" && npm install --no-audit --no-fund --no-package-lock --loglevel=error) >&2 ||
        { echo "e2e: npm could not install playwright-core and axe-core" >&2 && exit 1; }
    touch "$stamp"
fi

# Installs a Debian package whose program is missing.
need() {
    local program=$1 package=$2
    [ -x "$program" ] && return 0
    command -v apt-get >/dev/null || { echo "e2e: $program is missing; install $package" >&2 && exit 1; }
    { apt-get update -qq && apt-get install -y -qq "$package"; } >/dev/null 2>&1
    [ -x "$program" ] || { echo "e2e: $program is missing and $package could not be installed" >&2 && exit 1; }
}
need "$CHROMIUM" chromium
