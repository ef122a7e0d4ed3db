"""Data: anything to float32 chunks, meta information, cuts, bins, DMatrix."""
