"""Recovery after a fault: doctor, repair, backup, restore, move."""
