"""What training needs beside a network: data and their shards, models, schedules."""
