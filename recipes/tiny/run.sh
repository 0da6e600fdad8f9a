#!/bin/sh
# The tiny recipe from end to end: problems, tokenizer, a model of 4.7 million weights from nothing, and what it is right about.
# Everything comes into one folder; a run that was ended goes on where it was.
#
#   sh recipes/tiny/run.sh FOLDER [SEED]
#
# EDGEWISE and TINY_PROBLEMS name the two programs (else those of build/release), COUNT the training problems (160000).
# PRODUCTS=bf16x3 trains up to twice as fast where there are AMX tiles.
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
    --weight-decay 0.1 --beta2 0.95 --prompt-weight 0.1 --products "${PRODUCTS:-float32}" --seed "$seed" --log "$out/log.jsonl" \
    --keep-every 1000 $resume

# Greedy. With thinking the answer follows worked steps, without it comes at once.
ask() { # MODEL FILE MODE REPLIES LIMIT: how many are right
    "$edgewise" sample "$1" "$2" --think "$3" --temperature 0 --budget 150 --max-tokens 24 --limit "$5" \
        -o "$4" 2>"$out/sample.log" || { cat "$out/sample.log" >&2; exit 1; }
    grep -c '"verdict":"right"' "$4" || true
}
report() { # FILE MODE NAME
    right=$(ask "$out/model" "$out/$1.jsonl" "$2" "$out/replies-$3.jsonl" 1000)
    echo "$3: $right of 1000 right"
}
for steps in 1 2 3 4 5; do
    report steps-$steps on worked-$steps
done
for words in names objects openings; do
    report unseen-$words on unseen-$words
done
report steps-3 off bare-3
report steps-5 off bare-5

# Over tokens: right of 200 problems of one to five steps, by the results along the way.
echo "tokens 1 2 3 4 5"
for step in $(ls -d "$out"/model-step-* | sed 's/.*-//' | sort -n); do
    line=$(awk -F'"tokens": ' -v step="$step" 'NR <= step {n += $2 + 0} END {printf "%d", n}' "$out/log.jsonl")
    for steps in 1 2 3 4 5; do
        right=$(ask "$out/model-step-$step" "$out/steps-$steps.jsonl" on "$out/replies-$step-$steps.jsonl" 200)
        line="$line $right"
    done
    echo "$line"
done
