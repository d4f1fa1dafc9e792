"""The plots: heterogeneity along the model, spectra, energies."""
