"""Fair labels for multiclass machine learning."""
