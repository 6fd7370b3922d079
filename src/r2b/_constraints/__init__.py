"""What is asked of the labels: families of groups and bounds on their means; no row is seen."""
