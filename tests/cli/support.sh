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

# Words for jq, in whose order null and NaN come before every number: a comparison with what is missing would be true.
number='def number: if type == "number" and (isnan | not) and fabs < 1e308 then . else error("\(tojson) is no number") end;'

# json_lines FILTER [OPTIONS OF JQ]: $out is UTF-8 and of its JSON values, as an array, the jq filter says true, once.
json_lines() {
    filter=$1
    shift
    if ! iconv -f UTF-8 -t UTF-8 "$out" >/dev/null ||
        ! jq --exit-status --slurp "$@" "$number [$filter] == [true]" "$out" >/dev/null; then
        problem "not true: $filter"
        head -c 2000 "$out"
    fi
}

# json FILTER [OPTIONS OF JQ]: the same of the one JSON value that is in $out.
json() {
    filter=$1
    shift
    json_lines "length == 1 and (.[0] | $filter)" "$@"
}

# pick FILTER: prints what the jq filter makes of $out, which must be neither null nor an error.
pick() {
    jq --exit-status --compact-output "$number $1" "$out" || problem "nothing found: $1" >&2
}

finish() {
    [ "$failures" -eq 0 ] && echo "passed"
    exit $((failures > 0))
}
