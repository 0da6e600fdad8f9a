# edgewise bench: what it says about a run, and that a run computes the same each time. How fast it is, is not tested.
if [ -n "${EDGEWISE_TEST_QUICK:-}" ]; then
    echo "skipped: EDGEWISE_TEST_QUICK is set, and a shape is too much for a slow build"
    exit 77
fi
. "$(dirname "$0")/support.sh"

# all_of_it THREADS ROWS: every field, and figures that follow from each other. ROWS: phase, shape, streams, context,
# group, activations and rank of each.
all_of_it() {
    json '.machine | all(.cpu, .isa; type == "string" and length > 0) and .threads == '"$1"' and (.load | number) >= 0'
    json '.machine | (.read_gbps | number) > 0 and (.int8_gmacs | number) > 0'
    json '.rows | map([.phase, .shape, .streams, .context, .group, .activations, .adapter_rank]) == '"$2"
    json 'all(.rows[]; all(.tokens_per_s, .step_ms, .bytes_per_step, .macs_per_step, .limit_ms, .limit_share; number > 0))'
    json 'all(.rows[]; (.checksum | test("^[0-9a-f]{16}$")) and (.spread | number) >= 0)'
    json 'def near(a; b): (a / b - 1 | fabs) < 1e-9;
        .machine as $m | all(.rows[];
            (if .phase == "prefill" then .context else .streams end) as $tokens |
            (if .activations == "int16" then 2 else 1 end) as $planes |
            [.bytes_per_step / $m.read_gbps / 1e6, .macs_per_step * $planes / $m.int8_gmacs / 1e6] as $limits |
            near(.tokens_per_s; $tokens * 1000 / .step_ms) and near(.limit_ms; $limits | max) and
            near(.limit_share; .limit_ms / .step_ms))'
    # A busy machine or rounds that differ: never called good, and the reason is told.
    json '(.machine.load > 0.5 or any(.rows[]; .spread > 0.15)) as $bad |
        .good == ($bad | not) and has("why_not") == $bad and ((.why_not // "" | length) > 0) == $bad'
}

# rows NAME CONTEXT GROUP ACTIVATIONS: a prompt of 8 tokens, and steps of 1 and of 3 streams.
rows() {
    printf '[["prefill", "%s", 1, 8, %d, "%s", 0], ' "$1" "$3" "$4"
    printf '["decode", "%s", 1, %d, %d, "%s", 0], ' "$1" "$2" "$3" "$4"
    printf '["decode", "%s", 3, %d, %d, "%s", 0]]' "$1" "$2" "$3" "$4"
}

short="--prompt 8 --generate 2 --streams 1,3 --json"
checksums='.rows | map(.checksum)'

# A shape. Its 30 layers have 106168320 weights, its head 28311552, at 4.5 bits; a position is 12960 bytes of cache.
code 0 bench --shape smollm2-135m $short --shared-prefix 4 --context 6 --threads 1
all_of_it 1 "$(rows smollm2-135m 6 32 int16)"
json '.rows | map(.macs_per_step) == [106168320 * 8 + 28311552, 134479872, 134479872 * 3]'
json '.rows | map((.bytes_per_step - 134479872 * 4.5 / 8) / 12960) == [8, 4 + 3, 4 + 3 * 3]' # the shared page once
json '.rows | map(.checksum) | .[0] == .[1] and .[1] != .[2]' # 6 tokens and 2 steps are those 8 tokens
pick "$checksums" >"$work/first"
code 0 bench --shape smollm2-135m $short --shared-prefix 4 --context 6 --threads 1
pick "$checksums" >"$work/again"
cmp -s "$work/first" "$work/again" || problem "two runs computed different logits"
code 0 bench --shape smollm2-135m $short --shared-prefix 4 --context 6 --threads 2
json '.machine.threads == 2'
pick "$checksums" >"$work/threads"
cmp -s "$work/first" "$work/threads" || problem "two threads computed other logits than one"
code 0 bench --shape smollm2-135m $short --generate 0 --group 64 --activations int8
json '.rows | map([.phase, .group, .activations]) == [["prefill", 64, "int8"]]'
pick "$checksums | .[0]" >"$work/int8"
grep -qF "$(cat "$work/int8")" "$work/first" && problem "INT8 activations computed the logits of INT16"

# A file; the table says what the JSON says; other kernels compute the same.
file="$work/tiny.gguf"
code 0 quantize "$models/qwen2-tiny" -o "$file"
code 0 bench -m "$file" $short --shared-prefix 4 --threads 1
all_of_it 1 "$(rows "$file" 4 32 int16)"
json '.rows | map(.checksum) | unique | length == 3'
pick "$checksums" >"$work/first"
code 0 bench -m "$file" --prompt 8 --generate 2 --streams 1,3 --shared-prefix 4 --threads 2
sed -n 's/^\(prefill\|decode\) .* \([0-9a-f]\{16\}\)$/\2/p' "$out" | jq -nRc '[inputs]' >"$work/table"
cmp -s "$work/first" "$work/table" || problem "the table has other checksums: $(cat "$out")"
has "$out" "INT16 activations"
EDGEWISE_ISA=scalar "$EDGEWISE" bench -m "$file" $short --shared-prefix 4 >"$out" 2>"$err"
check_code 0 $? "bench with EDGEWISE_ISA=scalar"
json '.machine.isa == "scalar"'
pick "$checksums" >"$work/scalar"
cmp -s "$work/first" "$work/scalar" || problem "the scalar kernels computed other logits"
code 0 bench -m "$file" $short --prompt 0
json '.rows | map(.phase) == ["decode", "decode"]'
# A context longer than a text that is worth evaluating; nothing shared.
code 0 bench -m "$file" $short --prompt 0 --shared-prefix 0 --context 600 --threads 1
json '.rows | map(.context) == [600, 600]'
pick "$checksums" >"$work/first"
code 0 bench -m "$file" $short --prompt 0 --shared-prefix 0 --context 600 --threads 2
pick "$checksums" >"$work/again"
cmp -s "$work/first" "$work/again" || problem "two threads computed other logits than one on a long context"

# With an adapter: each decode row also with it, one scale a row and rows of 16 in what is read.
code 0 bench -m "$file" $short --shared-prefix 4 --adapter-rank 6
json '.rows | map([.phase, .streams, .adapter_rank]) ==
    [["prefill", 1, 0], ["decode", 1, 0], ["decode", 1, 6], ["decode", 3, 0], ["decode", 3, 6]]'
json '.rows | (.[2].macs_per_step - .[1].macs_per_step) * 3 == .[4].macs_per_step - .[3].macs_per_step'
json '.rows | .[2].bytes_per_step - .[1].bytes_per_step == .[4].bytes_per_step - .[3].bytes_per_step'
json '.rows | .[2].bytes_per_step > .[1].bytes_per_step and .[2].checksum != .[1].checksum'
code 0 bench -m "$file" $short --shared-prefix 4 --adapter-rank 6 --adapter-storage f32 --streams 1
json '.rows | map(.adapter_rank) == [0, 0, 6]'

# What a switcher adds to the prompt.
code 0 bench -m "$file" --prompt 8 --generate 0 --switcher --json
json '.switcher | (.own_ms | number) > 0 and (.own_share * .alone_ms / .own_ms - 1 | fabs) < 1e-9 and .pairs == 24 and (.alone_ms | number) > 0 and (.with_ms | number) > 0 and .share_low <= .share and .share <= .share_high'
code 0 bench -m "$file" --prompt 8 --generate 0 --switcher
has "$out" "own work on a prompt of 8 tokens"
code 2 bench -m "$file" --prompt 0 --switcher
has "$err" "--switcher is about the prompt"

# Command lines that make no sense, and files that are none.
code 2 bench --shape nonsense
has "$err" "--shape is one of smollm2-135m|"
code 2 bench -m "$file" extra
has "$err" '"extra" is one argument too many'
for streams in 0 1,65 1x , 1, "" 1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1; do
    code 2 bench -m "$file" --streams "$streams"
    has "$err" "--streams takes numbers from 1 to 64"
done
code 2 bench -m "$file" --shared-prefix 8 --context 7
has "$err" "--context 7 is less than the shared prefix of 8"
code 2 bench -m "$file" --generate 1000
has "$err" "--generate is 1000"
code 2 bench -m "$file" --threads x
has "$err" '--threads wants a whole number, not "x"'
code 2 bench --shape smollm2-135m --activations int4
has "$err" "--activations is one of int16|int8"
code 2 bench --shape smollm2-135m --group 48
has "$err" "--group is 32, 64, 128 or 0, not 48"
code 2 bench -m "$file" --shape smollm2-135m
has "$err" "exclude each other"
code 2 bench -m "$file" --prompt 0 --generate 0
has "$err" "nothing to measure"
code 1 bench -m "$file" --prompt 60000
has "$err" "60000 positions"
one_sentence
code 1 bench -m "$models/qwen2-tiny"
has "$err" "is not quantized"
one_sentence
code 1 bench -m "$work/nowhere"
has "$err" "$work/nowhere"
one_sentence
head -c 3000 "$file" >"$work/cut.gguf"
code 1 bench -m "$work/cut.gguf"
one_sentence
EDGEWISE_ISA=abacus "$EDGEWISE" bench -m "$file" >"$out" 2>"$err"
check_code 1 $? "bench with EDGEWISE_ISA=abacus"
has "$err" "abacus"

finish
