#!/bin/sh
# Everything that has to pass, on Debian: release builds of gcc and clang, AddressSanitizer with
# UndefinedBehaviorSanitizer, ThreadSanitizer, aarch64 under qemu-user, the fuzzers half a minute each.
# Builds all of it first and ends with one run of ctest over all builds, and its summary.
# The real model's tests run in the release build, when the model is there or can be fetched.
set -eu
cd "$(dirname "$0")"

packages="gcc libc6-dev clang llvm libclang-rt-dev cmake ninja-build pkg-config ca-certificates jq
libpcre2-dev libutf8proc-dev libjansson-dev libgmp-dev libmpfr-dev libopenblas-dev libcmocka-dev"
foreign_packages="gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static
libpcre2-dev:arm64 libutf8proc-dev:arm64 libjansson-dev:arm64 libgmp-dev:arm64 libmpfr-dev:arm64 libopenblas-dev:arm64 libcmocka-dev:arm64"
builds="release clang debug tsan fuzz"

say() {
    printf '%s\n' "test.sh: $*" >&2
}

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
    missing=$(missing_packages)
    [ -n "$missing" ] || return 0
    as_root=""
    [ "$(id -u)" -eq 0 ] || as_root="sudo"
    say "installing $missing"
    case "$missing" in
    *:arm64*) $as_root dpkg --add-architecture arm64 ;;
    esac
    $as_root apt-get update -q
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $missing
}

if [ "$(uname -m)" = x86_64 ]; then # elsewhere aarch64 is the machine itself
    packages="$packages $foreign_packages"
    builds="$builds aarch64"
fi
install_packages
sh quickstart.sh || say "quickstart.sh failed: the tests of the real model will say that they are skipped"

mkdir -p build
: >build/CTestTestfile.cmake
for build in $builds; do
    say "building build/$build"
    cmake --preset "$build" -DEDGEWISE_TESTS=ON -DEDGEWISE_TEST_PREFIX="$build/"
    case "$build" in
    fuzz) cmake --build "build/$build" --target fuzzers ;;
    *) cmake --build "build/$build" ;;
    esac
    printf 'subdirs("%s")\n' "$build" >>build/CTestTestfile.cmake
done

# Old sanitizer runtimes cannot live with much randomness of addresses.
steady="setarch $(uname -m) -R"
$steady true 2>/dev/null || steady=""

# One tree of tests, one summary.
$steady ctest --test-dir build --parallel "$(nproc)" --output-on-failure --no-tests=error
