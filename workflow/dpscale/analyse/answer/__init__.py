"""What is concluded from all other tables: claims, the verdict, the one answer, and what to do."""
