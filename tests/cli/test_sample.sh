# Samples of problems: the same for the same seed, and a run that was ended goes on where it was.
. "$(dirname "$0")/support.sh"
model="$models/qwen2-tiny"
cat >"$work/problems.jsonl" <<'J'
{"id": "a", "problem": "1+1", "answer": "2"}
{"id": 7, "problem": "Which?", "choices": ["x", "y"], "answer": "B"}

{"id": "c", "problem": "No gold"}
J
few="--temperature 1 --max-tokens 6 --budget 8 --think off"
code 0 sample "$model" "$work/problems.jsonl" -n 3 $few
has "$err" "9 samples of 3 problems"
cp "$out" "$work/all.jsonl"
code 0 sample "$model" "$work/problems.jsonl" -n 3 $few --parallel 3
cmp -s "$work/all.jsonl" "$out" || problem "problems answered at once get other replies, or come in another order"
jq -es 'length == 9 and (map(.id) == ["a", "a", "a", "7", "7", "7", "c", "c", "c"]) and (map(.stream) == [0, 1, 2, 0, 1, 2, 0, 1, 2])' \
    "$out" >/dev/null || problem "not three lines of each problem, in order"
jq -es 'all(.[0:6][]; .verdict == "right" or .verdict == "wrong" or .verdict == "none") and all(.[6:][]; .verdict == null and .gold == null)' \
    "$out" >/dev/null || problem "verdicts where there is no gold, or none where there is"
jq -es 'all(.[]; (.tokens | length) <= 7 and .logprob < 0 and .thinking == "" and .thinks == false)' "$out" >/dev/null ||
    problem "not the answers that were asked for"
jq -es '.[3].problem == "Which?\n\nA. x\nB. y"' "$out" >/dev/null || problem "choices are not shown"

code 0 sample "$model" "$work/problems.jsonl" -n 3 $few -o "$work/file.jsonl"
cmp -s "$work/all.jsonl" "$work/file.jsonl" || problem "the file differs from standard output"
code 0 sample "$model" "$work/problems.jsonl" -n 3 $few -o "$work/file.jsonl"
cmp -s "$work/all.jsonl" "$work/file.jsonl" || problem "a finished file was changed"
# Ended within the second problem, within a line.
head -c $(($(head -4 "$work/all.jsonl" | wc -c) + 30)) "$work/all.jsonl" >"$work/file.jsonl"
code 0 sample "$model" "$work/problems.jsonl" -n 3 $few -o "$work/file.jsonl"
cmp -s "$work/all.jsonl" "$work/file.jsonl" || problem "a file that was cut was not completed to the same"

code 0 sample "$model" "$work/problems.jsonl" -n 3 $few --skip 1 --limit 1
jq -es 'length == 3 and .[0].id == "7"' "$out" >/dev/null || problem "--skip and --limit"
code 1 sample "$model" "$work/problems.jsonl" -n 2 $few -o "$work/file.jsonl"
has "$err" 'no output of `edgewise sample` with 2 samples'
echo '{"problem": "x"}' >"$work/no-id.jsonl"
code 1 sample "$model" "$work/no-id.jsonl"
has "$err" 'line 1: a problem needs an "id"'
code 1 sample "$model" "$work/none.jsonl"
one_sentence
code 0 sample "$model" "$work/problems.jsonl" -n 2 --think off --max-tokens 3 --limit 1
jq -es 'length == 2 and .[0].tokens != .[1].tokens' "$out" >/dev/null || problem "two samples are one without --temperature"
code 0 sample "$model" "$work/problems.jsonl" --think off --max-tokens 3 --limit 1 --min-p 0.5 --stop x
# A system message is part of what was asked.
jq -es 'all(.[]; has("system") | not)' "$work/all.jsonl" >/dev/null || problem "a system message that was not given"
code 0 sample "$model" "$work/problems.jsonl" --think off --max-tokens 3 --limit 1 --system "Be brief."
jq -es '.[0].system == "Be brief."' "$out" >/dev/null || problem "--system is not in the lines"
code 1 sample "$model" "$work/problems.jsonl" -n 2 --think off --temperature 0
has "$err" "temperature 0"
finish
