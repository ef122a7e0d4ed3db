"""Compiled work: formulas, loops over ranges of rows or bins, and nothing else.

Kernels take arrays and scalars, write into OUT arrays, never raise, never print and never hold the GIL.
"""
