# edgewise inspect of adapters: what is in them, and whether they fit a model.
. "$(dirname "$0")/support.sh"
adapters="$EDGEWISE_TEST_DATA/goldens/lora/adapters"
masked="$EDGEWISE_TEST_DATA/goldens/alora/adapters/qwen2-tiny.masked"

code 0 inspect "$masked" --json
json '.kind == "LoRA adapter" and .format == "PEFT folder" and .invocation_tokens == [318, 280, 198]'
json '(.layers | length) == 7 and all(.layers[]; .matrices == 2 and .rank_most == 4 and .scale_most == 2)'
json '.all.matrices == 14 and .all.values == (.layers | map(.values) | add) and .base == null'
cp "$out" "$work/peft"
code 0 inspect "$masked.gguf" --json
json '.format == "LoRA GGUF file" and .all.values == $peft[0].all.values' --slurpfile peft "$work/peft"
code 0 inspect "$masked.gguf" --base "$models/qwen2-tiny" --json
json '.base != null and .other_weights == false'
code 0 inspect "$adapters/qwen2-tiny.pattern"
has "$out" "2-6"
has "$out" "0.5-4"
code 0 inspect "$adapters/llama-tiny.rslora"
has "$out" "alpha / sqrt(rank)"
code 0 inspect "$masked" --base "$models/qwen2-tiny.gguf"
has "$out" "fits $models/qwen2-tiny.gguf"

code 1 inspect "$masked" --base "$models/qwen3-tiny"
one_sentence
code 1 inspect "$adapters/llama-tiny.plain" --base "$models/qwen2-tiny"
has "$err" "have no place there"
one_sentence
code 1 inspect "$masked" --base "$work/nowhere"
one_sentence
code 2 inspect "$models/qwen2-tiny" --base "$models/qwen2-tiny"
has "$err" "--base goes with an adapter"
head -c 2000 "$masked.gguf" >"$work/cut.gguf"
code 1 inspect "$work/cut.gguf"
one_sentence

finish
