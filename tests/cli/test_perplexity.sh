. "$(dirname "$0")/support.sh"
model="$models/qwen2-tiny"

python3 -c '
import random
random.seed(5)
print("".join(random.choice("the quick brown fox  jumps, over 1234 lazy dogs\n") for _ in range(2600)))' >"$work/text"
code 0 tokenize "$model" --file "$work/text" --json
cp "$out" "$work/tokens"

# The rule, worked out by hand from the logits of one window.
code 0 perplexity "$model" "$work/text" --context 64 --skip 1 --chunks 2 --weights f32 --json
json 'd["tokens"] == 62 and d["windows"] == 2 and abs(math.exp(d["nll"]) - d["perplexity"]) < 1e-9 * d["perplexity"]'
cp "$out" "$work/two"
python3 - "$EDGEWISE" "$model" "$work" <<'PYTHON' || problem "the perplexity is another one"
import json, subprocess, sys
command, model, work = sys.argv[1:]
tokens = json.load(open(f"{work}/tokens"))["ids"]
total = count = 0
for window in (1, 2):
    ids = tokens[window * 64:(window + 1) * 64]
    d = json.loads(subprocess.run([command, "logits", model, "--weights", "f32", "--json", "--ids",
                                   ",".join(map(str, ids))], capture_output=True, check=True).stdout)
    scored = [p["next_logprob"] for p in d["positions"] if 32 <= p["position"] <= 62]
    total -= sum(scored)
    count += len(scored)
got = json.load(open(f"{work}/two"))
print(total / count, got)
sys.exit(not (count == got["tokens"] and abs(total / count - got["nll"]) < 1e-5))
PYTHON

code 0 perplexity "$model" "$work/text" --context 64
has "$out" "perplexity "
windows=$(python3 -c 'import json,sys; print(len(json.load(open(sys.argv[1]))["ids"]) // 64)' "$work/tokens")
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
