"""Ways to exchange gradients: `default_hooks` sends them whole or in half precision."""
