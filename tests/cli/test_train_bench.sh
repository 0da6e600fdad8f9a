# edgewise bench --train: what it says about a run. How fast it is, is not tested.
. "$(dirname "$0")/support.sh"
folder="$models/qwen2-tiny"
model="$work/model.gguf"
code 0 quantize "$folder" -o "$model"
small="--batch 3 --length 12 --rank 3 --steps 2 -t 1"

# row WEIGHTS PROMPT MASKED: one row, whose figures follow from each other.
row() {
    json '.machine | .threads == 1 and (.load | number) >= 0 and all(.cpu, .isa, .products; type == "string" and length > 0)'
    json '.rows | map([.phase, .weights, .batch, .length, .prompt, .masked, .adapter_rank, .steps]) ==
        [["train", "'"$1"'", 3, 12, '"$2, $3"', 3, 2]]'
    json '.rows[0] | (.tokens_per_s * .step_ms / 1000 / 36 - 1 | fabs) < 1e-9 and (.spread | number) >= 0'
    json '.rows[0] | (.peak_memory_bytes | number) > .trainer_bytes and .trainer_bytes > 5 * 4 * .trained_values'
    json '.rows[0] | (.loss | number) > 0 and (.checksum | test("^[0-9a-f]{16}$"))'
    json '(.machine.load > 0.5 or .rows[0].spread > 0.15) as $bad | .good == ($bad | not) and has("why_not") == $bad'
}

code 0 bench --train -m "$model" $small --prompt 20 --json
row quantized 20 true
pick '.rows[0].checksum' >"$work/first"
code 0 bench --train -m "$model" $small --prompt 20
has "$out" "$(tr -d '"' <"$work/first")"
code 0 bench --train -m "$model" $small --prompt 20 --unmasked --checkpointing --json
row quantized 20 false
pick '.rows[0].checksum' | cmp -s - "$work/first" && problem "the mask made no difference"
code 0 bench --train -m "$folder" $small --json
row f32 0 false
code 0 bench -m "$model" --weights f32 $small --json --train
row f32 0 false

code 2 bench --train -m "$model" --shape smollm2-135m
has "$err" "exclude each other"
code 2 bench --train --shape smollm2-135m --group 48
has "$err" "--group is 32, 64, 128 or 0, not 48"
code 2 bench --train -m "$model" --streams 1
code 1 bench --train -m "$model" --length 60000
has "$err" "60000 positions"
one_sentence
code 1 bench --train -m "$work/nothing"
one_sentence
finish
