"""What is concluded from all other tables: claims, the answer, why it is not faster, and what to do."""
