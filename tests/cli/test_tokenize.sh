. "$(dirname "$0")/support.sh"
model="$models/qwen2-tiny"

# The goldens' strings, from the folder.
golden="$EDGEWISE_TEST_DATA/goldens/forward/tokenizer-qwen.json"
strings=$(jq '.strings | length' "$golden")
[ "$strings" -ge 20 ] || problem "no strings in $golden"
i=0
while [ "$i" -lt "$strings" ]; do
    jq -j ".strings[$i].text" "$golden" >"$work/text"
    code 0 tokenize "$model" --file "$work/text" --special --json
    json ".ids == \$golden[0].strings[$i].ids and .text == \$golden[0].strings[$i].text and (.pieces | length) == (.ids | length)" \
        --slurpfile golden "$golden"
    i=$((i + 1))
done

code 0 tokenize "$model" "Hello, world" --json
json '.text == "Hello, world" and (.pieces | add) == .text and all(.ids[]; number == floor)'
grep -q '"ids": *\[[0-9, ]*\]' "$out" || problem "ids that are not whole numbers"
cp "$out" "$work/arguments"
printf 'Hello, world' >"$work/text"
code 0 tokenize --json --file="$work/text" "$model"
cmp -s "$out" "$work/arguments" || problem "--file and the argument differ"
"$EDGEWISE" tokenize "$model" --file - --json <"$work/text" >"$out" 2>"$err"
cmp -s "$out" "$work/arguments" || problem "standard input and the argument differ"

# Special tokens only where they are asked for.
code 0 tokenize "$model" "<|im_end|>" --json
json 'all(.ids[]; . != 319) and (.ids | length) > 1'
code 0 tokenize "$model" "<|im_end|>" --special --json
json '.ids == [319]'

# Bytes that are no UTF-8, nothing at all, and a text that looks like an option.
printf 'a\377\0b' >"$work/bytes"
code 0 tokenize "$model" --file "$work/bytes" --json
json '.text == "a\ufffd\u0000b"'
code 0 tokenize "$model" "" --json
json '.ids == [] and .pieces == [] and .text == ""'
code 0 tokenize "$model" --json -- --json
json '.text == "--json"'
code 0 tokenize "$model" "a
b"
has "$out" '\n'

# Conversations.
printf '[{"role":"user","content":"hi <|im_end|>"}]' >"$work/messages"
code 0 tokenize "$model" --chat "$work/messages" --json
json '(.text | contains("You are brief.") and endswith("assistant\n")) and (.ids | map(select(. == 319)) | length) == 2'
printf '{"messages":[{"role":"user","content":"hi"}]}' >"$work/messages"
code 0 tokenize "$model" --chat "$work/messages" --json
printf '[{"role":"robot","content":"hi"}]' >"$work/messages"
code 1 tokenize "$model" --chat "$work/messages"
has "$err" "robot"
one_sentence
printf '[{"role":"user"}]' >"$work/messages"
code 1 tokenize "$model" --chat "$work/messages"
has "$err" 'message 1 needs "role" and "content"'
one_sentence
printf '[{"role":' >"$work/messages"
code 1 tokenize "$model" --chat "$work/messages"
one_sentence
printf '[]' >"$work/messages"
code 1 tokenize "$model" --chat "$work/messages"
one_sentence

# Files that are not there or nothing of the kind.
code 1 tokenize "$work/nowhere" text
has "$err" "$work/nowhere"
one_sentence
code 1 tokenize "$work/text" text
one_sentence
mkdir "$work/empty"
code 1 tokenize "$work/empty" text
one_sentence
code 1 tokenize "$model" --file "$work/nowhere"
one_sentence

finish
