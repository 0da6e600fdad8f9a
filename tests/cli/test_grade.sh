. "$(dirname "$0")/support.sh"

cat >"$work/replies.jsonl" <<'JSON'
{"id": "half", "reply": "So it is \\boxed{\\frac12}.", "gold": "0.5"}

{"id": 7, "answer": 3, "gold": 4}
{"reply": "Nobody can tell.", "gold": "4"}
{"id": "letter", "reply": "The answer is (B).", "gold": "B", "task": "choice"}
{"id": "null", "answer": null, "gold": 4}
{"id": "list", "answer": "2, 1", "gold": "1,2"}
JSON

code 0 grade "$work/replies.jsonl"
has "$out" 'right  half  \frac12'
has "$out" 'wrong  7  3'
has "$out" 'none   line 4'
has "$out" '3 right, 1 wrong, 2 without an answer, of 6 (50.0 % right)'

code 0 grade --json "$work/replies.jsonl"
json_lines 'map(.verdict) == ["right", "wrong", "none", "right", "none", "right"]'
json_lines 'map(.id) == ["half", 7, null, "letter", "null", "list"] and all(.[]; has("id"))'
json_lines '.[0] == {"id": "half", "verdict": "right", "answer": "\\frac12", "normal": "1/2"} and .[3].normal == "B"'
json_lines '.[2] | has("answer") and has("normal") and .answer == null and .normal == null'

# The same from standard input; a tolerance; a task for lines that name none.
"$EDGEWISE" grade --json - <"$work/replies.jsonl" >"$work/piped" 2>"$err"
cmp -s "$out" "$work/piped" || problem "the file and standard input differ"
printf '{"answer": "0.333", "gold": "1/3"}\n' >"$work/close.jsonl"
code 0 grade "$work/close.jsonl"
has "$out" '0 right, 1 wrong'
code 0 grade --tolerance 0.01 "$work/close.jsonl"
has "$out" '1 right, 0 wrong'
printf '{"answer": "[2, 1]", "gold": "1,2"}\n' >"$work/list.jsonl"
code 0 grade --task list "$work/list.jsonl"
has "$out" '1 right, 0 wrong'

# An answer with bytes that would end the line, or move the cursor, stays on its line.
printf '{"id": 1, "answer": "a\\nb\\u001b[2J", "gold": "5"}\n' >"$work/control.jsonl"
code 0 grade "$work/control.jsonl"
[ "$(wc -l <"$out")" -eq 2 ] || problem "an answer broke its line"
if grep -q "$(printf '\033')" "$out"; then problem "an escape reached the terminal"; fi

# What is wrong with a file is one sentence that names the line.
refused() {
    printf '{"answer": 1, "gold": 1}\n%s\n' "$1" >"$work/bad.jsonl"
    code 1 grade "$work/bad.jsonl"
    one_sentence
    has "$err" 'line 2'
}
refused '[1, 2]'
refused '{"answer": 1'
refused '{"answer": 1}'
refused '{"gold": 1}'
refused '{"answer": [1], "gold": 1}'
refused '{"answer": 1, "gold": 1, "task": "guess"}'
code 1 grade "$work/nothing.jsonl"
one_sentence
code 1 grade "$work"
one_sentence

: >"$work/empty.jsonl"
code 0 grade "$work/empty.jsonl"
has "$out" '0 right, 0 wrong, 0 without an answer, of 0'

code 2 grade
code 2 grade --task guess "$work/replies.jsonl"
code 2 grade --tolerance -1 "$work/replies.jsonl"
code 0 grade --help
has "$out" 'Usage: edgewise grade FILE.jsonl'
has "$out" 'Examples:'
finish
