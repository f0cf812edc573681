"""How fast relmo runs on this machine, by part and beside its peers: begin with `embedding.py`."""
