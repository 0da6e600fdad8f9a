# Help, versions and command lines that make no sense.
. "$(dirname "$0")/support.sh"

code 0 --version
has "$out" "edgewise $EDGEWISE_VERSION"
code 0 --help
has "$out" "Commands:"
code 2
has "$err" "a command is needed"
code 2 rum
has "$err" 'unknown command "rum"; did you mean run?'
code 2 xyzzy
has "$err" 'unknown command "xyzzy"'

# Every command that the help lists explains itself.
"$EDGEWISE" --help | sed -n 's/^  \([a-z]*\)  .*/\1/p' >"$work/commands"
[ -s "$work/commands" ] || problem "the help lists no commands"
while read -r command; do
    code 0 "$command" --help
    has "$out" "Usage: edgewise $command"
    has "$out" "Examples:"
    code 0 help "$command"
    has "$out" "Usage: edgewise $command"
    code 2 "$command" --no-such-option
    has "$err" "edgewise $command: unknown option --no-such-option"
    has "$err" "Try: edgewise $command --help"
    [ "$command" = bench ] || code 2 "$command" # bench needs no argument
done <"$work/commands"

model="$models/qwen2-tiny.gguf"
code 2 run "$model"
has "$err" "MODEL PROMPT is needed"
code 2 run "$model" a b
has "$err" '"b" is one argument too many'
code 2 run "$model" hi --max-token 3
has "$err" "unknown option --max-token; did you mean --max-tokens?"
code 2 run "$model" hi --temprature=1
has "$err" "did you mean --temperature?"
code 2 run "$model" hi --max-tokens x
has "$err" '--max-tokens wants a whole number, not "x"'
code 2 run "$model" hi --max-tokens -1
has "$err" '--max-tokens wants a whole number, not "-1"'
code 2 run "$model" hi --max-tokens 99999999999999999999
has "$err" "too large"
code 2 run "$model" hi --max-tokens
has "$err" "--max-tokens wants a value: N"
code 2 run "$model" hi --temperature hot
has "$err" '--temperature wants a number, not "hot"'
code 2 run "$model" hi --temperature nan
has "$err" '--temperature wants a number'
code 2 run "$model" hi --top-p 1.5
has "$err" "--top-p is 1.5; it must be from 0 to 1"
code 2 run "$model" hi --weights f16
has "$err" '--weights is one of auto|f32|bf16, not "f16"'
code 2 run "$model" hi --json=yes
has "$err" "--json takes no value"
code 2 run "$model" hi -x
has "$err" "unknown option -x"
code 2 run "$model" hi --template nonsense
has "$err" "--template is one of"
code 2 logits "$model"
has "$err" "one of --ids, --ids-file and --prompt is needed"
code 2 logits "$model" --ids 1 --prompt x
code 2 tokenize "$model"
has "$err" "one of TEXT, --file and --chat is needed"
code 2 tokenize "$model" text --file x

finish
