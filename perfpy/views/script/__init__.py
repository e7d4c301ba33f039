"""perf script's text: `run` writes it, `lines` joins a sample's cached pieces, `eventlines` knows each event's fields."""
