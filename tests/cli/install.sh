# install.sh BUILD EXAMPLE COMPILER: installs BUILD into a folder of its own, looks at what is there, builds EXAMPLE from
# it with pkg-config, shared and static, and runs its programs.
set -eu
build=$1 example=$2 compiler=$3
model="$EDGEWISE_TEST_DATA/goldens/models/qwen2-tiny"
adapter="$EDGEWISE_TEST_DATA/goldens/alora/adapters/qwen2-tiny.masked"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/first" >"$work/log"
mv "$work/first" "$work/prefix" # an installed tree may be moved
"$work/prefix/bin/edgewise" --version
test -f "$work/prefix/include/edgewise.h"
folder=$(dirname "$(find "$work/prefix" -name edgewise.pc)")
libraries=$(dirname "$folder")
export PKG_CONFIG_PATH="$folder"
pkg-config --print-errors --exists edgewise

# The shared library offers the public functions and nothing else.
nm -D --defined-only "$libraries/libedgewise.so" | sed -n 's/.* [TDBRV] //p' | sort >"$work/offered"
sed -n 's/^EW_API .*[ *]\(ew_[a-z0-9_]*\)(.*/\1/p' "$work/prefix/include/edgewise.h" | sort >"$work/declared"
diff "$work/declared" "$work/offered"

for static in OFF ON; do
    cmake -S "$example" -B "$work/ask-$static" -DCMAKE_C_COMPILER="$compiler" -DCMAKE_BUILD_TYPE=Release \
        -DCMAKE_C_FLAGS="-Wall -Wextra -Wpedantic -Werror" -DASK_STATIC=$static >"$work/log" || { cat "$work/log"; exit 1; }
    cmake --build "$work/ask-$static" >"$work/log" || { cat "$work/log"; exit 1; }
    LD_LIBRARY_PATH="$libraries" "$work/ask-$static/ask" "$model" "hi" >"$work/answer-$static"
    LD_LIBRARY_PATH="$libraries" "$work/ask-$static/think" "$model" "hi" 3 "$adapter" >"$work/thought-$static"
    grep -q '^\[thought, .* of 3 agree' "$work/thought-$static"
done
! ldd "$work/ask-ON/ask" | grep -q libedgewise
[ "$(head -c 20 "$work/answer-ON")" = "$(head -c 20 "$work/answer-OFF")" ]
cmp "$work/thought-ON" "$work/thought-OFF"

# C++ programs may include the header.
if command -v g++ >/dev/null; then
    echo '#include <edgewise.h>
int main() { return ew_stop_reason_name(EW_STOP_END) == nullptr; }' >"$work/check.cc"
    g++ -Wall -Wextra -Wpedantic -Werror "$work/check.cc" -o "$work/check" $(pkg-config --cflags --libs edgewise)
    LD_LIBRARY_PATH="$libraries" "$work/check"
fi
echo passed
