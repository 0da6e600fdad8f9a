. "$(dirname "$0")/support.sh"
model="$models/qwen2-tiny"

code 0 logits "$model" --ids 46,140,41 --json --top 3 --weights f32
json 'd["n"] == 3 and d["ids"] == [46, 140, 41] and len(d["positions"]) == 3'
json 'all(len(p["top"]) == 3 and p["top"][0]["logit"] >= p["top"][1]["logit"] >= p["top"][2]["logit"] for p in d["positions"])'
json '"next_logprob" in d["positions"][0] and "next_logprob" not in d["positions"][2]'
json 'abs(sum(math.exp(t["logprob"]) for t in d["positions"][0]["top"])) <= 1'
cp "$out" "$work/ids"
printf '[46, 140,\n 41]\n' >"$work/file"
code 0 logits "$model" --ids-file "$work/file" --json --top 3 --weights f32
cmp -s "$out" "$work/ids" || problem "--ids and --ids-file differ"
code 0 logits "$model" --ids "46 140 41" --top 2
[ "$(wc -l <"$out")" -eq 3 ] || problem "not one line a position"
code 0 logits "$model" --prompt "Hello" --json
json 'd["n"] == len(d["positions"]) > 0'

# The goldens, through the file that is written: F32 from the folder.
python3 - "$EDGEWISE_TEST_DATA/goldens/forward" "$EDGEWISE" "$models" "$work" <<'PYTHON' || problem "the goldens do not hold"
import json, struct, subprocess, sys
from array import array
goldens, command, models, work = sys.argv[1:]

def read(path):
    data = open(path, "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    header, body = json.loads(data[8:8 + size]), data[8 + size:]
    out = {}
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            out[name] = (entry["dtype"], entry["shape"], array("f" if entry["dtype"] == "F32" else "i", body[begin:end]))
    return out

bad = 0
for name, tolerance in (("qwen2-tiny", 1e-4), ("qwen3-tiny", 1e-4), ("llama-tiny", 1e-4)):
    golden = read(f"{goldens}/{name}.safetensors")
    ids = json.load(open(f"{goldens}/{name}.json"))["seqs"][0]["ids"]
    hashes = set()
    for chunk in (1, 7, 128):
        subprocess.run([command, "logits", f"{models}/{name}", "--weights", "f32", "--ids", ",".join(map(str, ids)),
                        "--chunk", str(chunk), "-o", f"{work}/out.safetensors"], check=True, stdout=subprocess.DEVNULL)
        got = read(f"{work}/out.safetensors")
        positions = golden["seq0.positions"][2]
        for key, wanted in (("logits", "seq0.logits"), ("hidden", "seq0.hidden_after_final_norm")):
            kind, shape, values = got[key]
            width = shape[1]
            assert kind == "F32" and shape[0] == len(ids) and golden[wanted][1][1] == width
            worst = max(abs(values[p * width + i] - golden[wanted][2][row * width + i])
                        for row, p in enumerate(positions) for i in range(width))
            if not worst <= tolerance:
                print(name, chunk, key, "off by", worst)
                bad += 1
sys.exit(bad > 0)
PYTHON

code 1 logits "$model" --ids 1,x
has "$err" '"x" is no token id'
one_sentence
code 1 logits "$model" --ids 5,320
has "$err" "ids are 0 to 319"
one_sentence
code 1 logits "$model" --ids ""
has "$err" "at least one"
code 1 logits "$model" --ids-file "$work/nowhere"
one_sentence
code 1 logits "$model" --ids 1 -o "$work/no/such/folder/out"
one_sentence
python3 -c 'print(",".join(["5"] * 2000))' >"$work/long"
code 1 logits "$model" --ids-file "$work/long" -o "$work/half"
has "$err" "context"
ls "$work" | grep -q half && problem "a half-written file is left"

finish
