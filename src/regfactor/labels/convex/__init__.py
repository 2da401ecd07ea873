"""Labels as a second view of the inputs, at the global optimum."""
