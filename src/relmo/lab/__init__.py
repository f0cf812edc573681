"""Studies of the models: probes, reports and benchmarks. Only the commands import them."""
