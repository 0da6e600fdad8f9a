. "$(dirname "$0")/support.sh"
folder="$models/qwen2-tiny"
model="$work/model.gguf"
code 0 quantize "$folder" -o "$model"

# A few conversations, a line that is none, one of ready-made ids.
i=0
while [ "$i" -lt 8 ]; do
    printf '{"problem": "What is %d plus %d?", "solution": "%d+%d=%d", "answer": "%d"}\n' \
        "$i" 3 "$i" 3 $((i + 3)) $((i + 3))
    i=$((i + 1))
done >"$work/data.jsonl"
printf 'no JSON\n{"input_ids": [5, 6, 7, 8, 9], "labels": [-100, -100, -100, 8, 9], "prompt_length": 2}\n' >>"$work/data.jsonl"

# An adapter on the quantized model: the loss falls, the adapter loads, what was dropped is told.
code 0 train sft "$model" "$work/data.jsonl" -o "$work/adapter.gguf" --rank 4 --epochs 6 --batch 3 --lr 0.02 --dropout 0 \
    --validation-last 2 --log "$work/log" -t 1
has "$err" "1 of 10 lines dropped"
has "$out" "validation loss"
[ "$(jq -s 'map(select(.loss)) | (last.loss < first.loss) and (length == 18)' "$work/log")" = true ] ||
    problem "the log: $(cat "$work/log")"
[ "$(jq -s 'map(select(.validation_loss)) | length' "$work/log")" = 2 ] || problem "validation in the log"
[ ! -e "$work/adapter.gguf.checkpoint" ] || problem "the checkpoint of a finished run is still there"
code 0 inspect "$work/adapter.gguf"
has "$out" "begins at"
code 0 run "$model" hello --adapter "$work/adapter.gguf" --max-tokens 3

# How likely the replies are without and with it, example by example.
code 0 train loss "$model" "$work/data.jsonl" --last 2 -o "$work/without" -t 1
has "$out" "2 examples"
[ "$(jq -s '(map(.line) == [8, 10]) and (map(.targets > 0 and .loss > 0) | all)' "$work/without")" = true ] ||
    problem "losses: $(cat "$work/without")"
code 0 train loss "$model" "$work/data.jsonl" --last 2 --adapter "$work/adapter.gguf" --against "$work/without" --json -t 1
[ "$(jq -n --slurpfile a "$out" --slurpfile log "$work/log" \
    '($a[0].loss - $log[-1].validation_loss | fabs) < 1e-5 and $a[0].difference != 0')" = true ] ||
    problem "the loss of the adapter: $(cat "$out")"
code 1 train loss "$model" "$work/data.jsonl" --against "$work/without" -t 1
has "$err" "only the same ones"
code 1 train loss "$model" "$work/data.jsonl" --against "$work/data.jsonl" -t 1
has "$err" "line 1"

# Results along the way stay; of the last step there is only the result.
code 0 train sft "$model" "$work/data.jsonl" -o "$work/kept.gguf" --rank 2 --steps 4 --batch 3 --keep-every 2 -t 1
cmp -s "$work/kept.gguf" "$work/kept-step-2.gguf" && problem "the adapter of step 2 is that of step 4"
code 0 inspect "$work/kept-step-2.gguf"
[ ! -e "$work/kept-step-4.gguf" ] || problem "the result is there twice"

# Products that the kernel set has no tiles for.
EDGEWISE_ISA=scalar
export EDGEWISE_ISA
code 1 train sft "$model" "$work/data.jsonl" -o "$work/tiles.gguf" --products bf16x3 -t 1
has "$err" "float32 would do"
unset EDGEWISE_ISA

# The same run again gives the same file; and so does one in two parts.
cp "$work/adapter.gguf" "$work/first.gguf"
code 0 train sft "$model" "$work/data.jsonl" -o "$work/adapter.gguf" --rank 4 --epochs 6 --batch 3 --lr 0.02 --dropout 0 \
    --validation-last 2 -t 1
cmp -s "$work/first.gguf" "$work/adapter.gguf" || problem "the same run gave another adapter"
code 1 train sft "$model" "$work/data.jsonl" -o "$work/new.gguf" --resume
has "$err" "new.gguf.checkpoint"

