"""Groups of rows: k-means, mixtures and normalized cuts under Bregman divergences."""
