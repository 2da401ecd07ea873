"""The loop and the small tools that every room uses: factors, linear algebra, parameters."""
