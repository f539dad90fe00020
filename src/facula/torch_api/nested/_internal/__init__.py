"""Parts of nested tensors under the names that libraries import; re-exports."""
