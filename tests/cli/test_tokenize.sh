. "$(dirname "$0")/support.sh"
model="$models/qwen2-tiny"

# The goldens' strings, from the folder.
python3 - "$EDGEWISE_TEST_DATA/goldens/forward/tokenizer-qwen.json" "$EDGEWISE" "$model" "$work" <<'PYTHON' || problem "ids differ"
import json, subprocess, sys
golden, command, model, work = sys.argv[1:]
cases = json.load(open(golden, encoding="utf-8"))
strings = cases.get("strings") or cases.get("cases") or cases["texts"]
bad = 0
for i, case in enumerate(strings):
    path = f"{work}/text{i}"
    open(path, "wb").write(case["text"].encode("utf-8"))
    got = subprocess.run([command, "tokenize", model, "--file", path, "--special", "--json"], capture_output=True)
    d = json.loads(got.stdout)
    if d["ids"] != case["ids"] or d["text"] != case["text"] or len(d["pieces"]) != len(d["ids"]):
        print("differs:", repr(case["text"])[:80], d["ids"][:20], case["ids"][:20])
        bad += 1
sys.exit(bad > 0)
PYTHON

code 0 tokenize "$model" "Hello, world" --json
json 'd["text"] == "Hello, world" and "".join(d["pieces"]) == d["text"] and all(type(i) is int for i in d["ids"])'
cp "$out" "$work/arguments"
printf 'Hello, world' >"$work/text"
code 0 tokenize --json --file="$work/text" "$model"
cmp -s "$out" "$work/arguments" || problem "--file and the argument differ"
"$EDGEWISE" tokenize "$model" --file - --json <"$work/text" >"$out" 2>"$err"
cmp -s "$out" "$work/arguments" || problem "standard input and the argument differ"

# Special tokens only where they are asked for.
code 0 tokenize "$model" "<|im_end|>" --json
json '319 not in d["ids"] and len(d["ids"]) > 1'
code 0 tokenize "$model" "<|im_end|>" --special --json
json 'd["ids"] == [319]'

# Bytes that are no UTF-8, nothing at all, and a text that looks like an option.
printf 'a\377\0b' >"$work/bytes"
code 0 tokenize "$model" --file "$work/bytes" --json
json 'd["text"] == "a\ufffd\0b"'
code 0 tokenize "$model" "" --json
json 'd["ids"] == [] and d["pieces"] == [] and d["text"] == ""'
code 0 tokenize "$model" --json -- --json
json 'd["text"] == "--json"'
code 0 tokenize "$model" "a
b"
has "$out" '\n'

# Conversations.
printf '[{"role":"user","content":"hi <|im_end|>"}]' >"$work/messages"
code 0 tokenize "$model" --chat "$work/messages" --json
json '"You are brief." in d["text"] and d["text"].endswith("assistant\n") and d["ids"].count(319) == 2'
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
