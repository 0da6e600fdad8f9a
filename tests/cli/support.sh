# Sourced by the tests of this folder. EDGEWISE is the command, EDGEWISE_TEST_DATA the folder tests/data.
set -u
: "${EDGEWISE:?}" "${EDGEWISE_TEST_DATA:?}"
models="$EDGEWISE_TEST_DATA/goldens/models"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
out="$work/out"
err="$work/err"
failures=0

problem() {
    printf 'FAILED: %s\n' "$*"
    failures=$((failures + 1))
}

# code WANTED ARGUMENTS...: runs the command; what it printed is in $out and $err.
code() {
    wanted=$1
    shift
    "$EDGEWISE" "$@" >"$out" 2>"$err" </dev/null
    check_code "$wanted" $? "$*"
}

check_code() {
    if [ "$2" -ne "$1" ]; then
        problem "exit code $2 instead of $1: edgewise $3"
        cat "$err"
    fi
}

# has FILE TEXT
has() {
    grep -qF -- "$2" "$1" || {
        problem "no \"$2\" in:"
        cat "$1"
    }
}

# one_sentence: $err is one line that begins with the program's name, the one on running unquantized aside.
one_sentence() {
    grep -v 'runs unquantized' "$err" >"$work/sentences"
    if [ "$(wc -l <"$work/sentences")" -ne 1 ] || ! grep -q '^edgewise: ' "$work/sentences"; then
        problem "not one sentence:"
        cat "$err"
    fi
}

# json EXPRESSION: $out is one JSON value d of which the Python expression is true.
json() {
    python3 - "$out" "$1" <<'PYTHON' || problem "not true: $1"
import json, math, sys
d = json.load(open(sys.argv[1], encoding="utf-8"))
if not eval(sys.argv[2]):
    sys.exit(json.dumps(d)[:2000])
PYTHON
}

finish() {
    [ "$failures" -eq 0 ] && echo "passed"
    exit $((failures > 0))
}
