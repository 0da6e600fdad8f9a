# One file with everything: it answers as the parts do, and is checked as they are.
. "$(dirname "$0")/support.sh"
folder="$models/qwen2-tiny"
adapters="$EDGEWISE_TEST_DATA/goldens/lora/adapters"
code 0 quantize "$folder" -o "$work/m.gguf" --group 32
model="$work/m.gguf"
plain="--max-tokens 12 --budget 12 --temperature 0 --json"

code 0 bundle "$model" --adapter "$adapters/qwen2-tiny.plain" --adapter "second=$adapters/qwen2-tiny.plain.gguf" \
    --policy "--think on  --budget 9" -o "$work/b.gguf"
has "$out" "2 parts"
[ "$(ls "$work"/*.part 2>/dev/null)" = "" ] || problem "a temporary file is left"

# The model is the same, bit for bit in what it says.
code 0 run "$model" $plain --think off "Hello"
jq '.tokens' "$out" >"$work/alone"
code 0 run "$work/b.gguf" $plain --think off "Hello"
jq '.tokens' "$out" >"$work/bundled"
cmp -s "$work/alone" "$work/bundled" || problem "the bundled model answers differently"

# Adapter and policy are used without being named, and what is given counts more.
code 0 run "$model" --adapter "$adapters/qwen2-tiny.plain" --think on --budget 9 --max-tokens 12 --temperature 0 --json "Hello"
jq '.tokens' "$out" >"$work/alone"
code 0 run "$work/b.gguf" --max-tokens 12 --temperature 0 --json "Hello"
jq '.tokens' "$out" >"$work/bundled"
cmp -s "$work/alone" "$work/bundled" || problem "the bundle does not use its adapter and policy"
code 0 run "$work/b.gguf" --adapter bundle:adapter.second --budget 9 --max-tokens 12 --temperature 0 --json "Hello"
jq '.tokens' "$out" >"$work/bundled"
cmp -s "$work/alone" "$work/bundled" || problem "the second adapter, which is the same, answers differently"
code 1 run "$work/b.gguf" --adapter bundle:adapter.none "Hello"
has "$err" 'no bundle with the part "adapter.none"'
code 1 run "$model" --adapter bundle:adapter.think "Hello"
has "$err" 'no bundle with the part'

code 0 inspect "$work/b.gguf" --check
has "$out" "adapter.second ("
has "$out" "policy         --think on  --budget 9"
code 0 inspect "$work/b.gguf" --json
jq -e '.bundle.policy == "--think on  --budget 9" and (.bundle.parts | keys) == ["adapter.second", "adapter.think"]' "$out" >/dev/null ||
    problem "inspect does not tell the parts"
code 0 inspect "$model" --json
jq -e '.bundle == null' "$out" >/dev/null || problem "a model alone is called a bundle"

# Words with spaces stand in quotes.
code 0 bundle "$model" --adapter "$adapters/qwen2-tiny.plain" -o "$work/q.gguf" \
    --policy "--think on --budget 5 --no-loop-check --closing '\\n</think>\\n\\nSo it is'"
code 0 run "$work/q.gguf" --max-tokens 12 --temperature 0 --json "Hello"
jq -e '.thinking_end == "budget" and (.text | startswith("So it is"))' "$out" >/dev/null || problem "no closing of the bundle's"
for policy in "--closing '</think>" "--closing So:" "--streams many" "-- x" "x" "--think on --no-thinking"; do
    code 2 bundle "$model" --policy "$policy" -o "$work/c.gguf"
done
# A file's policy is a stranger's: it names no output.
LC_ALL=C sed 's/--think on --budget 5 --no-loop-check/--output OWNEDxx --budget 5 --no-loop/' "$work/q.gguf" >"$work/evil.gguf"
echo '{"id": "a", "problem": "1+1", "answer": "2"}' >"$work/problems.jsonl"
(cd "$work" && "$EDGEWISE" eval evil.gguf problems.jsonl >"$out" 2>"$err" </dev/null)
check_code 2 $? "eval of a bundle whose policy has an output"
[ ! -e "$work/OWNEDxx" ] || problem "a bundle's policy wrote a file"

code 1 bundle "$work/b.gguf" -o "$work/c.gguf"
has "$err" "is a bundle already"
code 1 bundle "$folder" -o "$work/c.gguf"
code 1 bundle "$model" --adapter "$adapters/llama-tiny.plain" -o "$work/c.gguf"
code 1 bundle "$model" --adapter "a b=$adapters/qwen2-tiny.plain" -o "$work/c.gguf"
has "$err" "letters, digits"
code 1 bundle "$model" --switcher "$model" -o "$work/c.gguf"
has "$err" "is no head"
code 2 bundle "$model" --policy "--thinking maybe" -o "$work/c.gguf"
has "$err" "unknown option --thinking"
code 2 bundle "$model"
[ ! -e "$work/c.gguf" ] || problem "a refused bundle left a file"

if "$EDGEWISE" --help | grep -q '^  train '; then
    i=0
    while [ $i -lt 60 ]; do
        echo "{\"problem\": \"aaaa $i\", \"label\": 0}"
        echo "{\"problem\": \"zz $i zz zz\", \"label\": 1}"
        for k in 0 1; do
            verdict=$([ $(((i + k) % 3)) = 0 ] && echo right || echo wrong)
            echo "{\"id\": \"$i\", \"problem\": \"q $i\", \"tokens\": [$((i + 20)), 319], \"thinks\": true, \"verdict\": \"$verdict\"}" >&3
        done
        i=$((i + 1))
    done >"$work/routes.jsonl" 3>"$work/samples.jsonl"
    code 0 train switcher "$model" "$work/routes.jsonl" -o "$work/s.gguf" --epochs 2
    code 0 train verifier "$model" "$work/samples.jsonl" -o "$work/v.gguf" --epochs 2 --adapter "$adapters/qwen2-tiny.plain"
    code 0 inspect "$work/s.gguf" --json
    jq -e '.kind == "switcher" and .threshold == 0.5 and .adapter == null and (.weights | length) == 64' "$out" >/dev/null ||
        problem "inspect of a switcher"
    code 0 inspect "$work/v.gguf"
    has "$out" "Is this solution correct?"
    code 0 bundle "$model" --adapter "$adapters/qwen2-tiny.plain.gguf" --switcher "$work/s.gguf" --verifier "$work/v.gguf" \
        -o "$work/all.gguf"
    code 0 run "$work/all.gguf" --max-tokens 8 --budget 8 --streams 2 --json --think on "zz 3 zz zz"
    jq -e '.candidates | length == 2 and all(.[]; .score > 0 and .score < 1)' "$out" >/dev/null || problem "no scores by the verifier"
    code 1 bundle "$model" --adapter "$adapters/qwen2-tiny.rslora" --verifier "$work/v.gguf" -o "$work/c.gguf"
    has "$err" "another adapter"
fi
finish
