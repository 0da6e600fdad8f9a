# Thinking, budgets, streams: what run and chat take, print and refuse.
. "$(dirname "$0")/support.sh"
plain="$models/qwen2-tiny"
thinker="$models/qwen3-tiny --template qwen3"
adapter="$EDGEWISE_TEST_DATA/goldens/alora/adapters/qwen2-tiny.masked"

# A model that thinks by itself: the budget cuts, and an answer follows.
code 0 run $thinker "hi" --budget 12 --max-tokens 9 --temperature 1 --json --no-loop-check
json '.mode == "thinking" and .probability == null and (.thinking_tokens | number) <= 12 and .streams == 1'
json '(.answer_tokens | number) <= 9 and (.tokens | length) == .reply_tokens and (.logprobs | length) == .reply_tokens'
json '(.text | contains("</think>") | not) and (.thinking | contains("</think>") | not)'
json '.thinking_truncated == (.thinking_end == "budget") and (.candidates | length) == 1'
json '(.timings.first_token_seconds | number) > 0 and (.timings.first_answer_seconds | number) >= .timings.first_token_seconds'
for off in "--think off" --no-thinking; do
    code 0 run $thinker "hi" --max-tokens 9 --temperature 1 --json $off
    json '.mode == "chat" and .thinking == "" and .thinking_end == "none" and .thinking_tokens == 0'
    pick '[.tokens, .logprobs]' >>"$work/off"
done
[ "$(sed -n 1p "$work/off")" = "$(sed -n 2p "$work/off")" ] || problem "--no-thinking is not --think off"

# A closing of one's own: what stands behind its tag begins the answer.
code 0 run $thinker "hi" --budget 12 --max-tokens 9 --temperature 1 --no-loop-check --json --closing '...\n</think>\n\nThe \\ is'
json '.thinking_end == "budget" and (.text | startswith("The \\ is")) and .forced_tokens > 3'
code 1 run $thinker "hi" --closing 'So:'
has "$err" "no </think> in it"
code 1 run $thinker "hi" --closing '</think>\t'
has "$err" "only n (a line end)"
code 1 run $thinker "hi" --closing '</think></think>'
has "$err" "with one </think>"

# The answer alone goes to stdout; the thinking to stderr, if it is asked for; one line about it all at the end.
code 0 run $thinker "hi" --budget 12 --max-tokens 9 --temperature 1 --show-thinking
cp "$out" "$work/shown"
cp "$err" "$work/shown-err"
code 0 run $thinker "hi" --budget 12 --max-tokens 9 --temperature 1
cmp -s "$out" "$work/shown" || problem "--show-thinking changes the answer"
[ "$(wc -c <"$work/shown-err")" -gt "$(wc -c <"$err")" ] || problem "--show-thinking shows nothing"
grep -q '^\[thinking, .* tokens of thinking, .* of answer, first token .* s' "$err" || problem "no last line: $(cat "$err")"

# Streams: the first of three is the one; the chosen is one of them.
code 0 run $thinker "hi" --budget 6 --max-tokens 6 --temperature 1 --seed 4 --json
pick '.candidates[0].tokens' >"$work/one"
code 0 run $thinker "hi" --budget 6 --max-tokens 6 --temperature 1 --seed 4 --streams 3 --all-streams --json
pick '.candidates[0].tokens' | cmp -s - "$work/one" || problem "stream 0 of three is another than the only one"
json '.streams == 3 and (.candidates | length) == 3 and .text == .candidates[.stream].text and (.agreed | number) >= 1'
json 'all(.candidates[]; .score == null) and ([.candidates[].stream] == [0, 1, 2])'
code 0 run $thinker "hi" --budget 6 --max-tokens 6 --temperature 1 --seed 4 --streams 3
has "$err" "of 3 streams agree"

# An adapter: on where it is asked for. auto has nobody to ask, and says so.
code 0 run "$plain" "hi" --adapter "$adapter" --think on --budget 5 --max-tokens 5 --json
json '.mode == "thinking" and (.thinking_tokens | number) <= 5'
code 0 run "$plain" "hi" --adapter "$adapter" --max-tokens 5 --json
json '.mode == "chat"'
has "$err" "no switcher to ask"
pick .tokens >"$work/without"
code 0 run "$plain" "hi" --max-tokens 5 --json
pick .tokens | cmp -s - "$work/without" || problem "an adapter works in chat mode"
grep -q switcher "$err" && problem "speaks of switchers to those who did not ask"

# What cannot be.
code 1 run "$plain" "hi" --think on
has "$err" "needs an adapter"
one_sentence
code 1 run $thinker "hi" --think on --budget 0
has "$err" "contradicts mode on"
code 1 run $thinker "hi" --total-budget 3
has "$err" "total budget of 3"
code 1 run $thinker "hi" --streams auto
has "$err" "verifier"
code 1 run $thinker "hi" --streams 4 --vote best --temperature 1
has "$err" "verifier"
code 1 run $thinker "hi" --streams 4 --temperature 0
has "$err" "temperature"
code 1 run $thinker "hi" --streams many
has "$err" "1 to 1024 or auto"
code 1 run $thinker "hi" --think on --no-thinking
has "$err" "contradicts"
code 1 run $thinker "hi" --switcher "$work/nowhere"
has "$err" "$work/nowhere"
code 1 run $thinker "hi" --verifier "$work/nowhere"
has "$err" "$work/nowhere"
code 2 run $thinker "hi" --think perhaps
code 2 run $thinker "hi" --vote loudest

# chat: the same by commands, turn by turn.
printf 'hi\n/think off\n/clear\nhi\n/think on\n/budget 5\n/streams 2\n/clear\nhi\n' >"$work/in"
"$EDGEWISE" chat $thinker --budget 7 --max-tokens 6 --temperature 1 <"$work/in" >"$out" 2>"$err"
check_code 0 $? "chat with commands"
[ "$(grep -c '^\[thinking' "$err")" -eq 2 ] || problem "not two turns of thinking"
[ "$(grep -c '^\[chat' "$err")" -eq 1 ] || problem "not one turn without"
has "$err" "of 2 streams agree"
printf '/think perhaps\n/budget all\n/budget -1\n/streams none\n/streams 2000\n/think auto\n/budget none\n' >"$work/in"
"$EDGEWISE" chat "$plain" <"$work/in" >"$out" 2>"$err"
check_code 0 $? "chat with bad commands"
[ "$(grep -c 'is meant$' "$err")" -eq 5 ] || problem "not five sentences: $(cat "$err")"
printf '/think on\nhi\n/think off\nhi\n' >"$work/in"
"$EDGEWISE" chat "$plain" --max-tokens 4 --temperature 0 <"$work/in" >"$out" 2>"$err"
check_code 1 $? "chat with a mode that cannot be"
has "$err" "needs an adapter"
"$EDGEWISE" run "$plain" hi --max-tokens 4 --temperature 0 2>/dev/null | cmp -s - "$out" || problem "the chat did not go on"

finish