# Ctrl-C: a checkpoint, code 130, and --resume goes on from it.
interrupted() {
    rm -f "$work/log"
    "$EDGEWISE" train sft "$model" "$work/data.jsonl" -o "$work/long.gguf" --rank 2 --epochs 10000 --log "$work/log" -t 1 "$@" \
        >"$out" 2>"$err" </dev/null &
    pid=$!
    lines=0
    while kill -0 "$pid" 2>/dev/null && [ "${lines:-0}" -lt 2 ]; do
        sleep 0.1
        lines=$(grep -c loss "$work/log" 2>/dev/null)
    done
    kill -TERM "$pid"
    wait "$pid"
    check_code 130 $? "train sft, interrupted"
    has "$err" "--resume goes on"
    [ -s "$work/long.gguf.checkpoint" ] || problem "no checkpoint"
    [ ! -e "$work/long.gguf" ] || problem "an adapter of a run that was interrupted"
}
interrupted
interrupted --resume
[ "$(jq -s 'first.step > 1' "$work/log")" = true ] || problem "resumed at the beginning: $(head -n 1 "$work/log")"
code 1 train sft "$model" "$work/data.jsonl" -o "$work/long.gguf" --rank 2 --epochs 9999 --resume
has "$err" "epochs 10000 then, epochs 9999 now"
code 1 train sft "$model" "$work/data.jsonl" -o "$work/long.gguf" --rank 2 --epochs 10000 --prompt-weight 0.5 --resume
has "$err" "data"

# On float weights, without the mask, some layers, as a PEFT folder.
code 0 train sft "$folder" "$work/data.jsonl" -o "$work/peft" --unmasked --targets q,down --rank 2 --epochs 1 -t 1
[ -s "$work/peft/adapter_model.safetensors" ] || problem "no PEFT folder"
code 0 run "$folder" hello --adapter "$work/peft" --max-tokens 3

# All weights, and from nothing.
code 0 train sft "$folder" "$work/data.jsonl" -o "$work/full" --full --epochs 1 --lr 1e-3 -t 1
code 0 run "$work/full" hello --max-tokens 3
mkdir "$work/empty"
cp "$folder"/*.json "$work/empty"
code 0 train sft "$work/empty" "$work/data.jsonl" -o "$work/random" --from-nothing --bf16 --epochs 1 -t 1
code 0 run "$work/random" hello --max-tokens 3

# What makes no sense.
code 2 train sft "$model" "$work/data.jsonl"
has "$err" "-o OUT"
code 2 train sft "$model" "$work/data.jsonl" -o "$work/x" --targets q,nose
has "$err" "nose"
code 2 train sft "$folder" "$work/data.jsonl" -o "$work/x" --full --unmasked
printf 'no JSON\n' >"$work/bad.jsonl"
code 1 train sft "$model" "$work/bad.jsonl" -o "$work/x"
code 1 train sft "$model" "$work/data.jsonl" -o "$work/x" --validation-last 9
has "$err" "none is left"
code 1 train sft "$work/nothing" "$work/data.jsonl" -o "$work/x"

# What cannot be written, or would be lost, is said before the first step.
code 1 train sft "$model" "$work/data.jsonl" -o "$model"
has "$err" "would be overwritten"
code 1 train loss "$model" "$work/data.jsonl" -o "$work/data.jsonl"
has "$err" "would be overwritten"
code 1 train sft "$model" "$work/data.jsonl" -o "$work/no such folder/x.gguf"
has "$err" "no such folder"
code 2 train sft "$model" "$work/data.jsonl" -o "$work/x" --storage int8
has "$err" "int8"
code 1 train sft "$model" "$work/data.jsonl" -o "$work/long.gguf"
has "$err" "add --resume"
code 0 train sft "$model" "$work/data.jsonl" -o "$work/slash/" --epochs 1 --save-every 1 -t 1
[ -s "$work/slash/adapter_model.safetensors" ] || problem "no folder of a name with a slash"
code 1 train sft "$model" "$work/data.jsonl" -o "$work/logged.gguf" --epochs 1 -t 1 --log /dev/full
has "$err" "not whole"
finish
