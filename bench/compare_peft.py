#!/usr/bin/env python3
"""Training with Edgewise beside PyTorch with PEFT on the CPU, in one run.

    pip install torch transformers peft
    python3 bench/compare_peft.py [--shape smollm2-135m | --model FOLDER] [--rounds 3] [--threads 2]
    python3 bench/compare_peft.py --prompt 256 --length 256

Both train a LoRA adapter on all linear layers of the same float weights (a shape's are random and written by PyTorch; a folder is
a Hugging Face one), on the same tokens, with AdamW, in processes of their own. Rounds alternate between the two, the one that does
not run waits; medians are compared. PyTorch takes the batch as a whole or in parts whose gradients add up (--parts), each in a
process that stays from round to round, and its fastest counts; Edgewise is `edgewise bench --train` with one step a round. With
--prompt Edgewise also runs masked: the prompt by the base alone, without gradient. The losses before the first step are compared,
so that both are known to do the same work. Memory is the most that each process ever had in it. OpenBLAS and PyTorch's library
each take the fastest kernel that they have for the machine; the report says which.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

SHAPES = {  # layers, width, heads, KV heads, feed-forward, vocabulary, RoPE theta, class of the configuration
    "smollm2-135m": (30, 576, 9, 3, 1536, 49152, 1e5, "LlamaConfig"),
    "qwen2.5-0.5b": (24, 896, 14, 2, 4864, 151936, 1e6, "Qwen2Config"),
    "qwen2.5-1.5b": (28, 1536, 12, 2, 8960, 151936, 1e6, "Qwen2Config"),
}
LINEARS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


def peak_memory():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM:"))


# ---- PyTorch's side: this file as a process of its own ----


def write_shape(folder, shape):
    import torch
    import transformers

    layers, width, heads, kv_heads, ff, vocab, theta, kind = SHAPES[shape]
    transformers.logging.disable_progress_bar()
    torch.manual_seed(1)
    config = getattr(transformers, kind)(
        num_hidden_layers=layers,
        hidden_size=width,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        intermediate_size=ff,
        vocab_size=vocab,
        rope_theta=theta,
        rope_parameters={"rope_type": "default", "rope_theta": theta},
        max_position_embeddings=32768,
        rms_norm_eps=1e-6,
        tie_word_embeddings=True,
        bos_token_id=0,
        eos_token_id=0,
    )
    transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32).save_pretrained(folder)


class Torch:
    """A model with an adapter, and its batch. Tokens are those of `edgewise bench --train`."""

    def __init__(self, options, folder):
        import peft
        import torch
        import transformers

        transformers.logging.set_verbosity_error()
        transformers.logging.disable_progress_bar()
        self.torch = torch
        self.part = options.part
        torch.set_num_threads(options.threads)
        self.baseline = peak_memory()
        torch.manual_seed(1)
        base = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="sdpa")
        settings = peft.LoraConfig(
            r=options.rank, lora_alpha=2 * options.rank, lora_dropout=0.0, target_modules=LINEARS, task_type="CAUSAL_LM"
        )
        self.model = peft.get_peft_model(base, settings)
        self.model.train()
        self.optimizer = torch.optim.AdamW((p for p in self.model.parameters() if p.requires_grad), lr=1e-4, weight_decay=0.0)
        n = options.prompt + options.length
        vocab = base.config.vocab_size
        ids = [[((k * n + i) * 7919 + k * 104729 + 17) % vocab for i in range(n)] for k in range(options.batch)]
        self.ids = torch.tensor(ids)
        self.labels = self.ids.clone()
        self.labels[:, : options.prompt + 1 if options.prompt else 0] = -100
        self.versions = f"PyTorch {torch.__version__}, transformers {transformers.__version__}, PEFT {peft.__version__}"

    def gradient(self, begin, end):
        """Of the mean over these sequences, times their part of the batch: all have the same number of targets."""
        loss = self.model(input_ids=self.ids[begin:end], labels=self.labels[begin:end], use_cache=False).loss
        loss = loss * ((end - begin) / len(self.ids))
        loss.backward()
        return loss.item()

    def step(self):
        start = time.perf_counter()
        self.optimizer.zero_grad(set_to_none=True)
        loss = sum(self.gradient(k, min(k + self.part, len(self.ids))) for k in range(0, len(self.ids), self.part))
        self.torch.nn.utils.clip_grad_norm_((p for p in self.model.parameters() if p.requires_grad), 1.0)
        self.optimizer.step()
        return {"seconds": time.perf_counter() - start, "loss": loss}


def serve(options):
    """Answers each line of standard input with one of standard output."""
    worker = Torch(options, options.serve)
    worker.gradient(0, 1)  # warms up
    print(json.dumps({"versions": worker.versions, "baseline": worker.baseline}), flush=True)
    for _ in sys.stdin:
        print(json.dumps(dict(worker.step(), peak=peak_memory())), flush=True)


def torch_products():
    """What multiplies matrices in PyTorch: the lines that its libraries print about themselves."""
    program = "import torch; torch.nn.Linear(576, 1536)(torch.randn(512, 576))"
    environment = dict(os.environ, MKL_VERBOSE="1", ONEDNN_VERBOSE="1")
    result = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, env=environment, check=True)
    lines = result.stdout.decode().splitlines()
    if any("SGEMM" in line for line in lines):
        about = next(line for line in lines if line.startswith("MKL_VERBOSE"))
        return about.removeprefix("MKL_VERBOSE ").split(", ")[0].split(" for Intel(R) 64 architecture ")
    return ["oneDNN" if any("onednn_verbose" in line and "matmul" in line for line in lines) else "unknown"]


# ---- Both in turn ----


def edgewise_step(options, folder, *more):
    command = [options.edgewise, "bench", "--train", "--json", "--steps", "1", "--weights", "f32", "-m", folder]
    for name in ("batch", "length", "prompt", "rank", "threads"):
        command += [f"--{name}", str(getattr(options, name))]
    return json.loads(subprocess.run(command + list(more), check=True, stdout=subprocess.PIPE).stdout)


def tell(kind, steps):
    print(f"{kind}: step {len(steps)} took {steps[-1]['seconds']:.2f} s", file=sys.stderr)


def run(options, folder):
    hows = ["", "masked, "] if options.prompt else [""]
    workers = {}
    for part in sorted({min(int(n), options.batch) for n in options.parts.split(",")}):
        arguments = [f"--{name}={getattr(options, name)}" for name in ("batch", "length", "prompt", "rank", "threads")]
        workers[f"PyTorch + PEFT, {part} at once"] = subprocess.Popen(
            [sys.executable, __file__, "--serve", folder, f"--part={part}"] + arguments,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
    starts = [json.loads(worker.stdout.readline()) for worker in workers.values()]
    theirs = {kind: [] for kind in workers}
    ours = {f"Edgewise, {how}{products}": [] for products in options.products.split(",") for how in hows}
    machines = {}
    for round_number in range(options.rounds):
        for kind, worker in workers.items():
            worker.stdin.write("step\n")
            worker.stdin.flush()
            theirs[kind].append(json.loads(worker.stdout.readline()))
            tell(kind, theirs[kind])
        for kind in ours:
            more = ["--products", kind.split()[-1]] + ([] if "masked" in kind else ["--unmasked"])
            result = edgewise_step(options, folder, *more)
            machines[result["machine"]["products"]] = result["machine"]
            row = result["rows"][0]
            ours[kind].append({"seconds": row["step_ms"] / 1000, "loss": row["loss"], "peak": row["peak_memory_bytes"]})
            tell(kind, ours[kind])
    for worker in workers.values():
        worker.stdin.close()
        worker.wait()
    return starts[0], machines, theirs, ours


def median_seconds(steps):
    return statistics.median(step["seconds"] for step in steps)


def report(options, start, machines, theirs, ours):
    machine = next(iter(machines.values()))
    best = min(theirs, key=lambda kind: median_seconds(theirs[kind]))
    print(f"{machine['cpu']}, {options.threads} threads; {options.model or options.shape}, rank {options.rank}, "
          f"{options.batch} sequences of {options.prompt} + {options.length} tokens; medians of {options.rounds} rounds; "
          f"ratios to {best}")
    print(f"{start['versions']}; products by {', '.join(torch_products())}; {start['baseline'] / 1e6:.0f} MB once it is loaded")
    print(f"Edgewise: products by {', '.join(machines)}")
    print(f"{'':27} response tokens/s  ratio   step s (least, most)    peak MB  ratio  loss before")
    fastest, most = median_seconds(theirs[best]), max(step["peak"] for step in theirs[best])
    for kind, steps in {**theirs, **ours}.items():
        seconds, peak = [step["seconds"] for step in steps], max(step["peak"] for step in steps)
        median = statistics.median(seconds)
        print(f"{kind:27} {options.batch * options.length / median:17.1f} {fastest / median:5.2f}x   "
              f"{median:6.2f} ({min(seconds):.2f}, {max(seconds):.2f})".ljust(78)
              + f"{peak / 1e6:7.0f} {peak / most:5.2f}x  {steps[0]['loss']:.4f}")
    expected, found = theirs[best][0]["loss"], next(iter(ours.values()))[0]["loss"]
    if abs(expected - found) > 1e-3 * expected:
        raise SystemExit("the losses differ: the two did not do the same work")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", default="smollm2-135m", choices=sorted(SHAPES))
    parser.add_argument("--model", help="a Hugging Face folder instead of a shape")
    parser.add_argument("--edgewise", default="build/release/edgewise")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--prompt", type=int, default=0, help="tokens before each response; Edgewise then runs masked too")
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--parts", default="1,8", help="sequences that PyTorch takes at once (1,8)")
    parser.add_argument("--part", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--products", default="float32", help="Edgewise's: float32,bf16x3 where there are AMX tiles (float32)")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--write", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        return serve(options)
    if options.write:
        return write_shape(options.write, options.shape)
    with tempfile.TemporaryDirectory() as folder:
        if not options.model:
            subprocess.run([sys.executable, __file__, "--write", folder, "--shape", options.shape], check=True)
        report(options, *run(options, options.model or folder))


if __name__ == "__main__":
    main()
