"""What holds where: domains, points, conditions, problems, and what is read of u."""
