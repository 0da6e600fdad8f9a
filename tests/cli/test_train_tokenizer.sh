# A tokenizer from texts, used by the command itself.
. "$(dirname "$0")/support.sh"
"$EDGEWISE" --help | grep -q '^  train ' || { echo "skipped: built without the trainer"; exit 77; }

printf 'Ann has 12 pens. She gets 125 pens more.\nAnn has 137 pens.\n' >"$work/a.txt"
printf '{"problem": "Bob has 12 pens. How many?", "answer": "12", "id": "zz"}\n' >"$work/b.jsonl"
mkdir "$work/m"
code 0 train tokenizer "$work/a.txt" "$work/b.jsonl" -o "$work/m/tokenizer.json" --vocab 266 \
    --add-token '<|im_start|>' --add-token '<|im_end|>' --add-token '<think>'
has "$out" "266 tokens (256 bytes, 7 learned, 3 added)"
cp "$work/m/tokenizer.json" "$work/first.json"
code 0 train tokenizer "$work/b.jsonl" "$work/a.txt" -o "$work/m/tokenizer.json" --vocab 266 \
    --add-token '<|im_start|>' --add-token '<|im_end|>' --add-token '<think>'
cmp -s "$work/first.json" "$work/m/tokenizer.json" || problem "the order of the texts matters"
jq -e '.eos_token == "<|im_end|>" and (.chat_template | contains("<|im_start|>"))' "$work/m/tokenizer_config.json" >/dev/null ||
    problem "tokenizer_config.json lacks the template"
jq -e '(.model.vocab | length) == 263 and (.added_tokens | map(.id)) == [263, 264, 265]' "$work/m/tokenizer.json" \
    >/dev/null || problem "tokenizer.json is not what was asked for"

code 2 train
code 2 train tokeniser
has "$err" "did you mean tokenizer?"
code 2 train tokenizer "$work/a.txt"
has "$err" "-o tokenizer.json"
code 2 train tokenizer "$work/a.txt" -o "$work/x.json" --vocab 255
code 1 train tokenizer "$work/a.txt" -o "$work/x.json" --vocab 256 --add-token '<a>'
has "$err" "257"
code 1 train tokenizer "$work/none.txt" -o "$work/x.json"
: >"$work/empty.txt"
code 1 train tokenizer "$work/empty.txt" -o "$work/x.json"
has "$err" "no text"
[ ! -e "$work/x.json" ] || problem "a failed training left a file"
finish
