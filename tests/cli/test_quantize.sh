. "$(dirname "$0")/support.sh"
model="$models/qwen3-tiny"
file="$work/model.gguf"

code 0 quantize "$model" -o "$file" --scheme offset --group 64
has "$out" "INT4 offset, group 64"
has "$out" "scheme offset"
code 0 inspect "$file" --check --context 1000
has "$out" "every value is finite, the weights have their fingerprint"
has "$out" "memory at 1000 positions"
code 0 inspect "$file" --check --json
json '.kind == "Edgewise file" and .checked == true and .config.architecture == "qwen3"'
json '.weights.down.format == "INT4 offset group 64" and (.fingerprint_weights | length) == 64'
json '.kv_bytes_per_token == 2 * 2 * 2 * (32 + 4) and .activations == "INT16"'
pick .fingerprint_source >"$work/source"
code 0 inspect "$model" --check --json
json '.kind == "Hugging Face folder" and .fingerprint_source == $source[0]' --slurpfile source "$work/source"
code 0 inspect "$models/llama-tiny.gguf"
has "$out" "runs unquantized"

# The same bytes for any number of threads.
code 0 quantize "$model" -o "$work/again.gguf" --scheme offset --group 64 --threads 3
cmp -s "$file" "$work/again.gguf" || problem "another number of threads gave other bytes"
code 0 quantize "$model" -o "$work/small.gguf" --head int8 --activations int8 --group 0 --range minmax
has "$out" "INT4 symmetric, per row"
code 0 run "$work/small.gguf" "Hello" --max-tokens 3

# Refusals: one sentence, the right code, nothing written.
code 2 quantize "$model"
code 2 quantize "$model" -o "$work/no.gguf" --scheme nf4
code 1 quantize "$model" -o "$work/no.gguf" --group 48
one_sentence
code 1 quantize "$file" -o "$work/no.gguf"
one_sentence
has "$err" "quantized already"
code 1 quantize "$model" -o "$work/nowhere/no.gguf"
one_sentence
cp "$file" "$work/damaged.gguf"
middle=$(($(wc -c <"$file") / 2)) # among codes
printf '\001\376\001\376' | dd of="$work/damaged.gguf" bs=1 seek="$middle" conv=notrunc 2>/dev/null
code 1 inspect "$work/damaged.gguf" --check
one_sentence
has "$err" "damaged"
head -c 5000 "$file" >"$work/cut.gguf"
code 1 inspect "$work/cut.gguf"
one_sentence
[ -z "$(ls "$work" | grep '^no')" ] || problem "something was left: $(ls "$work")"
finish
