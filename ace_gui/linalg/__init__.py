"""Pure tensor functions: centring, heterogeneity, solves, polar factors, spectra.

They do not use files, recipes or devices. Every tensor stays on its device, and all factorisations
are in float64.
"""
