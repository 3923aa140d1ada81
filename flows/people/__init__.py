"""What people decide: approve, reject, edit, prioritise, retry, abandon, cancel."""
