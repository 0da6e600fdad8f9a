. "$(dirname "$0")/support.sh"
model="$models/qwen2-tiny"

# chat ARGUMENTS...: standard input is $work/in.
chat() {
    "$EDGEWISE" chat "$@" <"$work/in" >"$out" 2>"$err"
    check_code 0 $? "chat $*"
}

# The first reply is that of run; nothing but replies on stdout.
printf 'hi\n' >"$work/in"
chat "$model" --max-tokens 8 --temperature 0
code=0
"$EDGEWISE" run "$model" hi --max-tokens 8 --temperature 0 >"$work/run" 2>/dev/null || code=$?
cmp -s "$out" "$work/run" || problem "chat and run answer differently"
printf 'hi' >"$work/in"
chat "$model" --max-tokens 8 --temperature 0
cmp -s "$out" "$work/run" || problem "a last line without a line end is read differently"
printf 'hi\r\n\n' >"$work/in"
chat "$model" --max-tokens 8 --temperature 0
cmp -s "$out" "$work/run" || problem "CR LF or an empty line makes a difference"

# /clear forgets, and so the reply is the first one again; without it the conversation goes on.
printf 'hi\n/clear\nhi\n' >"$work/in"
chat "$model" --max-tokens 8 --temperature 0
cat "$work/run" "$work/run" | cmp -s - "$out" || problem "/clear does not forget"

# Commands.
printf '/help\n/stats\nhi\n/stats\n/nonsense\n/quit\nhi\n' >"$work/in"
chat "$model" --max-tokens 8 --temperature 0
cmp -s "$out" "$work/run" || problem "/quit does not leave, or a command printed to stdout"
has "$err" "/system TEXT"
has "$err" "tokens/s"
has "$err" "/nonsense is no command"
printf '/system Sing.\nhi\n' >"$work/in"
chat "$model" --max-tokens 8 --temperature 0
cp "$out" "$work/system"
printf 'hi\n' >"$work/in"
chat "$model" --max-tokens 8 --temperature 0 --system "Sing."
cmp -s "$out" "$work/system" || problem "/system and --system differ"
printf 'one \\\ntwo\n' >"$work/in"
chat "$model" --max-tokens 8 --temperature 0
"$EDGEWISE" run "$model" "one 
two" --max-tokens 8 --temperature 0 >"$work/run2" 2>/dev/null
cmp -s "$out" "$work/run2" || problem "a continued line is another prompt"

# A full context drops old turns and says so; a message that never fits is refused and the chat goes on.
for i in 1 2 3 4 5 6 7 8; do echo "message number $i"; done >"$work/in"
chat "$model" --max-tokens 8 --temperature 0 --context 128
has "$err" "oldest messages were left out"
{ head -c 3000 /dev/zero | tr '\0' x; printf '\nhi\n'; } >"$work/in"
"$EDGEWISE" chat "$model" --max-tokens 8 --temperature 0 --context 128 <"$work/in" >"$out" 2>"$err"
check_code 1 $? "chat with a message too long"
has "$err" "context"
cmp -s "$out" "$work/run" || problem "the chat did not go on after a refused message"

# Nothing to read; a model that is not there.
: >"$work/in"
chat "$model"
[ -s "$out" ] && problem "a chat without input says something"
code 1 chat "$work/nowhere"
one_sentence

finish
