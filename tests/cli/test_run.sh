. "$(dirname "$0")/support.sh"
model="$models/qwen2-tiny"

# A file that quantize did not make runs, and says so once, on stderr.
code 0 run "$model" "hi" --max-tokens 8
has "$err" "did not make $model, so it runs unquantized"
[ "$(tail -c 1 "$out" | od -An -c | tr -d ' ')" = '\n' ] || problem "the output does not end in a line end"
code 0 run "$model" "hi" --max-tokens 8 --weights f32
grep -q "unquantized" "$err" && problem "said although --weights was given"

# One JSON object, the same each time, wherever the options stand.
code 0 run "$model" "hi" --max-tokens 8 --json --temperature 0
json '(.stop_reason == "stop" or .stop_reason == "length") and (.reply_tokens | number) <= 8'
json '(.tokens | length) == .reply_tokens and (.logprobs | length) == .reply_tokens'
json 'all(.logprobs[]; number <= 0) and (.timings.prompt_seconds | number) > 0 and (.prompt_tokens | number) > 10'
pick '[.tokens, .logprobs] | map(map(number))' >"$work/first"
code 0 run --json --max-tokens=8 --temperature=0 --threads 3 "$model" --kv f32 "hi"
pick '[.tokens, .logprobs] | map(map(number))' >"$work/second"
cmp -s "$work/first" "$work/second" || problem "two runs differ"

# Seeds.
for seed in 1 1 2; do
    code 0 run "$model" "hi" --max-tokens 12 --temperature 5 --seed $seed --json
    pick .tokens >>"$work/seeds"
done
[ "$(sed -n 1p "$work/seeds")" = "$(sed -n 2p "$work/seeds")" ] || problem "the same seed gave two replies"
[ "$(sed -n 1p "$work/seeds")" != "$(sed -n 3p "$work/seeds")" ] || problem "two seeds gave the same reply"

# Prompts: from standard input as from the command line; shown; special text in them stays text.
printf 'hi\n' | "$EDGEWISE" run "$model" - --max-tokens 8 --temperature 0 --json >"$out" 2>"$err"
check_code 0 $? "run -"
pick '[.tokens, .logprobs] | map(map(number))' >"$work/second"
cmp -s "$work/first" "$work/second" || problem "a prompt from standard input is another one"
code 0 run "$model" "hi" --system "Sing." --show-prompt --max-tokens 1
has "$out" "<|im_start|>system
Sing.<|im_end|>"
code 0 run "$model" "hi" --show-prompt --max-tokens 1 --json
json '.prompt | endswith("<|im_start|>assistant\n")'
code 0 run "$model" "" --max-tokens 2
printf 'a\377b' | "$EDGEWISE" run "$model" - --max-tokens 2 --json >"$out" 2>"$err"
check_code 0 $? "run with a broken character"
json 'has("text")'

# A stop string ends the reply and is not part of it.
code 0 run "$model" "hi" --max-tokens 30 --temperature 0 --json
stop=$(jq -r '.text | explode | map(select(. > 32 and . != 65533)) | .[2:3] | implode' "$out")
[ -n "$stop" ] || problem "no third character to stop at"
code 0 run "$model" "hi" --max-tokens 30 --temperature 0 --json --stop "$stop" --stop "never seen"
json '.stop_reason == "string" and (.text | type == "string" and index($stop) == null)' --arg stop "$stop"

# A reply that is cut says so.
code 0 run "$model" "hi" --max-tokens 1 --temperature 0 --stop "never seen"
has "$err" "cut after 1 tokens"
code 0 run "$models/llama-tiny.gguf" "hi" --max-tokens 0 --context 64 --temperature 9 --seed 4 --json
json '(.stop_reason == "context" or .stop_reason == "stop") and (.prompt_tokens | number) + (.reply_tokens | number) <= 65'

# Templates: the file's, another, and none that is known.
code 0 run "$model" "hi" --template chatml --show-prompt --max-tokens 1
has "$out" "<|im_start|>user
hi<|im_end|>"
cp -r "$model" "$work/model"
chmod -R u+w "$work/model"
sed 's/"chat_template": ".*"/"chat_template": "{{ messages }} of a strange kind"/' \
    "$model/tokenizer_config.json" >"$work/model/tokenizer_config.json"
code 1 run "$work/model" "hi"
has "$err" "--template"
code 0 run "$work/model" "hi" --template chatml --max-tokens 1

# What cannot be run: one sentence.
code 1 run "$work/nowhere" "hi"
has "$err" "$work/nowhere"
one_sentence
printf 'GGUF' >"$work/cut.gguf"
code 1 run "$work/cut.gguf" "hi"
one_sentence
head -c 100000 "$models/qwen2-tiny.gguf" >"$work/cut.gguf"
code 1 run "$work/cut.gguf" "hi"
one_sentence
sed 's/"qwen2"/"mamba"/' "$model/config.json" >"$work/model/config.json"
code 1 run "$work/model" "hi"
has "$err" "mamba"
one_sentence
code 1 run "$model" "$(head -c 5000 /dev/zero | tr '\0' x)"
has "$err" "context"
EDGEWISE_ISA=abacus "$EDGEWISE" run "$model" hi >"$out" 2>"$err"
check_code 1 $? "run with EDGEWISE_ISA=abacus"
has "$err" "abacus"

finish
