"""From tables to what people read: one HTML page, and a summary for the terminal. Free of torch."""
