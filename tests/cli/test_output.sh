# Readers that go away and disks that are full.
. "$(dirname "$0")/support.sh"
model="$models/qwen2-tiny"

if [ -w /dev/full ]; then
    for arguments in "--help" "--version" "run --help" "tokenize $model text" "tokenize $model text --json" \
        "run $model hi --max-tokens 4" "logits $model --ids 1,2 --json"; do
        "$EDGEWISE" $arguments >/dev/full 2>"$err"
        check_code 1 $? "$arguments, disk full"
        has "$err" "cannot write to standard output: No space left on device"
    done
    printf 'hi\nhi\nhi\n' | "$EDGEWISE" chat "$model" --max-tokens 4 >/dev/full 2>"$err"
    check_code 1 $? "chat, disk full"
    has "$err" "No space left on device"
    # A file that cannot be written is told, and nothing of it is left.
    code 1 logits "$model" --ids 1,2 -o /dev/full/out
    one_sentence
fi

# A closed pipe is no news: no message, no crash, and no waiting for the end of the work. File 4 is a pipe that nobody
# reads. Whoever runs this test may ignore SIGPIPE; the command must not count on that.
mkfifo "$work/pipe"
exec 3<>"$work/pipe" 4>"$work/pipe" 3>&-
printf 'hi\nhi\n' >"$work/in"
for arguments in "--help" "tokenize $model text" "run $model hi --max-tokens 200 --weights f32" \
    "logits $model --ids 5,6,7 --weights f32" "chat $model --weights f32"; do
    env --default-signal=PIPE "$EDGEWISE" $arguments <"$work/in" >&4 2>"$err" 4>&-
    check_code 1 $? "$arguments, closed pipe"
    [ -s "$err" ] && problem "a closed pipe is told: $(cat "$err")"
done
exec 4>&-

finish
