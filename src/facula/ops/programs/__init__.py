"""Row, reduction, scan and step programs: what kernels over more than one element are generated from."""
