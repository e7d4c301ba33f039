"""One batch of samples as numbers: its view, locations, callchains, fingerprints."""
