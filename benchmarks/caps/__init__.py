"""Whether caps hold, by the bill of a provider: `benchmarks.caps.measure`."""
