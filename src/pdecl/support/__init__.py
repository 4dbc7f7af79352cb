"""What every room may use: words for people, files, the disk and the machine."""
