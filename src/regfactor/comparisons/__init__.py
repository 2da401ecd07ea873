"""Methods that the papers compare with; public as regfactor.baselines."""
