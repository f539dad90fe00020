"""Matrix products: of every shape, packed ahead, and what is written in terms of them."""
