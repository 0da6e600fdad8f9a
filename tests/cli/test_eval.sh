# Evaluations: graded answers of every problem by one policy, taken up where they ended, voted on again and compared.
. "$(dirname "$0")/support.sh"
model="$models/qwen3-tiny --template qwen3"
cat >"$work/problems.jsonl" <<'J'
{"id": "a", "problem": "1+1", "answer": "2"}
{"id": 7, "problem": "Which?", "choices": ["x", "y"], "answer": "B"}

{"id": "c", "problem": "No gold"}
J
# The closing gives the answer, which is then always the same.
policy="--budget 4 --no-loop-check --temperature 1 --streams 3 --all-streams --max-tokens 3"
evaluate() { code 0 eval $model "$work/problems.jsonl" $policy --closing '\n</think>\n\n\\boxed{2} so' "$@"; }
evaluate --json -o "$work/all.jsonl"
json '.problems == 3 and .graded == 2 and .right == 1 and .accuracy == 0.5 and .vote == "majority" and .streams == 3'
json '(.accuracy_low * 1e4 | floor) == 945 and (.accuracy_high * 1e4 | floor) == 9054'
json '.single == 0.5 and .single_low == 0 and .single_high == 1 and .pass == 0.5 and .candidates == 9'
json '.thought == 1 and .truncated == 1 and .thinking_tokens == 12 and .longest_thinking_tokens == 4'
json '.stop_reasons.length + .stop_reasons.stop == 9 and .thinking_ends.budget == 9 and .policy.budget == 4'
json '(.answer_tokens | number) > 0 and (.seconds | number) > 0 and (.tokens_per_second | number) > 0'
cp "$work/all.jsonl" "$out"
json_lines 'map(.id) == ["a", "7", "c"] and map(.verdict) == ["right", "wrong", null] and map(.gold) == ["2", "B", null]'
json_lines 'all(.[]; .mode == "thinking" and .p_reasoning == null and (.votes == [{answer: "2", n: 3, score: 0}]) and .final_answer == "2")'
json_lines 'all(.[].candidates; length == 3 and map(.stream) == [0, 1, 2] and all(.[]; .class == 0 and .score == null and (.text | startswith("\\boxed{2} so")) and .thinking_tokens == 4))'
json_lines '.[0].candidates[0].verdict == "right" and .[1].problem == "Which?\n\nA. x\nB. y" and .[0].answer == .[0].candidates[.[0].chosen].text'

# The answers are those of run.
code 0 run $model "1+1" $policy --closing '\n</think>\n\n\\boxed{2} so' --json
pick '[.candidates[].tokens]' >"$work/run"
head -1 "$work/all.jsonl" | jq -c '[.candidates[].tokens]' | cmp -s - "$work/run" || problem "eval answers differently from run"

# Taken up again: nothing is asked twice, a line that was cut is written anew, and all of the file counts.
without_times() { jq -c 'del(.seconds, .timings)' "$1"; }
cp "$work/all.jsonl" "$work/copy.jsonl"
evaluate -o "$work/copy.jsonl"
cmp -s "$work/all.jsonl" "$work/copy.jsonl" || problem "a finished file was changed"
has "$out" "1 of 2 problems, 0 without an answer; majority vote of 3"
has "$out" "pass@3"
evaluate --parallel 2 -o "$work/parallel.jsonl"
without_times "$work/parallel.jsonl" >"$work/parallel"
without_times "$work/all.jsonl" | cmp -s - "$work/parallel" || problem "problems answered at once get other answers"
code 2 eval $model "$work/problems.jsonl" --parallel 0
head -c $(($(head -1 "$work/all.jsonl" | wc -c) + 30)) "$work/all.jsonl" >"$work/cut.jsonl"
evaluate -o "$work/cut.jsonl"
has "$out" "1 of 2 problems"
without_times "$work/cut.jsonl" >"$work/cut"
without_times "$work/all.jsonl" | cmp -s - "$work/cut" || problem "a file that was cut was not completed to the same"
code 1 eval $model "$work/problems.jsonl" $policy -o "$work/all.jsonl"
has "$err" 'made by another policy: its "closing" is another'
code 1 eval $model "$work/problems.jsonl" -o "$work/problems.jsonl"
has "$err" 'no output of `edgewise eval`'
evaluate --skip 1 --limit 1 --json
json '.problems == 1 and .right == 0'

