"""Models outside the process: XGBoost's JSON and UBJSON files, read and written, and trees printed for people.

Imports nothing that compiles: a model can be loaded and inspected without Numba.
"""
