#!/bin/sh
# Reasoning adapters and heads on a real model: gsm8k on three bases, what quantization-aware training is worth, a switcher,
# a verifier, and what policies make of them. README.md says what is measured. Everything comes into one folder; adapters,
# samples and answers that are there are not made again, so a run that was ended goes on where it was.
#
#   sh recipes/gsm8k/run.sh FOLDER MODEL.gguf DATA [STAGE...]
#
# DATA is a folder with gsm8k-train.jsonl, gsm8k-test.jsonl, svamp.jsonl, math500.jsonl and mmlu-stem.jsonl (id, problem,
# solution, answer).
# Stages: bases adapters losses accuracy rank128 switcher verifier policies; all of them in this order.
# LAST (500) examples of gsm8k are for validation; the verifier learns from the first LEARN (600) problems of svamp.
# EDGEWISE names the program (else that of build/release), PRODUCTS=bf16x3 the faster products where there are AMX tiles.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
usage='sh run.sh FOLDER MODEL.gguf DATA [STAGE...]'
out=${1:?$usage} model=${2:?$usage} data=${3:?$usage}
shift 3
[ $# -gt 0 ] || set -- bases adapters losses accuracy rank128 switcher verifier policies
edgewise=${EDGEWISE:-$here/../../build/release/edgewise}
products=${PRODUCTS:-float32} last=${LAST:-500} learn=${LEARN:-600}
train=$data/gsm8k-train.jsonl
mkdir -p "$out"
head -n "$last" "$train" >"$out/train-first.jsonl"

# The unquantized base is the source itself, its weights as floats.
base() { # NAME
    case $1 in
    imported) echo "$out/imported.gguf" ;;
    channel) echo "$out/channel.gguf" ;;
    float) echo "$model" ;;
    esac
}
weights() { # NAME
    [ "$1" = float ] && echo f32 || echo auto
}

bases() {
    [ -e "$out/imported.gguf" ] || "$edgewise" quantize "$model" -o "$out/imported.gguf"
    [ -e "$out/channel.gguf" ] || "$edgewise" quantize "$model" -o "$out/channel.gguf" --scheme symmetric --group 0
}

fit() { # NAME OUT OPTIONS...
    fit_name=$1 fit_out=$2
    shift 2
    [ -e "$fit_out" ] && return
    resume=
    [ -e "$fit_out.checkpoint" ] && resume=--resume
    "$edgewise" train sft "$(base "$fit_name")" "$train" -o "$fit_out" --weights "$(weights "$fit_name")" \
        --validation-last "$last" --products "$products" --log "$fit_out.log" --save-every 20 $resume "$@"
}

adapters() {
    for name in imported channel float; do
        fit $name "$out/adapter-$name.gguf" --epochs 1 --batch 16 --rank 16
    done
}

rank128() {
    fit imported "$out/adapter-rank128.gguf" --steps 40 --batch 64 --rank 128
    for set in train validation; do
        loss imported "$out/adapter-rank128.gguf" $set rank128 "$out/loss-imported-without-$set.jsonl"
    done
}

# Losses on the examples that nothing was trained on, and on as many that training began with.
loss() { # BASE ADAPTER SET NAME [AGAINST]
    [ "$3" = validation ] && lines=$train || lines=$out/train-first.jsonl
    figures=$("$edgewise" train loss "$(base "$1")" "$lines" --weights "$(weights "$1")" --last "$last" \
        ${2:+--adapter "$2"} -o "$out/loss-$1-$4-$3.jsonl" ${5:+--against "$5"})
    echo "$3, $4 on $1: $figures"
}

losses() {
    for set in train validation; do
        for name in imported channel float; do
            loss $name "" $set without
            loss $name "$out/adapter-$name.gguf" $set with "$out/loss-$name-without-$set.jsonl"
        done
    done
    # The float model's adapter put on the coarse base, against the one trained on that base.
    loss channel "$out/adapter-float.gguf" validation floats-adapter "$out/loss-channel-with-validation.jsonl"
}

