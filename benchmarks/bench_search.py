"""How long a query takes over an index, embedding included.

    python benchmarks/bench_search.py INDEX QUERIES.txt [--threads 2]

Prints one JSON object: milliseconds for each kind of query, p50 and p95 over all lines, and
the CPU time, which tells on a busy machine.
"""

import argparse
import json
import resource
import time
from pathlib import Path

import numpy as np
import torch

from relmo.search import SemanticIndex


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("index")
    parser.add_argument("queries", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    queries = args.queries.read_text(encoding="utf-8").splitlines()
    begun = time.perf_counter()
    with SemanticIndex.open(args.index) as index:
        index.search(queries[0], hybrid=True)
        result = {"passages": len(index), "open_s": round(time.perf_counter() - begun, 2)}
        kinds = {"embed": None, "vector": {}, "hybrid": {"hybrid": True}}
        kinds["where"] = {"where": {"year": {">=": 2010}}}
        for name, how in kinds.items():
            took, cpu = [], []
            for query in queries:
                begun, used = time.perf_counter(), time.process_time()
                if how is None:
                    index.encoder.encode([query])
                else:
                    assert index.search(query, 10, **how)
                took.append(1000 * (time.perf_counter() - begun))
                cpu.append(1000 * (time.process_time() - used))
            result[name] = {f"p{p}": round(float(np.percentile(took, p)), 1) for p in (50, 95)}
            result[name]["cpu_p50"] = round(float(np.percentile(cpu, 50)), 1)
    result["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(json.dumps(result))


if __name__ == "__main__":
    main()
