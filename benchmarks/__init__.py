"""One file per workload, ours and the peers' in one run.

``python -m benchmarks NAME`` (``make bench-NAME``).
"""
