. "$(dirname "$0")/support.sh"
model="$models/qwen2-tiny"

code 0 logits "$model" --ids 46,140,41 --json --top 3 --weights f32
json '.n == 3 and .ids == [46, 140, 41] and (.positions | length) == 3'
json 'all(.positions[].top; length == 3 and (map(.logit | number) | .[0] >= .[1] and .[1] >= .[2]))'
json '(.positions[0] | has("next_logprob")) and (.positions[2] | has("next_logprob") | not)'
json '[.positions[0].top[].logprob | number | exp] | length == 3 and add <= 1'
cp "$out" "$work/ids"
printf '[46, 140,\n 41]\n' >"$work/file"
code 0 logits "$model" --ids-file "$work/file" --json --top 3 --weights f32
cmp -s "$out" "$work/ids" || problem "--ids and --ids-file differ"
code 0 logits "$model" --ids "46 140 41" --top 2
[ "$(wc -l <"$out")" -eq 3 ] || problem "not one line a position"
code 0 logits "$model" --prompt "Hello" --json
json '.n == (.positions | length) and .n > 0'

# An adapter from a position on: what comes before is as without it, what follows is not.
adapter="$EDGEWISE_TEST_DATA/goldens/alora/adapters/qwen2-tiny.masked"
ids=318,269,198,151,124,319,198,318,280,198,299,284
code 0 logits "$model" --ids "$ids" --json --weights f32
cp "$out" "$work/without"
code 0 logits "$model" --ids "$ids" --json --weights f32 --adapter "$adapter" --adapter-from 7
cp "$out" "$work/masked"
json '$without[0].positions as $before | (.positions[:7] == $before[:7]) and .positions[7] != $before[7]' \
    --slurpfile without "$work/without"
code 0 logits "$model" --ids "$ids" --json --weights f32 --adapter "$adapter.gguf" --adapter-from 7 --chunk 3
cmp -s "$out" "$work/masked" || problem "the adapter from GGUF, or in other chunks, gives other logits"
code 0 logits "$model" --ids "$ids" --json --weights f32 --adapter "$adapter" --adapter-from 400
cmp -s "$out" "$work/without" || problem "an adapter that never begins changes logits"
code 0 logits "$model" --ids "$ids" --json --weights f32 --adapter "$adapter"
json '$without[0].positions[0] != .positions[0]' --slurpfile without "$work/without"
code 0 logits "$model" --ids "$ids" --weights f32 --adapter "$adapter" --adapter-storage int8
code 2 logits "$model" --ids 1 --adapter-from 7
has "$err" "--adapter-from goes with --adapter"
code 2 logits "$model" --ids 1 --adapter "$adapter" --adapter-storage int3
code 1 logits "$model" --ids 1 --adapter "$work/nowhere"
one_sentence
code 1 logits "$models/llama-tiny" --ids 1 --adapter "$EDGEWISE_TEST_DATA/goldens/lora/adapters/qwen2-tiny.plain"
has "$err" "does not fit the base"
one_sentence

code 1 logits "$model" --ids 1,x
has "$err" '"x" is no token id'
one_sentence
code 1 logits "$model" --ids 5,320
has "$err" "ids are 0 to 319"
one_sentence
code 1 logits "$model" --ids ""
has "$err" "at least one"
code 1 logits "$model" --ids-file "$work/nowhere"
one_sentence
code 1 logits "$model" --ids 1 -o "$work/no/such/folder/out"
one_sentence
jq -nr '[range(2000) | 5] | join(",")' >"$work/long"
code 1 logits "$model" --ids-file "$work/long" -o "$work/half"
has "$err" "context"
ls "$work" | grep -q half && problem "a half-written file is left"

finish
