"""Plots of all layers: γ, energies, agreement, differences."""