# Votes are taken again from what is written: here by hand. Class 0 is wrong, two of four; class 1 right, better scored.
line() { # ID RIGHT-CLASS SCORES
    jq -nc --arg id "$1" --argjson right "$2" --argjson scores "$3" '{id: $id, problem: "p\($id)", gold: "1", mode: "chat",
        chosen: 0, agreed: 2, streams_stopped: 0, tokens_saved: 0, seconds: 2, timings: {reply_seconds: 1},
        policy: {streams: 4}, candidates: [range(4) | . as $i | (if $i < 2 then 0 elif $i == 2 then 1 else null end) as $class |
        {stop_reason: "stop", thinking_end: "none", thinking_tokens: 0, answer_tokens: (10 * ($i + 1)), class: $class,
        score: $scores[$i], verdict: (if $class == null then "none" elif $class == $right then "right" else "wrong" end)}]}'
}
{ line x 1 '[0.1, 0.2, 0.9, 0.5]'; line y 0 '[0.6, 0.2, 0.7, 0.5]'; line z 0 '[0.6, 0.2, 0.1, null]'; } >"$work/hand.jsonl"
code 0 eval --revote majority "$work/hand.jsonl" --json
json '.right == 2 and .pass == 1 and (.single * 12 | round) == 5 and .answer_tokens == 100 and .longest_answer_tokens == 40 and .seconds == 2'
code 0 eval --revote weighted "$work/hand.jsonl" --json
json '.right == 3 and .vote == "weighted"'
code 0 eval --revote best "$work/hand.jsonl" --json
json '.right == 2'
code 0 eval --revote best "$work/hand.jsonl" --streams 2 --json
json '.right == 2 and .streams == 2 and .answer_tokens == 30 and .seconds == null and .tokens_per_second == null'
code 1 eval --revote best "$work/hand.jsonl" --streams 5
has "$err" "has 4 streams, not 5"
code 1 eval --revote best "$work/all.jsonl"
has "$err" "has no scores"
jq -c '.streams_stopped = 1' "$work/hand.jsonl" >"$work/early.jsonl"
code 1 eval --revote majority "$work/early.jsonl"
has "$err" "--all-streams"
one_sentence

# Two results on the problems of both.
{ line y 1 '[1, 1, 1, 1]'; line x 0 '[1, 1, 1, 1]'; line w 0 '[1, 1, 1, 1]'; } >"$work/other.jsonl"
code 0 eval --compare "$work/hand.jsonl" "$work/other.jsonl" --json
json '.problems == 2 and .both_right == 0 and .first_right == 1 and .second_right == 1 and .difference == 0 and .mcnemar_p == 1'
code 0 eval --compare "$work/hand.jsonl" "$work/other.jsonl"
has "$out" "2 problems are in both (of 3 and 3)"
jq -c '.problem = "another"' "$work/other.jsonl" >"$work/changed.jsonl"
code 1 eval --compare "$work/hand.jsonl" "$work/changed.jsonl"
has "$err" "is one problem in"
code 1 eval --compare "$work/hand.jsonl" "$work/all.jsonl"
has "$err" "no graded problem in common"
cat "$work/hand.jsonl" "$work/hand.jsonl" >"$work/twice.jsonl"
code 1 eval --compare "$work/twice.jsonl" "$work/hand.jsonl"
has "$err" "the id x twice"

# What is no result, and what makes no sense.
for change in 'del(.candidates)' '.candidates = []' '.chosen = 4' '.candidates[0].class = 9' '.candidates[0].score = 2' \
    '.candidates[0].stop_reason = "tired"' '.candidates[0].verdict = 3' 'del(.policy)' '.seconds = "long"' '.candidates[0] = 1'; do
    jq -c "$change" "$work/hand.jsonl" >"$work/bad.jsonl"
    code 1 eval --revote majority "$work/bad.jsonl"
    one_sentence
done
code 2 eval $model
code 2 eval --compare "$work/hand.jsonl"
code 2 eval --revote majority "$work/hand.jsonl" "$work/hand.jsonl"
code 2 eval --compare --revote majority "$work/hand.jsonl" "$work/hand.jsonl"
code 1 eval $model "$work/none.jsonl" -o "$work/left.jsonl"
one_sentence
[ ! -e "$work/left.jsonl" ] || problem "problems that are not there left a file of results"
finish
