"""After a fault: doctor, repair, backup, restore, move."""
