#!/bin/sh
# Perplexity of every way to quantize a model: groups, schemes, ranges, activations. Prints a Markdown table.
#   sh bench/quantization_table.sh MODEL TEXT [WINDOWS]
# MODEL is a folder or file that `edgewise quantize` reads, TEXT any text; windows of 512 tokens, 40 unless given.
set -eu
model=$1
text=$2
windows=${3:-40}
edgewise=${EDGEWISE:-build/release/edgewise}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM

perplexity() {
    "$edgewise" perplexity "$@" "$text" --chunks "$windows" --json | sed 's/.*"perplexity": *\([0-9.]*\).*/\1/'
}

quantized() {
    "$edgewise" quantize "$model" -o "$work/model.gguf" "$@" >/dev/null
    perplexity "$work/model.gguf"
}

printf '| weights | range | INT16 activations | INT8 activations |\n|---|---|---|---|\n'
printf '| unquantized (F32, F32 KV) | | %s | |\n' "$(perplexity "$model" --weights f32)"
printf '| unquantized, INT8 KV | | %s | |\n' "$(perplexity "$model" --weights f32 --kv int8)"
printf '| kept as the file has them | | %s | %s |\n' "$(quantized --scheme keep)" "$(quantized --scheme keep --activations int8)"
for scheme in symmetric offset; do
    for group in 32 64 128 0; do
        for range in minmax mse; do
            printf '| %s, group %s | %s | %s | %s |\n' "$scheme" "$group" "$range" \
                "$(quantized --scheme $scheme --group $group --range $range)" \
                "$(quantized --scheme $scheme --group $group --range $range --activations int8)"
        done
    done
done
