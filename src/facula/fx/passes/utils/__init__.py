"""Tools of passes: finding subgraphs and taking them out."""
