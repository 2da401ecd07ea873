"""The papers' tables and figures, run again: ours next to theirs. `python -m experiments list` names them."""
