"""What is asked of the labels: families of groups and the bounds on their means. Nothing here sees a row."""
