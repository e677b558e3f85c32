"""Epochs on GPUs: whole cells on the chip for as many steps as the smallest delay.

`epochs` launches; `plan` and `cells` place lanes and values, `spec` is what the template takes.
`lists`: nodes by class where cells have many mechanisms; `lanes`, `rates`, `tables`: lanes, rate
functions and tables of these. With ions and exact delays: `extended_epochs`, `extended_spec`,
`extended_lists`.
"""
