. "$(dirname "$0")/support.sh"
model="$models/qwen2-tiny"

# Characters in no order; the generator is Lehmer's with Park and Miller's first constant.
awk 'BEGIN {
    letters = "the quick brown fox  jumps, over 1234 lazy dogs\n"
    for (x = 5; n < 2600; n++) {
        x = x * 16807 % 2147483647
        printf "%s", substr(letters, x % length(letters) + 1, 1)
    }
}' >"$work/text"
code 0 tokenize "$model" --file "$work/text" --json
cp "$out" "$work/tokens"

# The rule, worked out by hand from the logits of one window.
code 0 perplexity "$model" "$work/text" --context 64 --skip 1 --chunks 2 --weights f32 --json
json '.tokens == 62 and .windows == 2 and ((.nll | number | exp) / (.perplexity | number) - 1 | fabs) < 1e-9'
cp "$out" "$work/two"
for window in 1 2; do
    ids=$(jq -r ".ids[$window * 64:($window + 1) * 64] | join(\",\")" "$work/tokens")
    code 0 logits "$model" --weights f32 --json --ids "$ids"
    pick '.positions[] | select(.position >= 32 and .position <= 62) | .next_logprob | number' >>"$work/scored"
done
cp "$work/two" "$out"
json '.tokens == ($scored | length) and ((.nll | number) + ($scored | add / length) | fabs) < 1e-5' --slurpfile scored "$work/scored"

# An adapter works from the first token on.
adapter="$EDGEWISE_TEST_DATA/goldens/lora/adapters/qwen2-tiny.plain"
code 0 perplexity "$model" "$work/text" --context 64 --chunks 1 --weights f32 --json --adapter "$adapter"
cp "$out" "$work/adapted"
code 0 logits "$model" --weights f32 --json --ids "$(jq -r '.ids[0:64] | join(",")' "$work/tokens")" --adapter "$adapter"
pick '.positions[] | select(.position >= 32 and .position <= 62) | .next_logprob | number' >"$work/scored"
cp "$work/adapted" "$out"
json '((.nll | number) + ($scored | add / length) | fabs) < 1e-5' --slurpfile scored "$work/scored"

code 0 perplexity "$model" "$work/text" --context 64
has "$out" "perplexity "
windows=$(($(jq '.ids | length' "$work/tokens") / 64))
has "$out" "$windows windows of 64"
code 1 perplexity "$model" "$work/text" --context 64 --skip 100000
has "$err" "none is left to score"
one_sentence
printf 'short' >"$work/short"
code 1 perplexity "$model" "$work/short"
one_sentence
code 1 perplexity "$model" "$work/nowhere"
one_sentence
code 1 perplexity "$model" "$work/text" --context 100000
one_sentence

finish
