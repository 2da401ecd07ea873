"""The papers' tables and figures, run again: ours beside theirs. `python -m experiments list` names them."""