# Right answers by a policy: NAME is of the results.
evaluate() { # NAME BASE PROBLEMS OPTIONS...
    asked=$1 asked_base=$2 asked_of=$3
    shift 3
    echo "--- $asked_of, $asked"
    "$edgewise" eval "$(base "$asked_base")" "$data/$asked_of.jsonl" --weights "$(weights "$asked_base")" --max-tokens 64 \
        -o "$out/$asked_of-$asked.jsonl" "$@"
}

greedy() { # BASE PROBLEMS
    evaluate "$1-off" "$1" "$2" --parallel 8 --think off --temperature 0 --max-tokens 256
    evaluate "$1-on" "$1" "$2" --parallel 8 --think on --temperature 0 --budget 256 --adapter "$out/adapter-$1.gguf"
}

accuracy() {
    for name in imported channel float; do
        greedy $name svamp
    done
    evaluate channel-floats-adapter channel svamp --parallel 8 --think on --temperature 0 --budget 256 \
        --adapter "$out/adapter-float.gguf"
    "$edgewise" eval --compare "$out/svamp-channel-floats-adapter.jsonl" "$out/svamp-channel-on.jsonl"
    greedy imported gsm8k-test
}

# Contest problems want thinking; one-step word problems and multiple choice do not.
switcher() {
    [ -e "$out/routes.jsonl" ] || {
        jq -c '{problem, label: 1}' "$data/math500.jsonl"
        jq -c '{problem, label: 0}' "$data/svamp.jsonl"
        jq -c '{problem: (.problem + "\n" + (.choices | to_entries | map("\(.key + 1). \(.value)") | join("\n"))), label: 0}' \
            "$data/mmlu-stem.jsonl"
    } >"$out/routes.jsonl"
    "$edgewise" train switcher "$(base imported)" "$out/routes.jsonl" -o "$out/switcher.gguf"
}

verifier() {
    "$edgewise" sample "$(base imported)" "$data/svamp.jsonl" --adapter "$out/adapter-imported.gguf" --think on -n 8 \
        --parallel 4 --temperature 0.7 --budget 256 --max-tokens 64 -o "$out/samples.jsonl"
    head -n $((8 * learn)) "$out/samples.jsonl" >"$out/samples-learn.jsonl"
    tail -n +$((8 * learn + 1)) "$out/samples.jsonl" >"$out/samples-test.jsonl"
    "$edgewise" train verifier "$(base imported)" "$out/samples-learn.jsonl" --test "$out/samples-test.jsonl" \
        --adapter "$out/adapter-imported.gguf" -o "$out/verifier.gguf"
}

# The verifier saw none of the later problems: policies on 300 of them, one after the other, as seconds are told.
policies() {
    on="--think on --adapter $out/adapter-imported.gguf"
    range="--skip $learn --limit 300"
    evaluate policy-off imported svamp $range --think off --temperature 0 --max-tokens 256
    evaluate policy-on imported svamp $range $on --temperature 0 --budget 256
    # The same again, only read.
    half=$("$edgewise" eval "$(base imported)" "$data/svamp.jsonl" $range $on --temperature 0 --budget 256 --max-tokens 64 \
        -o "$out/svamp-policy-on.jsonl" --json | jq '.thinking_tokens / 2 | round')
    evaluate "policy-budget-$half" imported svamp $range $on --temperature 0 --budget "$half"
    evaluate policy-8 imported svamp $range $on --temperature 0.7 --budget 256 --streams 8 --all-streams \
        --verifier "$out/verifier.gguf"
    for vote in majority weighted best; do
        echo "--- of the 8: $vote"
        "$edgewise" eval --revote $vote "$out/svamp-policy-8.jsonl"
    done
}

for stage; do
    case $stage in
    bases | adapters | losses | accuracy | rank128 | switcher | verifier | policies) "$stage" ;;
    *) echo "run.sh: there is no stage $stage; $usage" >&2 && exit 2 ;;
    esac
done
