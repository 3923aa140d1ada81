"""What people measured: record, correct, retract, import, the watched inbox."""
