#!/bin/sh
# The tiny recipe from end to end: problems, tokenizer, a model of 4.7 million weights from nothing, and what it is right about.
# Everything comes into one folder; a run that was ended goes on where it was.
#
#   sh recipes/tiny/run.sh FOLDER [SEED]
#
# PRODUCTS=bf16x3 is about twice as fast where there are AMX tiles. EDGEWISE and TINY_PROBLEMS name the two programs (else those of build/release), COUNT the training problems (160000).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=${1:?sh run.sh FOLDER [SEED]}
seed=${2:-1}
count=${COUNT:-160000}
edgewise=${EDGEWISE:-$here/../../build/release/edgewise}
problems=${TINY_PROBLEMS:-$here/../../build/release/tiny-problems}
mkdir -p "$out/base"

# A tenth of the problems is answered at once.
[ -e "$out/train.jsonl" ] || {
    "$problems" --count "$count" --seed "$seed" --bare 10 >"$out/train.part"
    mv "$out/train.part" "$out/train.jsonl"
}
for steps in 1 2 3 4 5; do
    "$problems" --count 1000 --seed 1000 --test --steps $steps >"$out/steps-$steps.jsonl"
done
for words in names objects openings; do
    "$problems" --count 1000 --seed 1000 --test --steps 3 --unseen $words >"$out/unseen-$words.jsonl"
done

cp "$here/config.json" "$out/base/"
[ -e "$out/base/tokenizer.json" ] || "$edgewise" train tokenizer "$out/train.jsonl" -o "$out/base/tokenizer.json" --vocab 1024 \
    --add-token '<|endoftext|>' --add-token '<|im_start|>' --add-token '<|im_end|>' --add-token '<think>' --add-token '</think>'

resume=
[ -e "$out/model.checkpoint" ] && resume=--resume
[ -e "$out/model/model.safetensors" ] || "$edgewise" train sft "$out/base" "$out/train.jsonl" -o "$out/model" --from-nothing \
    --epochs 1 --batch-tokens 2048 --lr 1.8e-3 --schedule constant --warmup 0.02 --decay 0.25 --min-lr-ratio 0.02 \
    --weight-decay 0.1 --beta2 0.95 --prompt-weight 0.1 --products "${PRODUCTS:-float32}" --seed "$seed" --log "$out/log.jsonl" --keep-every 1000 $resume

# Greedy. With thinking the answer follows worked steps, without it comes at once.
ask() { # FILE MODE NAME
    "$edgewise" sample "$out/model" "$1" --think "$2" --temperature 0 --budget 150 --max-tokens 24 \
        -o "$out/replies-$3.jsonl" 2>"$out/sample.log" || { cat "$out/sample.log" >&2; exit 1; }
    right=$(grep -c '"verdict":"right"' "$out/replies-$3.jsonl" || true)
    echo "$3: $right of $(wc -l <"$out/replies-$3.jsonl") right"
}
for steps in 1 2 3 4 5; do
    ask "$out/steps-$steps.jsonl" on "worked-$steps"
done
for words in names objects openings; do
    ask "$out/unseen-$words.jsonl" on "unseen-$words"
done
ask "$out/steps-3.jsonl" off bare-3
ask "$out/steps-5.jsonl" off bare-5
