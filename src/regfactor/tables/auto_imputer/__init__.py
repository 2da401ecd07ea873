"""The table, filled: a cascade of models, averaged by the entries that were held out."""
