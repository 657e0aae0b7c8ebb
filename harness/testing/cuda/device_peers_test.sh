#!/usr/bin/env bash
# Tests scripts/device_peers.py with a stand-in for PyTorch: which cases of a suite it times, that
# it times the device and not the host, and what it says where that is impossible.
# usage: device_peers_test.sh SOURCE_DIR
# Exit code 77 (skipped): no python3.
set -euo pipefail
script=$1/scripts/device_peers.py
python3 -c '' 2>/dev/null || { echo "NOT TESTED: no python3"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
die() { echo "$*"; cat said peers.jsonl; exit 1; }

# A device on which a call takes 4 us, and a host that needs 20 us for one. The back end `flash`
# takes no bias; with a bias, `efficient` cannot be captured.
cat >torch.py <<'PYTHON'
import contextlib, sys, types, warnings

__version__, float16, bfloat16 = "stand-in", "f16", "bf16"
version = types.SimpleNamespace(cuda="13.0")
backends = types.SimpleNamespace(cudnn=types.SimpleNamespace(version=lambda: 92000))
now_us, graph, backend = 0.0, None, None

class Tensor:
    def __init__(self, dims):
        self.dims = dims
    def expand(self, *dims):
        return self

def randn(*dims, device, dtype):
    assert all(isinstance(dim, int) for dim in dims) and device == "cuda"
    return Tensor(dims)

def manual_seed(seed):
    pass

class Event:
    def __init__(self, enable_timing):
        self.at = None
    def record(self):
        self.at = now_us
    def synchronize(self):
        pass
    def elapsed_time(self, end):
        return (end.at - self.at) / 1e3

class Stream:
    def wait_stream(self, other):
        pass

class CUDAGraph:
    calls = 0
    def replay(self):
        global now_us
        now_us += 4.0 * self.calls

@contextlib.contextmanager
def capturing(into):
    global graph
    graph = into
    try:
        yield
    finally:
        graph = None

@contextlib.contextmanager
def sdpa_kernel(wanted):
    global backend
    backend = wanted
    yield

def scaled_dot_product_attention(q, k, v, is_causal, attn_mask=None):
    global now_us
    if attn_mask and backend == "flash":
        warnings.warn("flash takes no bias")
        raise RuntimeError("No available kernel.\nAborting.")
    if q.dims[2] == 9000:
        assert graph is None
        now_us += 3000.0
    elif graph is None:
        now_us += 20.0
    elif attn_mask and backend == "efficient":
        raise RuntimeError("not while a stream is capturing\nmore")
    else:
        graph.calls += 1

cuda = types.SimpleNamespace(
    Event=Event, Stream=Stream, CUDAGraph=CUDAGraph, graph=capturing,
    stream=lambda stream: contextlib.nullcontext(), current_stream=Stream,
    synchronize=lambda: None, _sleep=lambda cycles: None, get_device_name=lambda: "a stand-in")
nn = types.ModuleType("torch.nn")
nn.functional = types.SimpleNamespace(scaled_dot_product_attention=scaled_dot_product_attention)
nn.attention = types.ModuleType("torch.nn.attention")
nn.attention.sdpa_kernel = sdpa_kernel
nn.attention.SDPBackend = types.SimpleNamespace(
    CUDNN_ATTENTION="cudnn", FLASH_ATTENTION="flash", EFFICIENT_ATTENTION="efficient")
sys.modules["torch.nn"], sys.modules["torch.nn.attention"] = nn, nn.attention
PYTHON
defaults='"operation": "softmax", "dtypes": ["f32", "bf16", "f16"], "head_dim": 64'
windows='"grid_height": 8, "grid_width": 8, "window_height": 4, "window_width": 4'
bias='"bias": [1, 1, 100, 200], "dtypes": ["f16"]'
cat >suite.json <<SUITE
{"name": "some", "defaults": {$defaults}, "cases": [
  {"name": "long", "seq_len_q": 9000, "dtypes": ["f16"]},
  {"name": "full", "batch": 2, "num_heads": 3, "seq_len_q": 100},
  {"name": "causal", "seq_len_q": 100, "causal": true, "dtypes": ["bf16"]},
  {"name": "bias", "seq_len_q": 100, "seq_len_kv": 200, $bias},
  {"name": "bottom_right", "seq_len_q": 100, "causal": "bottom_right"},
  {"name": "windows", "seq_len_q": 64, $windows},
  {"name": "sweep", "seq_len_q": "tokens"},
  {"name": "linear", "operation": "linear", "seq_len_q": 100}
]}
SUITE
: >peers.jsonl
PYTHONPATH=$work python3 "$script" suite.json peers.jsonl >said 2>&1 || die "it fails"
count() { grep -c "$@" peers.jsonl || true; }
[[ $(count '"type": "peer"') == 15 ]] || die "not the cases that PyTorch has words for"
[[ $(count '"case": "full", "dtype": "f16"') == 3 && $(count '"case": "causal"') == 3 ]] ||
  die "not each back end"
[[ $(count '"median_ns": 4000.0.*"replayed_runs": 100') == 10 ]] || die "it times the host"
[[ $(count '"case": "long".*"median_ns": 3000000.0.*"samples": 25') == 3 ]] ||
  die "a long call is not timed by itself"
# 2 x 3 heads, 100 x 100 pairs, 64 channels, 4 operations: 15.36 MFLOP in 4 us; causal: 5,050 pairs
[[ $(count '"case": "full".*"tflops": 3.84') == 6 ]] || die "not the rate of full attention"
[[ $(count '"case": "causal".*"tflops": 0.3232') == 3 ]] || die "not the rate of causal attention"
[[ $(count '"unsupported": "No available kernel.; flash takes no bias"') == 1 ]] ||
  die "the reason of the back end is lost"
grep -q '"median_ns": 20000.0.*"not_replayed": "not while a stream is capturing"' peers.jsonl ||
  die "calls that cannot be captured are not timed, or it is not said"
grep -q '^bias f16 efficient: 20.0 us, .*; not replayed: not while' said || die "it is not printed"
PYTHONPATH=$work python3 "$script" suite.json peers.jsonl 0 >said 2>&1 ||
  die "without time it fails"
[[ $(count '"type": "peer"') == 0 ]] &&
  grep -q '"left_out": \["full bf16", "causal bf16", "long f16", "full f16", "bias' peers.jsonl ||
  die "what is left out is not named"
