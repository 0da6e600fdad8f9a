#!/usr/bin/env python3
"""Edgewise beside llama.cpp on the same shapes, in one run.

    pip install llama-cpp-python gguf numpy
    python3 bench/compare_llama.py [--shape qwen2.5-0.5b] [--rounds 3] [--threads 2]
    python3 bench/compare_llama.py --model SmolLM2-135M-Instruct.Q4_1.gguf --edgewise-model smollm2.gguf --prompt 200

A shape is written as a GGUF with random weights (Q4_0, the tied head Q8_0, no vocabulary) for llama.cpp, and made in memory by
`edgewise bench`. Rounds alternate between the two, and the medians are compared. llama.cpp runs with and without flash
attention and with two sizes of micro-batch, and its best of each row counts; Edgewise runs with INT16 and INT8 activations.
"""
import argparse
import ctypes
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

SHAPES = {  # layers, width, heads, KV heads, head size, feed-forward, vocabulary
    "smollm2-135m": (30, 576, 9, 3, 64, 1536, 49152),
    "qwen2.5-0.5b": (24, 896, 14, 2, 64, 4864, 151936),
    "qwen2.5-1.5b": (28, 1536, 12, 2, 128, 8960, 151936),
}


def write_shape(path, shape):
    import gguf

    layers, width, heads, kv_heads, head_dim, ff, vocab = SHAPES[shape]
    random = np.random.default_rng(1)
    writer = gguf.GGUFWriter(path, "qwen2")
    writer.add_block_count(layers)
    writer.add_context_length(32768)
    writer.add_embedding_length(width)
    writer.add_feed_forward_length(ff)
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(1e6)
    writer.add_vocab_size(vocab)
    writer.add_tokenizer_model("none")

    def quantized(name, rows, cols, kind, block_bytes, spread):
        blocks = random.integers(0, 256, (rows, cols // 32, block_bytes), dtype=np.uint8)
        scale = np.float16(1 / (spread * cols**0.5))
        blocks[:, :, :2] = np.frombuffer(scale.tobytes(), np.uint8)
        writer.add_tensor(name, blocks.reshape(rows, -1), raw_dtype=kind)

    def linear(name, rows, cols):
        if cols % 32:
            raise SystemExit(f"{name}: {cols} inputs are no multiple of 32")
        quantized(name, rows, cols, gguf.GGMLQuantizationType.Q4_0, 18, 4.6)

    def vector(name, n, value):
        writer.add_tensor(name, np.full(n, value, np.float32))

    quantized("token_embd.weight", vocab, width, gguf.GGMLQuantizationType.Q8_0, 34, 74)
    vector("output_norm.weight", width, 1)
    for i in range(layers):
        block = f"blk.{i}."
        vector(block + "attn_norm.weight", width, 1)
        vector(block + "ffn_norm.weight", width, 1)
        for name, rows in (("q", heads * head_dim), ("k", kv_heads * head_dim), ("v", kv_heads * head_dim)):
            linear(f"{block}attn_{name}.weight", rows, width)
            vector(f"{block}attn_{name}.bias", rows, 0.01)
        linear(block + "attn_output.weight", width, heads * head_dim)
        linear(block + "ffn_gate.weight", ff, width)
        linear(block + "ffn_up.weight", ff, width)
        linear(block + "ffn_down.weight", width, ff)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


class Llama:
    """One context of llama.cpp; times are in seconds."""

    def __init__(self, api, model, threads, flash, micro_batch, vocab):
        self.api = api
        self.vocab = vocab
        parameters = api.llama_context_default_params()
        parameters.n_ctx = 8192
        parameters.n_batch = 512
        parameters.n_ubatch = micro_batch
        parameters.n_seq_max = 16
        parameters.n_threads = parameters.n_threads_batch = threads
        parameters.flash_attn_type = flash
        if hasattr(parameters, "kv_unified"):
            parameters.kv_unified = True
        self.context = api.llama_init_from_model(model, parameters)
        self.memory = api.llama_get_memory(self.context)
        self.batch = api.llama_batch_init(512, 0, 1)

    def decode(self, tokens, positions, sequences, wants_logits):
        batch = self.batch
        batch.n_tokens = len(tokens)
        for i, token in enumerate(tokens):
            batch.token[i] = token
            batch.pos[i] = positions[i]
            batch.n_seq_id[i] = 1
            batch.seq_id[i][0] = sequences[i]
            batch.logits[i] = wants_logits(i)
        if self.api.llama_decode(self.context, batch) != 0:
            raise SystemExit("llama.cpp refused a batch")
        self.api.llama_get_logits_ith(self.context, len(tokens) - 1)

    def token(self, i):
        return (i * 7919 + 17) % self.vocab

    def fill(self, n):
        """n positions in sequence 0; returns how long the last call took in all."""
        self.api.llama_memory_clear(self.memory, True)
        start = time.perf_counter()
        for begin in range(0, n, 512):
            part = range(begin, min(n, begin + 512))
            self.decode([self.token(i) for i in part], list(part), [0] * len(part), lambda i: int(begin + i == n - 1))
        return time.perf_counter() - start

    def steps(self, streams, prefix, generate):
        self.fill(prefix)
        for k in range(1, streams):
            self.api.llama_memory_seq_cp(self.memory, 0, k, 0, -1)
        times = []
        for step in range(generate):
            start = time.perf_counter()
            self.decode(
                [self.token(step + k) for k in range(streams)],
                [prefix + step] * streams,
                list(range(streams)),
                lambda i: 1,
            )
            times.append(time.perf_counter() - start)
        return statistics.median(times)

    def close(self):
        self.api.llama_batch_free(self.batch)
        self.api.llama_free(self.context)


def edgewise_rows(options, activations):
    command = [options.edgewise, "bench", "--json", "--threads", str(options.threads), "--prompt", str(options.prompt)]
    command += ["--generate", str(options.generate), "--shared-prefix", str(options.prefix), "--streams", options.streams]
    command += ["-m", options.edgewise_model] if options.model else ["--shape", options.shape, "--activations", activations]
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}  # see refuse_amx.c
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment).stdout)


