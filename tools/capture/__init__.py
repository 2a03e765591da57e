"""Golden traces: probe kernels, and the driver that runs them on a GPU. README.md says what each file is."""
