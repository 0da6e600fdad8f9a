# Heads of a tiny model: from labelled prompts and from graded samples, to files that the command itself uses.
. "$(dirname "$0")/support.sh"
"$EDGEWISE" --help | grep -q '^  train ' || { echo "skipped: built without the trainer"; exit 77; }
model="$models/qwen2-tiny"
code 0 quantize "$model" -o "$work/m.gguf" --group 32
model="$work/m.gguf"

# Prompts of two kinds, which even a random model's states tell apart.
i=0
while [ $i -lt 60 ]; do
    echo "{\"problem\": \"aaaa $i\", \"label\": 0}"
    echo "{\"messages\": [{\"role\": \"user\", \"content\": \"zz $i zz zz zz\"}, {\"role\": \"assistant\", \"content\": \"x\"}], \"label\": 1}"
    i=$((i + 1))
done >"$work/routes.jsonl"
echo '{"problem": "x", "label": 2}' >>"$work/routes.jsonl"
code 0 train switcher "$model" "$work/routes.jsonl" -o "$work/switcher.gguf" --epochs 20 --lr 0.01 --threshold 0.25
has "$err" '1 of 121 lines dropped, the first: '
has "$err" 'line 121: "label" must be 0 or 1'
has "$out" "120 samples"
auc=$(sed -n 's/^test: AUC \([0-9.]*\);.*/\1/p' "$out")
awk "BEGIN {exit !($auc > 0.9)}" || problem "AUC $auc"
cp "$work/switcher.gguf" "$work/first.gguf"
code 0 train switcher "$model" "$work/routes.jsonl" -o "$work/switcher.gguf" --epochs 20 --lr 0.01 --threshold 0.25 -t 1
cmp -s "$work/first.gguf" "$work/switcher.gguf" || problem "the same training made another head"

# Samples whose verdict is a coin's: the head is written, whatever it is worth.
i=0
while [ $i -lt 40 ]; do
    for k in 0 1; do
        verdict=$([ $(((i + k) % 3)) = 0 ] && echo right || echo wrong)
        echo "{\"id\": \"$i\", \"problem\": \"q $i\", \"tokens\": [$((i + 20)), $((k + 30)), 319], \"thinks\": false, \"verdict\": \"$verdict\", \"stream\": $k}"
    done
    i=$((i + 1))
done >"$work/samples.jsonl"
echo '{"id": "n", "problem": "q", "tokens": [30], "verdict": "none"}' >>"$work/samples.jsonl"
code 0 train verifier "$model" "$work/samples.jsonl" -o "$work/verifier.gguf" --epochs 3
has "$out" "80 samples"
has "$out" "within problems: AUC"

code 2 train switcher "$model" "$work/routes.jsonl"
code 1 train switcher "$model" "$work/samples.jsonl" -o "$work/x.gguf"
has "$err" "none of its 81 lines can be learned from"
code 1 train verifier "$model" "$work/routes.jsonl" -o "$work/x.gguf"
head -4 "$work/samples.jsonl" >"$work/few.jsonl"
code 1 train verifier "$model" "$work/few.jsonl" -o "$work/x.gguf"
has "$err" "needs both labels"
[ ! -e "$work/x.gguf" ] || problem "a failed training left a file"
finish
