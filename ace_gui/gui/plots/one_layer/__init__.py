"""Plots of the selected layer: spectra, energies, histograms."""
