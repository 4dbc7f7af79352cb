"""Several devices and several processes: how a batch of φ is split, and how processes agree."""