def key_of(row):
    return ("prompt", row["context"]) if row["phase"] == "prefill" else ("decode", row["streams"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", default="qwen2.5-0.5b", choices=sorted(SHAPES))
    parser.add_argument("--model", help="a GGUF file for llama.cpp instead of a shape")
    parser.add_argument("--edgewise-model", help="what `edgewise quantize` made of it")
    parser.add_argument("--edgewise", default="build/release/edgewise")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--generate", type=int, default=16)
    parser.add_argument("--prefix", type=int, default=256)
    parser.add_argument("--streams", default="1,8")
    parser.add_argument("--plain", action="store_true", help="llama.cpp without repacked weights, where its AMX code is refused")
    options = parser.parse_args()
    if bool(options.model) != bool(options.edgewise_model):
        parser.error("--model and --edgewise-model go together")

    import llama_cpp as library

    quiet = library.llama_log_callback(lambda level, text, data: None)
    library.llama_log_set(quiet, ctypes.c_void_p(0))
    library.llama_backend_init()
    folder = tempfile.TemporaryDirectory()
    path = options.model
    if not path:
        path = os.path.join(folder.name, "shape.gguf")
        write_shape(path, options.shape)
    parameters = library.llama_model_default_params()
    parameters.n_gpu_layers = 0
    parameters.use_extra_bufts = not options.plain
    model = library.llama_model_load_from_file(path.encode(), parameters)
    if not model:
        raise SystemExit(f"llama.cpp cannot load {path}")
    vocab = library.llama_vocab_n_tokens(library.llama_model_get_vocab(model))

    streams = [int(n) for n in options.streams.split(",")]
    kinds = ["int16", "int8"] if not options.model else ["as the file says"]
    ours = {kind: {} for kind in kinds}
    theirs = {}
    machine = None
    for round_number in range(options.rounds):
        for kind in kinds:
            result = edgewise_rows(options, kind)
            machine = result["machine"]
            for row in result["rows"]:
                ours[kind].setdefault(key_of(row), []).append(row["tokens_per_s"])
        for flash in (0, 1):
            for micro_batch in (128, 512):
                llama = Llama(library, model, options.threads, flash, micro_batch, vocab)
                setting = f"flash {flash}, micro-batch {micro_batch}"
                llama.fill(min(64, options.prompt))  # warms up
                rate = options.prompt / llama.fill(options.prompt)
                theirs.setdefault(("prompt", options.prompt), {}).setdefault(setting, []).append(rate)
                for n in streams:
                    rate = n / llama.steps(n, options.prefix, options.generate)
                    theirs.setdefault(("decode", n), {}).setdefault(setting, []).append(rate)
                llama.close()
        print(f"round {round_number + 1} of {options.rounds} done", file=sys.stderr)

    print(f"{machine['cpu']}, {options.threads} threads, {machine['isa']} kernels; {options.model or options.shape}; medians of {options.rounds} rounds")
    print("row              llama.cpp tok/s (best setting)              " + "  ".join(f"Edgewise {k} (ratio)" for k in kinds))
    for key, settings in theirs.items():
        best = max(settings, key=lambda s: statistics.median(settings[s]))
        rate = statistics.median(settings[best])
        cells = []
        for kind in kinds:
            own = statistics.median(ours[kind][key])
            cells.append(f"{own:8.1f} ({own / rate:5.2f}x)")
        print(f"{key[0]:7} {key[1]:4}   {rate:10.1f} ({best})".ljust(58) + "   ".join(cells))


if __name__ == "__main__":
    main()
