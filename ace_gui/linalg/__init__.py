"""Pure tensor functions: centring, heterogeneity, solves, polar factors, spectra.

They do not use files, recipes or devices; every tensor stays on its device, and
whatever is factorised is factorised in float64.
"""
