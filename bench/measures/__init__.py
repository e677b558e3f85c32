"""What is measured; each module has `main(arguments)` and is a name of `python -m bench`."""
