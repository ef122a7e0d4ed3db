"""Level engines: what moves rows, adds up gradients and finds splits for the growth loop (base.py says how)."""
