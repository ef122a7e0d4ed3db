"""Data to bins: counting values, binning, bundles, checks, files of text."""
