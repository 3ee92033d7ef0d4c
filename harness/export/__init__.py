"""A run in the formats of other tools: traces, TensorBoard, Parquet, pandas."""
