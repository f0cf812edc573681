"""How fast this machine embeds, by part and beside the peers: begin with `run.py`."""
