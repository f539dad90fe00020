"""Quantization of exported programs (PT2E): a quantizer annotates a graph, observers are put in, integers come out."""
